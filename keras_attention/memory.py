"""Memories that are read in several hops, and how sentences become their slots."""

import keras
from keras import ops

from keras_attention import masks
from keras_attention.attention import Attention, check_single_tensor
from keras_attention.config import Configurable, check_positive_integer
from keras_attention.functional import as_float

__all__ = ["KeyValueMemory", "position_code"]

UPDATES = ("sum", "per_hop", "shared")


def position_code(mask, depth):
    """Weights that let a sum of words keep their order.

    `l_jk = (1 - j / J) - (k / depth) (1 - 2 j / J)` for word `j` of `J` and feature `k` of
    `depth`, both counted from 1. `J` is the number of words that the mask keeps, so that
    padding, wherever it stands, changes nothing.

    Args:
        mask: booleans `(..., W)`, `True` = a word.
        depth: number of features of a word's vector.

    Returns:
        Numbers `(..., W, depth)`, 0 where there is no word.

    Example:

    >>> import keras
    >>> import numpy as np
    >>> print(keras.ops.convert_to_numpy(position_code(np.array([True, True, False]), 2)))
    [[0.5 0.5]
     [0.5 1. ]
     [0.  0. ]]

    Reference: Sukhbaatar et al., 2015 (arXiv:1503.08895), section 4.1.
    """
    words = ops.cast(masks.as_boolean(mask), "float32")
    total = ops.maximum(ops.sum(words, axis=-1, keepdims=True), 1.0)
    place = ops.expand_dims(ops.cumsum(words, axis=-1) / total, -1)
    feature = ops.arange(1, depth + 1, dtype="float32") / depth
    return ops.expand_dims(words, -1) * (1 - place - feature * (1 - 2 * place))


@keras.saving.register_keras_serializable("keras_attention")
class KeyValueMemory(Configurable, keras.layers.Layer):
    """Reads a memory of keys and values in hops, each asking with what the last one found.

    `o = sum_i w_i v_i`, with `w = normalizer(score(u, k))`; the next query is `u + o`
    (`update="sum"`), `R_j (u + o)` with a matrix for each hop (`"per_hop"`, Miller et al.)
    or `H u + o` with one for all hops (`"shared"`, Sukhbaatar et al.).

    Args:
        hops: how often the memory is read.
        score: a name (see `keras_attention.scores.names()`), a `Score`, its config, or a
            function `(query, key) -> scores` registered for serialization.
        normalizer: a name (`"softmax"`, `"sparsemax"`, `"entmax15"`, `"sigmoid"`), a
            `Normalizer` or its config.
        update: `"sum"`, `"per_hop"` or `"shared"`, see above.
        kernel_initializer, kernel_regularizer, kernel_constraint: for the matrices of the
            update.
        **kwargs: `name`, `dtype` and so on, as in every Keras layer.

    Call arguments:
        query: `(B, D)`, or more axes before the last.
        value: `(B, S, D)`: `S` slots, any number.
        key: `(B, S, Dk)`; `value` if left out.
        value_mask: `(B, S)`, `True` = may be attended. The mask that the tensor carries is
            used unless another is given. An empty slot has no influence.
        key_mask: `(B, S)`.
        return_attention_scores: whether to return the weights too.

    Returns:
        The last query `(B, D)`; with `return_attention_scores` the pair of it and the
        weights `(B, hops, S)`. From a memory without filled slots `o = 0` is read.

    Raises:
        ValueError: for an unknown `update`, or shapes, depths or masks that do not fit.

    Example:

    >>> import keras
    >>> import numpy as np
    >>> from keras_attention import KeyValueMemory
    >>> keys = np.array([[[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]]])
    >>> values = np.array([[[1.0, 0.0], [0.0, 2.0], [3.0, 0.0]]])
    >>> state, weights = KeyValueMemory()(
    ...     np.array([[1.0, 0.0]]), values, keys, return_attention_scores=True
    ... )
    >>> print(keras.ops.convert_to_numpy(state).round(4))
    [[2.6893 0.3107]]

    Reference: Miller et al., 2016 (arXiv:1606.03126); Sukhbaatar et al., 2015
    (arXiv:1503.08895).
    """

    def __init__(
        self,
        hops=1,
        score="dot",
        normalizer="softmax",
        update="sum",
        kernel_initializer="glorot_uniform",
        kernel_regularizer=None,
        kernel_constraint=None,
        **kwargs,
    ):
        super().__init__(**kwargs)
        check_positive_integer("hops", hops)
        if update not in UPDATES:
            raise ValueError(f"Expected `update` in {UPDATES}. Received: {update!r}")
        self.hops = hops
        self.attention = Attention(score, normalizer, dtype=self.dtype_policy)
        self.score = self.attention.score
        self.normalizer = self.attention.normalizer
        self.update = update
        self.kernel_initializer = keras.initializers.get(kernel_initializer)
        self.kernel_regularizer = keras.regularizers.get(kernel_regularizer)
        self.kernel_constraint = keras.constraints.get(kernel_constraint)
        self.supports_masking = True

    def __call__(self, query, *args, **kwargs):
        check_single_tensor(query, f"{self.name}(query, value, key)")
        return super().__call__(query, *args, **kwargs)

    def build(self, query_shape, value_shape, key_shape=None):
        _check(query_shape, value_shape)
        key_shape = key_shape or value_shape
        if not self.attention.built:
            one = (*query_shape[:-1], 1, query_shape[-1])
            self.attention.build(one, value_shape, key_shape)
        number = {"sum": 0, "per_hop": self.hops, "shared": 1}[self.update]
        self.kernels = [self._add_kernel(j, query_shape[-1]) for j in range(number)]
        self.pass_on_trainable()

    def call(
        self,
        query,
        value,
        key=None,
        *,
        value_mask=None,
        key_mask=None,
        return_attention_scores=False,
    ):
        _check(query.shape, value.shape)
        state = as_float(query, self.compute_dtype)
        found = []
        for hop in range(self.hops):
            output, weights = self.attention(
                ops.expand_dims(state, -2),
                value,
                key,
                value_mask=value_mask,
                key_mask=key_mask,
                return_attention_scores=True,
            )
            state = self._updated(hop, state, ops.squeeze(output, -2))
            found.append(ops.squeeze(weights, -2))
        return (state, ops.stack(found, axis=-2)) if return_attention_scores else state

    def compute_mask(self, query, previous_mask):
        return None

    def _updated(self, hop, state, output):
        if self.update == "per_hop":
            return ops.matmul(state + output, self.kernels[hop])
        if self.update == "shared":
            return ops.matmul(state, self.kernels[0]) + output
        return state + output

    def _add_kernel(self, number, depth):
        # An unseeded Keras initializer gives the same numbers at each use of one object.
        clone = getattr(self.kernel_initializer, "clone", None)
        return self.add_weight(
            name=f"kernel_{number}",
            shape=(depth, depth),
            initializer=clone() if clone else self.kernel_initializer,
            regularizer=self.kernel_regularizer,
            constraint=self.kernel_constraint,
        )


def _check(query_shape, value_shape):
    same_rank = len(query_shape) + 1 == len(value_shape)
    if not same_rank or not masks.agree(query_shape[-1:], value_shape[-1:]):
        raise ValueError(
            "Expected query (..., D) and value (..., S, D), of one depth, since their sum "
            f"is the next query. Received: query {tuple(query_shape)}, value "
            f"{tuple(value_shape)}"
        )
