"""Attention pooling: a learned query turns a sequence into a vector."""

import keras
from keras import ops

from keras_attention import masks, normalizers, scores
from keras_attention.attention import check_single_tensor
from keras_attention.axes import PooledAxes
from keras_attention.blockwise import SeededDropout
from keras_attention.choices import hand_in
from keras_attention.config import Configurable, check_positive_integer
from keras_attention.functional import as_float, attend


@keras.saving.register_keras_serializable("keras_attention")
class AttentionPooling(Configurable, keras.layers.Layer):
    """`output = sum_t w_t x_t`, with `w = normalizer(v . tanh(W x + b))`.

    A sequence becomes a vector. `v` is a learned query, so any score works in place of
    this one. Nothing is tied to the length of the sequence.

    Args:
        units: depth of the hidden layer of the score; `None` for the depth of the input.
        score: a name (see `keras_attention.scores.names()`), a `Score`, its config, or a
            function `(query, key) -> scores` registered for serialization.
        normalizer: a name (`"softmax"`, `"sparsemax"`, `"entmax15"`, `"sigmoid"`), a
            `Normalizer` or its config.
        gated: whether the hidden layer is `tanh(W x + b) * sigmoid(U x + c)`.
        num_queries: how many learned queries; `None` for one that adds no axis.
        axis: the axis or axes to pool. `(1, 2)` pools an image `(B, H, W, C)`.
        dropout: share of the weights that are dropped in training.
        seed: integer for the dropout.
        query_initializer, query_regularizer, query_constraint: for the learned queries.
        **kwargs: `name`, `dtype` and so on, as in every Keras layer.

    Call arguments:
        inputs: `(B, T, D)`, or more axes.
        mask: the shape of `inputs` without its last axis, `True` = may be attended. The
            mask that `inputs` carries is used unless another is given.
        return_attention_scores: whether to return the weights too, as they are before
            dropout.
        training: whether to apply dropout.

    Returns:
        `inputs` without the pooled axes: `(B, D)` from `(B, T, D)`; `(B, S, D)` from
        `(B, S, T, D)`. It carries no mask. With `return_attention_scores`, the pair of it
        and the weights, of the mask's shape: `(B, T)`, `(B, S, T)`, `(B, H, W)`. Where all
        is masked, both are 0. `num_queries` puts its axis before the first pooled one:
        `(B, num_queries, D)` and `(B, num_queries, T)`.

    Raises:
        ValueError: for axes that the input does not have or a mask of another shape.

    Example:

    >>> import numpy as np
    >>> from keras_attention import AttentionPooling
    >>> pooled, weights = AttentionPooling(64)(
    ...     np.ones((2, 5, 8)), return_attention_scores=True
    ... )
    >>> tuple(pooled.shape), tuple(weights.shape)
    ((2, 8), (2, 5))

    Reference: Raffel and Ellis, 2015 (arXiv:1512.08756); Yang et al., 2016 (NAACL
    N16-1174); several queries: Lin et al., 2017 (arXiv:1703.03130); gated: Ilse et al.,
    2018 (arXiv:1802.04712).
    """

    def __init__(
        self,
        units=None,
        score="feed_forward",
        normalizer="softmax",
        gated=False,
        num_queries=None,
        axis=-2,
        dropout=0.0,
        seed=None,
        query_initializer="glorot_uniform",
        query_regularizer=None,
        query_constraint=None,
        **kwargs,
    ):
        super().__init__(**kwargs)
        if num_queries is not None:
            check_positive_integer("num_queries", num_queries)
        self.score = scores.get(
            score, units=units, gated=gated or None, dtype=self.dtype_policy
        )
        self.normalizer = normalizers.get(normalizer, dtype=self.dtype_policy)
        self.units = units
        self.gated = gated
        self.num_queries = num_queries
        self.axis = tuple(axis) if isinstance(axis, (list, tuple)) else axis
        self.dropout = dropout
        self.seed = seed
        self.query_initializer = keras.initializers.get(query_initializer)
        self.query_regularizer = keras.regularizers.get(query_regularizer)
        self.query_constraint = keras.constraints.get(query_constraint)
        self.dropout_layer = keras.layers.Dropout(
            dropout, seed=seed, dtype=self.dtype_policy, name="dropout"
        )
        self.supports_masking = True

    def __call__(self, inputs, *args, **kwargs):
        check_single_tensor(inputs, f"{self.name}(inputs, mask=mask)")
        return super().__call__(inputs, *args, **kwargs)

    def build(self, input_shape):
        shape = PooledAxes(self.axis, len(input_shape)).folded_shape(input_shape)
        self.query = self.add_weight(
            name="query",
            shape=(self.num_queries or 1, self.score.query_depth(shape[-1])),
            initializer=self.query_initializer,
            regularizer=self.query_regularizer,
            constraint=self.query_constraint,
        )
        if not self.score.built:
            self.score.build(tuple(self.query.shape), shape)
        self.pass_on_trainable()

    def call(self, inputs, mask=None, *, return_attention_scores=False, training=None):
        masks.check_position_mask("mask", mask, "inputs", inputs.shape)
        axes = PooledAxes(self.axis, len(inputs.shape))
        if mask is not None:
            mask = ops.expand_dims(axes.fold(masks.as_boolean(mask)), -2)
        output, weights = attend(
            ops.convert_to_tensor(self.query),
            axes.fold(as_float(inputs, self.compute_dtype)),
            score=self.score,
            normalizer=self.normalizer,
            mask=mask,
            dropout=SeededDropout(self.dropout_layer)
            if training and self.dropout
            else None,
            return_attention_scores=return_attention_scores or self.normalizer.is_random,
        )
        hand_in(self.normalizer, weights)
        output = self._drop_single_query(axes.unfold_output(output), axes)
        if not return_attention_scores:
            return output
        weights = axes.unfold_weights(weights, inputs)
        return output, self._drop_single_query(weights, axes)

    def compute_mask(self, inputs, previous_mask):
        return None

    def compute_output_shape(self, input_shape):
        axes = PooledAxes(self.axis, len(input_shape))
        kept = [size for a, size in enumerate(input_shape) if a not in axes.pooled]
        return self._with_queries(kept, axes)

    def compute_output_spec(
        self, inputs, mask=None, *, return_attention_scores=False, training=None
    ):
        masks.check_position_mask("mask", mask, "inputs", inputs.shape)
        axes = PooledAxes(self.axis, len(inputs.shape))
        output = keras.KerasTensor(
            self.compute_output_shape(inputs.shape), dtype=self.compute_dtype
        )
        if not return_attention_scores:
            return output
        shape = self._with_queries(inputs.shape[:-1], axes)
        return output, keras.KerasTensor(shape, dtype=self.compute_dtype)

    def _with_queries(self, shape, axes):
        queries = () if self.num_queries is None else (self.num_queries,)
        first = axes.pooled[0]
        return (*shape[:first], *queries, *shape[first:])

    def _drop_single_query(self, x, axes):
        return ops.squeeze(x, axes.pooled[0]) if self.num_queries is None else x
