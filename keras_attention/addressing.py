"""How the heads of a neural Turing machine find their places in its memory.

Pure functions. A head's weights over `N` slots are `(..., H, N)`, `H` heads at a time, and
what steers a head has one number or vector for each: `(..., H, 1)` or `(..., H, M)`. By
content (`content_weights`), then a step from there (`interpolate`, `shift`, `sharpen`):
`address` does all four.
"""

from keras import ops

from keras_attention import masks, normalizers, scores

__all__ = [
    "address",
    "content_weights",
    "interpolate",
    "read",
    "sharpen",
    "shift",
    "write",
]


def content_weights(key, memory, strength, mask=None):
    """`w_i = softmax_i(strength * cosine(key, memory_i))`.

    Args:
        key: `(..., H, M)`.
        memory: `(..., N, M)`.
        strength: `(..., H, 1)`, positive; the larger, the sharper.
        mask: booleans that broadcast to `(..., H, N)`, `True` = may be attended.

    Returns:
        Weights `(..., H, N)`. What is masked has no influence.

    Example:

    >>> import keras
    >>> import numpy as np
    >>> from keras_attention import addressing
    >>> w = addressing.content_weights(np.array([[2.0, 0.0]]), np.eye(2), np.log([[3.0]]))
    >>> print(keras.ops.convert_to_numpy(w).round(4))
    [[0.75 0.25]]

    Reference: Graves et al., 2014 (arXiv:1410.5401), equation 5.
    """
    key, memory, strength = map(ops.convert_to_tensor, (key, memory, strength))
    if mask is not None:
        mask = masks.as_boolean(mask)
        key, memory, _, _ = masks.isolate(key, memory, memory, mask)
    cosine = scores.CosineScore(use_scale=False, dtype=key.dtype)
    alike = ops.cast(strength, key.dtype) * cosine(key, memory)
    return normalizers.Softmax(dtype=key.dtype)(alike, mask=mask)


def interpolate(weights, previous, gate):
    """`gate * weights + (1 - gate) * previous`.

    Args:
        weights: by content, `(..., H, N)`.
        previous: the head's last ones, `(..., H, N)`.
        gate: `(..., H, 1)`, between 0 and 1.

    Returns:
        Weights `(..., H, N)`.

    Example:

    >>> from keras_attention import addressing
    >>> float(addressing.interpolate(1.0, 0.0, 0.25))
    0.25

    Reference: Graves et al., 2014 (arXiv:1410.5401), equation 7.
    """
    weights, previous, gate = map(ops.convert_to_tensor, (weights, previous, gate))
    return gate * weights + (1 - gate) * previous


