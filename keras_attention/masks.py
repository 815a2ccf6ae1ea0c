"""Masks, and the one mask rule: what is masked has no influence.

A mask is boolean, `True` where attention is allowed. Everything that the package knows
about masks stands in this file: how they are checked, how they combine, and how the
numbers under them are kept out of outputs and gradients.
"""

import functools

import keras
import numpy as np
from keras import ops

__all__ = ["as_boolean", "causal_mask", "padding_mask", "window_mask"]


def padding_mask(lengths, max_length):
    """True for the first `lengths` steps of `max_length`.

    Args:
        lengths: integers of any shape `(...)`.
        max_length: number of steps.

    Returns:
        Booleans of shape `(..., max_length)`.

    Example:

    >>> import keras
    >>> print(keras.ops.convert_to_numpy(padding_mask([1, 3], 3)))
    [[ True False False]
     [ True  True  True]]
    """
    lengths = ops.cast(ops.convert_to_tensor(lengths), "int32")
    return ops.arange(max_length, dtype="int32") < ops.expand_dims(lengths, -1)


def causal_mask(query_length, key_length):
    """True where a key is not later than the query.

    The last query sees every key, also when there are more keys than queries, which is
    how a cache of earlier keys is used. With more queries than keys, the first queries
    see nothing.

    Args:
        query_length: number of queries.
        key_length: number of keys.

    Returns:
        Booleans of shape `(query_length, key_length)`.

    Example:

    >>> import keras
    >>> print(keras.ops.convert_to_numpy(causal_mask(2, 3)))
    [[ True  True False]
     [ True  True  True]]
    """
    return window_mask(query_length, key_length, after=0)


def window_mask(query_length, key_length, before=None, after=None):
    """True where a key is at most `before` steps earlier and `after` steps later.

    The last query stands at the last key, as in `causal_mask`.

    Args:
        query_length: number of queries.
        key_length: number of keys.
        before: steps to see backwards; `None` for all.
        after: steps to see forwards; `None` for all.

    Returns:
        Booleans of shape `(query_length, key_length)`.

    Example:

    >>> import keras
    >>> print(keras.ops.convert_to_numpy(window_mask(3, 3, before=1, after=0)))
    [[ True False False]
     [ True  True False]
     [False  True  True]]
    """
    queries = ops.expand_dims(ops.arange(query_length, dtype="int32"), 1)
    ahead = ops.arange(key_length, dtype="int32") - queries
    ahead = ahead - (key_length - query_length)
    mask = ops.ones_like(ahead, dtype="bool")
    if before is not None:
        mask = ops.logical_and(mask, ahead >= -before)
    if after is not None:
        mask = ops.logical_and(mask, ahead <= after)
    return mask


def causal_rows(rows, query_length, key_length):
    """The rows of `causal_mask` for the queries `rows`, integers `(R,)`."""
    last = ops.expand_dims(rows, -1) + (key_length - query_length)
    return ops.arange(key_length, dtype="int32") <= last


def as_boolean(mask, name="mask"):
    """`mask` as booleans, nonzero meaning keep; refuses an additive mask.

    Args:
        mask: array or tensor of any dtype.
        name: what an error calls it.

    Returns:
        Booleans of the same shape.

    Raises:
        ValueError: for negative numbers, which stand for "masked" in an additive mask
            and would be read as "keep". While a graph is traced there are no numbers to
            look at; a negative number then never keeps a position.

    Example:

    >>> import keras
    >>> print(keras.ops.convert_to_numpy(as_boolean([[1, 0, 2]])))
    [[ True False  True]]
    """
    mask = ops.convert_to_tensor(mask)
    dtype = keras.backend.standardize_dtype(mask.dtype)
    if dtype == "bool":
        return mask
    if dtype.startswith("uint"):
        return ops.not_equal(mask, 0)
    lowest = _lowest_number(mask)
    if lowest is not None and lowest < 0:
        raise ValueError(
            f"Expected `{name}` to be boolean, or numbers of which nonzero means keep. "
            f"Received: an additive mask ({dtype}, lowest number {lowest:g}). "
            f"Pass `{name} == 0` instead."
        )
    return mask > 0


def _lowest_number(x):
    try:
        numbers = ops.convert_to_numpy(x)
    except Exception:  # Each backend refuses to read a traced tensor in its own way.
        return None
    return np.min(numbers.astype("float64"), initial=np.inf)


def check_position_mask(name, mask, owner, shape):
    """Raises `ValueError` unless `mask` has `shape` without its last axis."""
    if mask is not None and not agree(np.shape(mask), shape[:-1]):
        raise ValueError(
            f"Expected `{name}` of shape {tuple(shape[:-1])}: that of `{owner}`, "
            f"{tuple(shape)}, without its last axis. "
            f"Received: shape {tuple(np.shape(mask))}"
        )


def check_attention_mask(mask, score_shape):
    """Raises `ValueError` unless `mask` fits scores of `score_shape`."""
    if mask is None:
        return
    shape, rank = tuple(np.shape(mask)), len(score_shape)
    if 2 <= len(shape) <= rank:
        leading = len(shape) - 2
        expected = (*score_shape[:leading], *score_shape[-2:])
        filled = [e if s == 1 else s for s, e in zip(shape, expected, strict=True)]
        if agree(filled, expected):
            return
    raise ValueError(
        f"Expected `attention_mask` of shape {tuple(score_shape)} (a 1 broadcasts), or "
        f"without the axes between the batch and the last two, or of shape "
        f"{tuple(score_shape[-2:])}. Received: shape {shape}"
    )


