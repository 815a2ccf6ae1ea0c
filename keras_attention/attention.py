"""Attention between a query and a memory of keys and values."""

from typing import Any, NamedTuple

import keras
import numpy as np
from keras import ops

from keras_attention import masks, normalizers, scores
from keras_attention.blockwise import SeededDropout
from keras_attention.choices import hand_in
from keras_attention.config import Configurable, check_positive_integer
from keras_attention.functional import aggregate, as_float, attend, check_rows


class Memory(NamedTuple):
    """What an `Attention` reads again and again: keys projected once, values, mask."""

    projected_key: Any
    value: Any
    mask: Any


@keras.saving.register_keras_serializable("keras_attention")
class Attention(Configurable, keras.layers.Layer):
    """`output_i = sum_j w_ij v_j`, with `w_i = normalizer(score(q_i, k))`.

    `attention(x, x)` is self-attention, `attention(x, memory)` attention from one sequence
    to another, `attention(x, values, keys)` key-value attention. Any score and normalizer,
    any number of axes before the last two.

    Args:
        score: a name (see `keras_attention.scores.names()`), a `Score`, its config, or a
            function `(query, key) -> scores` registered for serialization.
        normalizer: a name (`"softmax"`, `"sparsemax"`, `"entmax15"`, `"sigmoid"`), a
            `Normalizer` or its config.
        units: depth of the hidden layer of a score given by name, e.g. `"additive"`.
        dropout: share of the weights that are dropped in training.
        seed: integer for the dropout.
        block_size: how many queries are attended with at a time when no weights are
            returned; `None` takes blocks only where all weights would take more than
            `keras_attention.blockwise.WHOLE_BYTES` (32 MiB). The result is the same.
        **kwargs: `name`, `dtype` and so on, as in every Keras layer.

    Call arguments:
        query: `(..., Tq, Dq)`.
        value: `(..., Tk, Dv)`.
        key: `(..., Tk, Dk)`; `value` if left out.
        query_mask: `(..., Tq)`. As in all masks, `True` = may be attended, and a mask that
            the tensor carries is used unless another is given. The output row of a masked
            query is 0.
        value_mask: `(..., Tk)`.
        key_mask: `(..., Tk)`.
        attention_mask: `(..., Tq, Tk)`, `(B, Tq, Tk)` or `(Tq, Tk)`.
        use_causal_mask: whether a query sees only keys that are not later than itself; the
            last query sees all keys.
        return_attention_scores: whether to return the weights too, as they are before
            dropout.
        attention_rows: integers `(R,)`: the queries to return weights for, without
            making those of the others.
        training: whether to apply dropout.

    Returns:
        The output `(..., Tq, Dv)`, which carries the query's mask, or with
        `return_attention_scores` the pair of it and the weights `(..., Tq, Tk)`, with
        `attention_rows` `(..., R, Tk)`. A query that sees no key gets zeros for both.

    Raises:
        ValueError: for shapes, depths or masks that do not fit each other.

    Example:

    >>> import numpy as np
    >>> from keras_attention import Attention
    >>> queries, memory = np.ones((2, 4, 6)), np.ones((2, 9, 10))
    >>> output, weights = Attention("additive")(
    ...     queries, memory, return_attention_scores=True
    ... )
    >>> tuple(output.shape), tuple(weights.shape)
    ((2, 4, 10), (2, 4, 9))

    Reference: Bahdanau et al., 2015 (arXiv:1409.0473); Luong et al., 2015
    (arXiv:1508.04025).
    """

    def __init__(
        self,
        score="scaled_dot",
        normalizer="softmax",
        units=None,
        dropout=0.0,
        seed=None,
        block_size=None,
        **kwargs,
    ):
        super().__init__(**kwargs)
        if block_size is not None:
            check_positive_integer("block_size", block_size)
        self.score = scores.get(score, units=units, dtype=self.dtype_policy)
        self.normalizer = normalizers.get(normalizer, dtype=self.dtype_policy)
        self.units = units
        self.dropout = dropout
        self.seed = seed
        self.block_size = block_size
        self.dropout_layer = keras.layers.Dropout(
            dropout, seed=seed, dtype=self.dtype_policy, name="dropout"
        )
        self.supports_masking = True

    def __call__(self, query, *args, **kwargs):
        check_single_tensor(query, f"{self.name}(query, value)")
        for x in (*args, *kwargs.values()):
            check_not_ragged(x)
        if "mask" in kwargs:
            raise ValueError(
                "Expected query_mask=, value_mask=, key_mask= or attention_mask=. "
                "Received: mask="
            )
        return super().__call__(query, *args, **kwargs)

    def build(self, query_shape, value_shape, key_shape=None):
        key_shape = key_shape or value_shape
        check_shapes(query_shape, value_shape, key_shape)
        if not self.score.built:
            self.score.build(query_shape, key_shape)
        self.pass_on_trainable()

    def call(
        self,
        query,
        value,
        key=None,
        *,
        query_mask=None,
        value_mask=None,
        key_mask=None,
        attention_mask=None,
        use_causal_mask=False,
        return_attention_scores=False,
        attention_rows=None,
        training=None,
    ):
        query, value = (
            as_float(query, self.compute_dtype),
            as_float(value, self.compute_dtype),
        )
        key = value if key is None else as_float(key, self.compute_dtype)
        self._check(query, value, key, query_mask, value_mask, key_mask, attention_mask)
        # What is drawn cannot be computed again, for some of the queries or for a block.
        whole = return_attention_scores or self.normalizer.is_random
        output, weights = attend(
            query,
            value,
            key,
            score=self.score,
            normalizer=self.normalizer,
            mask=tuple(
                masks.parts(
                    query,
                    key,
                    query_mask=query_mask,
                    value_mask=value_mask,
                    key_mask=key_mask,
                    attention_mask=attention_mask,
                )
            ),
            use_causal_mask=use_causal_mask,
            dropout=SeededDropout(self.dropout_layer)
            if training and self.dropout
            else None,
            return_attention_scores=whole,
            attention_rows=attention_rows,
            block_size=self.block_size,
        )
        hand_in(self.normalizer, weights)
        output = masks.attach(output, query_mask)
        if not return_attention_scores and attention_rows is None:
            return output
        if whole and not return_attention_scores:
            weights = ops.take(weights, attention_rows, axis=-2)
        return output, weights

    @property
    def seed_generators(self):
        """Those that a `read` draws from, for loops over steps."""
        parts = (self.dropout_layer, self.normalizer)
        found = [getattr(part, "seed_generator", None) for part in parts]
        return [generator for generator in found if generator is not None]

    def prepare(self, value, key=None, *, value_mask=None, key_mask=None):
        """Does what does not depend on the query, for a `read` at each step of a decoder.

        Args:
            value: `(B, Tk, Dv)`.
            key: `(B, Tk, Dk)`; `value` if left out.
            value_mask: `(B, Tk)`, `True` = may be attended.
            key_mask: `(B, Tk)`.

        Returns:
            A `Memory`.
        """
        value = as_float(value, self.compute_dtype)
        key = value if key is None else as_float(key, self.compute_dtype)
        masks.check_position_mask("value_mask", value_mask, "value", value.shape)
        masks.check_position_mask("key_mask", key_mask, "key", key.shape)
        mask = masks.all_of(masks.parts(key, key, value_mask=value_mask, key_mask=key_mask))
        if mask is not None:
            _, key, value, _ = masks.isolate(key, key, value, mask)
        return Memory(self.score.project_key(key), value, mask)

    def read(self, query, memory, training=None):
        """Attention to a prepared `Memory`: `(output, weights)`.

        Args:
            query: `(B, Tq, Dq)`.
            memory: from `prepare`.
            training: whether to apply dropout.

        Returns:
            The output `(B, Tq, Dv)` and the weights `(B, Tq, Tk)`.
        """
        # An explicit None would switch dropout off, here and in all layers after this one.
        options = {} if training is None else {"training": training}
        return aggregate(
            self.score.match(query, memory.projected_key),
            memory.value,
            normalizer=self.normalizer,
            mask=memory.mask,
            dropout=lambda weights: self.dropout_layer(weights, **options),
        )

    def compute_output_shape(self, query_shape, value_shape, key_shape=None):
        return (*query_shape[:-1], value_shape[-1])

    def compute_output_spec(
        self,
        query,
        value,
        key=None,
        *,
        query_mask=None,
        value_mask=None,
        key_mask=None,
        attention_mask=None,
        use_causal_mask=False,
        return_attention_scores=False,
        attention_rows=None,
        training=None,
    ):
        key = value if key is None else key
        self._check(query, value, key, query_mask, value_mask, key_mask, attention_mask)
        shape = self.compute_output_shape(query.shape, value.shape)
        output = keras.KerasTensor(shape, dtype=self.compute_dtype)
        output = masks.attach(output, query_mask)
        if not return_attention_scores and attention_rows is None:
            return output
        shape = score_shape(query.shape, key.shape)
        if not return_attention_scores:
            check_rows(attention_rows, query.shape[-2])
            shape = (*shape[:-2], np.shape(attention_rows)[0], shape[-1])
        return output, keras.KerasTensor(shape, dtype=self.compute_dtype)

    def _check(self, query, value, key, query_mask, value_mask, key_mask, attention_mask):
        check_shapes(query.shape, value.shape, key.shape)
        masks.check_position_mask("query_mask", query_mask, "query", query.shape)
        masks.check_position_mask("value_mask", value_mask, "value", value.shape)
        masks.check_position_mask("key_mask", key_mask, "key", key.shape)
        masks.check_attention_mask(attention_mask, score_shape(query.shape, key.shape))


