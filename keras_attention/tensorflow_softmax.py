"""Softmax over scores and a mask, for TensorFlow: one kernel and a gradient of its own."""

import tensorflow as tf


def softmax(scores, mask):
    """Weights of exactly 0 where masked; all 0 in a row that leaves nothing.

    Args:
        scores: `(..., Tk)`.
        mask: booleans that broadcast to it, or `None`.
    """

    # As an argument: a mask of an outer graph would have no place in an inner gradient.
    @tf.custom_gradient
    def run(scores, *masks):
        mask = masks[0] if masks else None
        weights = weights_of(lambda: scores, mask)

        def gradient(upstream):
            upstream = hide(upstream, mask)
            mean = tf.reduce_sum(upstream * weights, -1, keepdims=True)
            return weights * (upstream - mean), *(None for _ in masks)

        return weights, gradient

    return run(scores) if mask is None else run(scores, mask)


def weights_of(make_scores, mask):
    """`softmax` of scores, with a gradient that is not a number where a row leaves nothing.

    Args:
        make_scores: a function without arguments; where a row leaves nothing it is called
            once more, so that scores need not be kept.
        mask: as for `softmax`.
    """
    lowest = -float("inf")
    weights = tf.nn.softmax(hide(make_scores(), mask, lowest))

    def without_empty_rows():
        scores = hide(make_scores(), mask, lowest)
        empty = tf.reduce_all(scores == lowest, -1, keepdims=True)
        return tf.where(empty, tf.zeros_like(weights), weights)

    # Minus infinity throughout makes a row NaN: its first weight tells, in one column.
    damaged = tf.reduce_any(tf.math.is_nan(weights[..., :1]))
    return tf.cond(damaged, without_empty_rows, lambda: weights)


def hide(x, mask, number=0.0):
    """`x` with `number` where `mask` is `False`; without a mask as it is."""
    return x if mask is None else tf.where(mask, x, tf.constant(number, x.dtype))
