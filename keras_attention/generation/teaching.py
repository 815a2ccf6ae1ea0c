"""Training on the model's own tokens as well as on the right ones."""

import keras
from keras import ops, tree

from keras_attention import loops
from keras_attention.generation.common import draw


def scheduled_sampling(
    step, states, tokens, vocabulary_size, *, rate, context=None, seed=None
):
    """Logits of a sequence whose every token may be replaced by one that the model drew.

    With probability `rate`, a step gets a token drawn from the step before instead of the
    right one, as it will when it generates. No gradient passes through the draw. A rate
    of 0 is teacher forcing.

    Args:
        step: see `keras_attention.generation`.
        states: the states before the first step.
        tokens: `(B, T)` integers, the right token for each step to start from.
        vocabulary_size: `V`.
        rate: number or scalar tensor; usually grows in the course of training.
        context: what `step` gets at each step.
        seed: integer or `keras.random.SeedGenerator`.

    Returns:
        Logits `(B, T, V)`.

    Example:

    >>> import keras
    >>> import numpy as np
    >>> from keras_attention import scheduled_sampling
    >>> def count_down(tokens, states, context):
    ...     return 99.0 * keras.ops.one_hot(tokens - 1, 4), None, states
    >>> logits = scheduled_sampling(count_down, [], np.array([[3, 3, 3]]), 4, rate=1.0)
    >>> print(keras.ops.convert_to_numpy(logits).argmax(-1))
    [[2 1 0]]

    Reference: Bengio et al., 2015 (arXiv:1506.03099).
    """
    tokens = ops.cast(ops.convert_to_tensor(tokens), "int32")
    batch, length = ops.shape(tokens)
    noise = keras.random.uniform((2, length, batch), seed=seed)
    # Before the first step there is nothing to draw from.
    own = ops.logical_and(noise[0] < rate, ops.expand_dims(ops.arange(length) > 0, -1))

    def body(carry, at_step):
        before, old = carry[0], tree.pack_sequence_as(states, carry[1:])
        token, drawn, own = at_step
        token = ops.where(own, draw(ops.stop_gradient(before), drawn), token)
        logits, _, new = step(token, old, context)
        return [ops.cast(logits, "float32"), *tree.flatten(new)]

    blank = ops.zeros((batch, vocabulary_size), "float32")
    (logits,), _ = loops.scan(
        body,
        [blank, *(ops.convert_to_tensor(x) for x in tree.flatten(states))],
        [ops.transpose(tokens), noise[1], own],
        collect=1,
    )
    return ops.swapaxes(logits, 0, 1)