def agree(shape, expected):
    """Whether two static shapes can be the same; `None` goes with everything."""
    return len(shape) == len(expected) and all(
        s is None or e is None or s == e for s, e in zip(shape, expected, strict=True)
    )


def parts(
    query,
    key,
    *,
    query_mask=None,
    key_mask=None,
    value_mask=None,
    attention_mask=None,
):
    """The masks of one attention call, each with axes for queries and for keys.

    Args:
        query: `(..., Tq, Dq)`.
        key: `(..., Tk, Dk)`.
        query_mask: `(..., Tq)`.
        key_mask: `(..., Tk)`.
        value_mask: `(..., Tk)`.
        attention_mask: `(..., Tq, Tk)`; axes between the batch and the last two may be
            left out.

    Returns:
        A list of booleans that each broadcast to `(..., Tq, Tk)`.
    """
    found = []
    if query_mask is not None:
        found.append(ops.expand_dims(as_boolean(query_mask, "query_mask"), -1))
    for name, mask in (("key_mask", key_mask), ("value_mask", value_mask)):
        if mask is not None:
            found.append(ops.expand_dims(as_boolean(mask, name), -2))
    if attention_mask is not None:
        mask = as_boolean(attention_mask, "attention_mask")
        found.append(_insert_axes(mask, max(len(query.shape), len(key.shape))))
    return found


def all_of(parts):
    """Masks AND-ed; `None` for none."""
    return functools.reduce(ops.logical_and, parts) if parts else None


def _insert_axes(mask, rank):
    """A mask `(B, Tq, Tk)` means batch, queries, keys, whatever axes lie between."""
    if len(mask.shape) > 2:
        for _ in range(rank - len(mask.shape)):
            mask = ops.expand_dims(mask, -3)
    return mask


def hide(x, keep):
    """`x` with zeros for the steps where `keep` is False.

    Args:
        x: `(..., T, D)`.
        keep: booleans that broadcast to `(..., T)`.
    """
    return ops.where(ops.expand_dims(keep, -1), x, ops.zeros((), dtype=x.dtype))


def isolate(query, key, value, mask):
    """Takes the numbers that `mask` hides out of the inputs of attention.

    Multiplying by a weight of 0 is not enough: 0 times NaN is NaN, in outputs and in
    gradients. So a query that sees no key, and a key (with its value) that no query
    sees, are replaced by zeros. A key that only some queries see is an input like any
    other, unless it is not finite: then it is replaced as well, and so is a query that is
    not finite; the queries that are so or see so are reported, to get NaN as their result.

    Args:
        query: `(..., Tq, Dq)`.
        key: `(..., Tk, Dk)`.
        value: `(..., Tk, Dv)`.
        mask: booleans that broadcast to `(..., Tq, Tk)`.

    Returns:
        The three, and booleans `(..., Tq)` for the queries whose result is not finite, or
        `None` where `mask` is the same for all queries.
    """
    seeing, seen = ops.any(mask, axis=-1), ops.any(mask, axis=-2)
    if mask.shape[-2] == 1:
        return hide(query, seeing), *_hide_both(key, value, seen), None

    def sees(keys):
        return ops.any(ops.logical_and(mask, ops.expand_dims(keys, -2)), axis=-1)

    return isolate_where(query, key, value, seeing, seen, sees)


def isolate_where(query, key, value, seeing, seen, sees):
    """`isolate` by what a mask comes to.

    Args:
        query, key, value: as there.
        seeing: booleans `(..., Tq)`: which queries see a key.
        seen: booleans `(..., Tk)`: which keys a query sees.
        sees: from booleans `(..., Tk)` to which queries see a key where they hold.
    """
    sound_query, sound = _is_finite(query), _is_finite(key)
    if value is not key:
        sound = ops.logical_and(sound, _is_finite(value))
    query = hide(query, ops.logical_and(seeing, sound_query))
    key, value = _hide_both(key, value, ops.logical_and(seen, sound))
    own = ops.logical_and(seeing, ops.logical_not(sound_query))
    return query, key, value, ops.logical_or(sees(ops.logical_not(sound)), own)


def _is_finite(x):
    return ops.all(ops.isfinite(x), axis=-1)


def _hide_both(key, value, keep):
    hidden = hide(key, keep)
    return hidden, hidden if value is key else hide(value, keep)


class _AttachMask(keras.layers.Layer):
    """Returns its first input, carrying the second as its mask."""

    def call(self, inputs):
        return inputs[0]

    def compute_output_shape(self, input_shape):
        return input_shape[0]

    def compute_mask(self, inputs, previous_mask):
        return inputs[1]


def attach(x, mask):
    """`x`, carrying `mask` to the next layer the way Keras does it."""
    if mask is None:
        return x
    return _AttachMask(autocast=False, name="attach_mask")([x, as_boolean(mask)])