def shift(weights, steps):
    """`w'_i = sum_j w_j s_(i - j)`, round in a circle.

    Args:
        weights: `(..., H, N)`.
        steps: `(..., H, K)`, `K` odd: how likely each step is, from `-(K // 2)` to
            `K // 2`. The one in the middle is to stay.

    Returns:
        Weights `(..., H, N)`.

    Raises:
        ValueError: if `K` is even.

    Example:

    >>> import keras
    >>> import numpy as np
    >>> from keras_attention import addressing
    >>> weights, forward = np.array([[0.0, 0.2, 0.8]]), np.array([[0.0, 0.0, 1.0]])
    >>> print(keras.ops.convert_to_numpy(addressing.shift(weights, forward)))
    [[0.8 0.  0.2]]

    Reference: Graves et al., 2014 (arXiv:1410.5401), equation 8.
    """
    weights, steps = map(ops.convert_to_tensor, (weights, steps))
    number = steps.shape[-1]
    if number % 2 == 0:
        raise ValueError(
            f"Expected an odd number of steps, the middle one of which is to stay. "
            f"Received: {number}"
        )
    rolled = [ops.roll(weights, k - number // 2, axis=-1) for k in range(number)]
    return sum(steps[..., k : k + 1] * moved for k, moved in enumerate(rolled))


def sharpen(weights, power):
    """`w'_i = w_i ** power / sum_j w_j ** power`.

    Args:
        weights: `(..., H, N)`, not negative.
        power: `(..., H, 1)`, at least 1.

    Returns:
        Weights `(..., H, N)`; 0 stays 0.

    Example:

    >>> import keras
    >>> import numpy as np
    >>> from keras_attention import addressing
    >>> sharp = addressing.sharpen(np.array([[0.25, 0.75, 0.0]]), np.array([[2.0]]))
    >>> print(keras.ops.convert_to_numpy(sharp))
    [[0.1 0.9 0. ]]

    Reference: Graves et al., 2014 (arXiv:1410.5401), equation 9.
    """
    weights, power = map(ops.convert_to_tensor, (weights, power))
    # Through logarithms, as a softmax: large powers vanish, and 0 ** p has no slope in p.
    some = weights > 0
    logarithms = ops.log(ops.where(some, weights, 1.0))
    softmax = normalizers.Softmax(dtype=weights.dtype)
    return softmax(power * logarithms, mask=some)


def address(previous, memory, key, strength, gate, steps, power):
    """A head's weights: by content, mixed with its last ones, moved, sharpened.

    Args:
        previous: the last weights, `(..., H, N)`.
        memory: `(..., N, M)`.
        key: `(..., H, M)`, see `content_weights`.
        strength: `(..., H, 1)`, see `content_weights`.
        gate: `(..., H, 1)`, see `interpolate`.
        steps: `(..., H, K)`, see `shift`.
        power: `(..., H, 1)`, see `sharpen`.

    Returns:
        Weights `(..., H, N)`.

    Example: a gate of 0 leaves the content aside, and the head goes on by one place.

    >>> import keras
    >>> import numpy as np
    >>> from keras_attention import addressing
    >>> one = np.ones((1, 1))
    >>> weights = addressing.address(
    ...     np.array([[0.0, 1.0, 0.0]]), np.ones((3, 2)), np.ones((1, 2)), one, 0 * one,
    ...     np.array([[0.0, 0.0, 1.0]]), one,
    ... )
    >>> print(keras.ops.convert_to_numpy(weights))
    [[0. 0. 1.]]

    Reference: Graves et al., 2014 (arXiv:1410.5401), figure 2.
    """
    weights = content_weights(key, memory, strength)
    weights = interpolate(weights, previous, gate)
    return sharpen(shift(weights, steps), power)


def read(weights, memory):
    """`r = sum_i w_i memory_i`.

    Args:
        weights: `(..., H, N)`.
        memory: `(..., N, M)`.

    Returns:
        What each head reads, `(..., H, M)`.

    Example:

    >>> import keras
    >>> import numpy as np
    >>> from keras_attention import addressing
    >>> found = addressing.read(np.array([[0.5, 0.5]]), np.eye(2))
    >>> print(keras.ops.convert_to_numpy(found))
    [[0.5 0.5]]

    Reference: Graves et al., 2014 (arXiv:1410.5401), equation 2.
    """
    return ops.matmul(weights, memory)


def write(memory, weights, erase, add):
    """`memory_i * prod_h (1 - w_hi erase_h) + sum_h w_hi add_h`.

    Args:
        memory: `(..., N, M)`.
        weights: `(..., H, N)`.
        erase: `(..., H, M)`, between 0 and 1.
        add: `(..., H, M)`.

    Returns:
        The memory after all heads have erased and then added, `(..., N, M)`.

    Example:

    >>> import keras
    >>> import numpy as np
    >>> from keras_attention import addressing
    >>> after = addressing.write(
    ...     np.ones((2, 1)), np.array([[1.0, 0.0]]), np.ones((1, 1)), np.array([[7.0]])
    ... )
    >>> print(keras.ops.convert_to_numpy(after))
    [[7.]
     [1.]]

    Reference: Graves et al., 2014 (arXiv:1410.5401), equations 3 and 4.
    """
    memory, weights, erase, add = map(ops.convert_to_tensor, (memory, weights, erase, add))
    places = ops.expand_dims(weights, -1)
    kept = ops.prod(1 - places * ops.expand_dims(erase, -2), axis=-3)
    return memory * kept + ops.matmul(ops.swapaxes(weights, -1, -2), add)
