"""Attention instead of recurrence: steps on their own, pooled to a vector."""

import keras
from keras import ops

from keras_attention import masks
from keras_attention.config import Configurable
from keras_attention.models.hierarchical import MeanPooling
from keras_attention.pooling import AttentionPooling
from keras_attention.scores import FeedForwardScore

POOLINGS = ("attention", "mean")


@keras.saving.register_keras_serializable("keras_attention")
class FeedForwardAttention(Configurable, keras.Model):
    """`y = f(W_y f(W_s c + b_s) + b_y)`, `c = sum_t w_t h_t`, `h_t = f(W_h x_t + b_h)`.

    `w = softmax(q tanh(v . h_t + b))`, with a learned number `q` that starts at 1, where
    the paper has no such number; `f` is `LeakyReLU`. No step depends on another, so that
    all are computed at once, and sequences may be of any length.

    Args:
        units: depth of the steps' features, and of the layer behind the pooling.
        output_dim: how many numbers to predict.
        pooling: `"attention"`, or `"mean"` for the same model without attention.
        negative_slope: of `LeakyReLU`.
        **kwargs: `name`, `dtype` and so on, as in every Keras model.

    Call arguments:
        inputs: `(B, T, D)`, or the pair of it and a mask.
        mask: `(B, T)`, `True` = a step, where `inputs` is no pair. Padding has no
            influence.
        return_attention_scores: whether to return the weights too.

    Returns:
        `(B, output_dim)`; with `return_attention_scores` the pair of it and the weights
        `(B, T)`.

    Raises:
        ValueError: for an unknown `pooling`.

    Example:

    >>> import numpy as np
    >>> from keras_attention.models import FeedForwardAttention
    >>> x, mask = np.ones((3, 5, 2)), np.arange(5) < np.array([[5], [2], [4]])
    >>> y, weights = FeedForwardAttention(16)((x, mask), return_attention_scores=True)
    >>> tuple(y.shape), tuple(weights.shape)
    ((3, 1), (3, 5))

    Reference: Raffel and Ellis, 2015 (arXiv:1512.08756).
    """

    def __init__(
        self, units=100, output_dim=1, pooling="attention", negative_slope=0.01, **kwargs
    ):
        super().__init__(**kwargs)
        if pooling not in POOLINGS:
            raise ValueError(f"Expected `pooling` in {POOLINGS}. Received: {pooling!r}")
        self.units = units
        self.output_dim = output_dim
        self.pooling = pooling
        self.negative_slope = negative_slope
        policy = self.dtype_policy
        self.features = self._layer(units)
        if pooling == "attention":
            # One hidden unit: the paper's tanh(v . h + b), times the learned query.
            score = FeedForwardScore(units=1, dtype=policy)
            self.pool = AttentionPooling(
                score=score, query_initializer="ones", dtype=policy
            )
        else:
            self.pool = MeanPooling(dtype=policy)
        self.hidden, self.predictor = self._layer(units), self._layer(output_dim)

    def build(self, input_shape):
        shape = input_shape[0] if isinstance(input_shape[0], (list, tuple)) else input_shape
        self.features.build(shape)
        self.pool.build((*shape[:-1], self.units))
        self.hidden.build((shape[0], self.units))
        self.predictor.build((shape[0], self.units))

    def call(self, inputs, mask=None, *, return_attention_scores=False):
        if isinstance(inputs, (list, tuple)):
            inputs, mask = inputs
        if mask is not None:
            # What is masked may be no number, and the features' gradient would see it.
            mask = masks.as_boolean(mask)
            inputs = masks.hide(inputs, mask)
        pooled, weights = self.pool(
            self._activated(self.features, inputs), mask=mask, return_attention_scores=True
        )
        hidden = self._activated(self.hidden, pooled)
        output = self._activated(self.predictor, hidden)
        return (output, weights) if return_attention_scores else output

    def compute_mask(self, inputs, previous_mask):
        return None

    def _activated(self, layer, x):
        return ops.leaky_relu(layer(x), self.negative_slope)

    def _layer(self, units):
        return keras.layers.Dense(units, dtype=self.dtype_policy)