def score_shape(query_shape, key_shape):
    """`(..., Tq, Tk)` of `(..., Tq, Dq)` and `(..., Tk, Dk)`."""
    return (*query_shape[:-1], key_shape[-2])


def check_shapes(query_shape, value_shape, key_shape):
    """Raises `ValueError` unless the three fit: `(..., Tq, Dq)`, `(..., Tk, D)` twice."""
    shapes = f"query {tuple(query_shape)}, value {tuple(value_shape)}"
    if tuple(key_shape) != tuple(value_shape):
        shapes += f", key {tuple(key_shape)}"
    if len(query_shape) < 2 or not len(query_shape) == len(value_shape) == len(key_shape):
        raise ValueError(
            "Expected query (..., Tq, Dq), value (..., Tk, Dv) and key (..., Tk, Dk) "
            f"with one number of axes, 2 at least. Received: {shapes}"
        )
    same = [value_shape[:-1], key_shape[:-1]]
    if not masks.agree(*same) or not masks.agree(query_shape[:-2], key_shape[:-2]):
        raise ValueError(
            "Expected query, value and key to agree in all axes before the last two, "
            f"value and key also in the last but one. Received: {shapes}"
        )


def check_single_tensor(x, call):
    """Raises `ValueError` for a list of tensors, or a ragged one, as first argument `x`."""
    if isinstance(x, (list, tuple)):
        raise ValueError(
            f"Expected tensors as separate arguments: {call}. "
            f"Received: a {type(x).__name__} of {len(x)} as first argument"
        )
    check_not_ragged(x)


def check_not_ragged(x):
    """Raises `ValueError` for a ragged tensor."""
    if "Ragged" in type(x).__name__:
        raise ValueError(
            "Expected a dense tensor and a mask: x.to_tensor() and "
            "keras_attention.padding_mask(x.row_lengths(), ...). "
            f"Received: {type(x).__name__}"
        )
