"""Choosing one position of many, and who has chosen what in a training step."""

import contextlib
import contextvars

import keras
import numpy as np
from keras import ops

from keras_attention.normalizers import below_maximum


def log_softmax(scores, mask):
    """Log-probabilities along the last axis, 0 where masked."""
    scores = below_maximum(scores, mask)
    total = ops.sum(ops.where(mask, ops.exp(scores), 0.0), axis=-1, keepdims=True)
    scores = ops.where(mask, scores, 0.0)
    return ops.where(mask, scores - ops.log(ops.where(total > 0, total, 1.0)), 0.0)


def probabilities(log_probs, mask):
    """What `log_softmax` gave, as probabilities: 0 where masked."""
    return ops.where(mask, ops.exp(log_probs), 0.0)


def choose(scores, mask):
    """1 at the largest unmasked score of each row, the first of equals; no derivatives."""
    lowest = float(np.finfo(keras.backend.standardize_dtype(scores.dtype)).min)
    scores = ops.stop_gradient(scores)
    top = ops.max(ops.where(mask, scores, lowest), axis=-1, keepdims=True, initial=lowest)
    best = ops.logical_and(mask, scores == top)
    # Not argmax: there may be no keys at all.
    first = ops.cumsum(ops.cast(best, "int32"), axis=-1) == 1
    return ops.cast(ops.logical_and(best, first), scores.dtype)


def moving(x):
    """0, with the derivatives of `x`."""
    return x - ops.stop_gradient(x)


def straight_through(choice, x):
    """`choice`, zeros and ones, with the derivatives of `x`.

    Not `choice + moving(x)`: TensorFlow's graphs put such sums together in another order,
    which makes it 0.9999999 here and there.
    """
    return ops.where(choice > 0, ops.exp(moving(x)), moving(x))


def is_choice(weights):
    """Which rows of weights are one 1 among zeros."""
    return ops.max(weights, axis=-1, keepdims=True, initial=0.0) == 1


class Choices:
    """The weights of one training step's hard attention, as layers hand them in."""

    def __init__(self, forced=None):
        self.handed_in = []
        self.forced = forced
        self.chances = []

    def force(self, probabilities, mask):
        """The next forced choice as weights, and its probability written down."""
        positions = ops.convert_to_tensor(next(self.forced), "int32")
        choice = ops.one_hot(positions, probabilities.shape[-1], dtype=probabilities.dtype)
        chance = ops.sum(probabilities * choice, axis=-1)
        # Where nothing can be chosen, each of the runs counts the same.
        blind = ops.logical_not(ops.any(mask, axis=-1))
        self.chances.append(ops.where(blind, 1 / probabilities.shape[-1], chance))
        return ops.where(mask, choice, 0.0)


_current: contextvars.ContextVar = contextvars.ContextVar("choices", default=None)


def current_choices():
    """The `Choices` that are being collected, or `None`."""
    return _current.get()


@contextlib.contextmanager
def collect(choices):
    """Layers hand in to `choices` within."""
    token = _current.set(choices)
    try:
        yield choices
    finally:
        _current.reset(token)


def hand_in(normalizer, weights):
    """What a layer does with the weights `(B, ..., Tk)` of a whole call."""
    choices = current_choices()
    if choices is not None:
        choices.handed_in.append((normalizer, weights))
