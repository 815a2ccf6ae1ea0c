"""Softmax over scores and a mask, for TensorFlow: one kernel and a gradient of its own."""

import tensorflow as tf


def softmax(scores, mask):
    """Weights of exactly 0 where masked; all 0 in a row that leaves nothing.

    Args:
        scores: `(..., Tk)`.
        mask: booleans that broadcast to it, or `None`.
    """

    @tf.custom_gradient
    def run(scores):
        weights = weights_of(scores, mask)

        def gradient(upstream):
            mean = tf.reduce_sum(upstream * weights, -1, keepdims=True)
            slope = weights * (upstream - mean)
            return slope if mask is None else tf.where(mask, slope, tf.zeros_like(slope))

        return weights, gradient

    return run(scores)


def weights_of(scores, mask):
    """As `softmax`, with a gradient that is not a number where a row leaves nothing."""
    lowest = tf.constant(-float("inf"), scores.dtype)
    if mask is not None:
        scores = tf.where(mask, scores, lowest)
    weights = tf.nn.softmax(scores)

    def without_empty_rows():
        top = tf.reduce_max(scores, -1, keepdims=True)
        return tf.where(top == lowest, tf.zeros_like(weights), weights)

    # Minus infinity throughout makes a row NaN: its first weight tells, in one column.
    damaged = tf.reduce_any(tf.math.is_nan(weights[..., :1]))
    return tf.cond(damaged, without_empty_rows, lambda: weights)
