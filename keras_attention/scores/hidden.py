"""Scores with a hidden layer: additive, concat, feed-forward."""

import keras
from keras import ops

from keras_attention.config import check_positive_integer
from keras_attention.scores.base import WeightedScore, multiply, register
from keras_attention.scores.tanh_sum import numbers_per_pair, tanh_sum


class HiddenScore(WeightedScore):
    """Base class: `score(q, k) = v . tanh(project_query(q) + project_key(k))`.

    Args:
        units: depth of the hidden layer; `None` for the depth of the key.
        use_bias: whether the hidden layer has a bias.
        **kwargs: see `WeightedScore`.
    """

    def __init__(self, units=None, use_bias=False, **kwargs):
        if units is not None:
            check_positive_integer("units", units)
        super().__init__(**kwargs)
        self.units = units
        self.use_bias = use_bias

    def add_hidden_weights(self, units):
        """The weights behind the projections: a bias and the vector `v`."""
        if self.use_bias:
            self.bias = self.add_bias((units,))
        self.v = self.add_kernel("v", (units,))

    def hidden_vector(self):
        """`v`, as the hidden layer is multiplied with it."""
        return self.v

    def add_hidden_bias(self, projected):
        return projected + self.bias if self.use_bias else projected

    def numbers_per_pair(self, depth):
        return numbers_per_pair(self.compute_dtype, self.units or depth)

    def compare(self, query, key):
        return tanh_sum(query, key, self.hidden_vector())


@register("additive", "bahdanau")
class AdditiveScore(HiddenScore):
    """`score(q, k) = v . tanh(W_q q + W_k k + b)`, Bahdanau's.

    Args:
        units: depth of the hidden layer; `None` for the depth of the key.
        use_bias: whether there is a `b`.
        normalize: whether to use `g v / |v|` for `v`, with a learned number `g` that
            starts at `1 / sqrt(units)`: direction and length learn apart.
        **kwargs: initializers, regularizers and constraints, `kernel_...` and `bias_...`,
            as in `keras.layers.Dense`.

    Call arguments:
        query: `(..., Tq, Dq)`.
        key: `(..., Tk, Dk)`.

    Returns:
        Scores `(..., Tq, Tk)`.

    Raises:
        ValueError: if `units` is not a positive integer.

    Example:

    >>> import numpy as np
    >>> from keras_attention import AdditiveScore
    >>> score = AdditiveScore(units=8)
    >>> tuple(score(np.ones((2, 4, 6)), np.ones((2, 5, 7))).shape)
    (2, 4, 5)

    Reference: Bahdanau et al., 2015 (arXiv:1409.0473); weight normalization: Salimans and
    Kingma, 2016 (arXiv:1602.07868).
    """

    def __init__(self, units=None, use_bias=False, normalize=False, **kwargs):
        super().__init__(units=units, use_bias=use_bias, **kwargs)
        self.normalize = normalize

    def build(self, query_shape, key_shape):
        super().build(query_shape, key_shape)
        units = self.units or key_shape[-1]
        self.query_kernel = self.add_kernel("query_kernel", (query_shape[-1], units))
        self.key_kernel = self.add_kernel("key_kernel", (key_shape[-1], units))
        self.add_hidden_weights(units)
        if self.normalize:
            start = keras.initializers.Constant(units**-0.5)
            self.g = self.add_weight(name="g", shape=(), initializer=start)

    def project_query(self, query):
        return multiply(query, self.query_kernel)

    def project_key(self, key):
        return self.add_hidden_bias(multiply(key, self.key_kernel))

    def hidden_vector(self):
        if not self.normalize:
            return self.v
        squares = ops.sum(ops.square(self.v))
        return self.g * self.v * ops.rsqrt(ops.where(squares > 0, squares, 1.0))


@register("concat")
class ConcatScore(HiddenScore):
    """`score(q, k) = v . tanh(W [q; k] + b)`, Luong's: one matrix on the two end to end.

    `W [q; k]` is computed as `W_q q + W_k k`, with the rows of `W` that meet `q` and those
    that meet `k`: the same numbers without a pair of vectors for each pair of steps.

    Args:
        units: depth of the hidden layer; `None` for the depth of the key.
        use_bias: whether there is a `b`.
        **kwargs: initializers, regularizers and constraints, `kernel_...` and `bias_...`,
            as in `keras.layers.Dense`.

    Call arguments:
        query: `(..., Tq, Dq)`.
        key: `(..., Tk, Dk)`.

    Returns:
        Scores `(..., Tq, Tk)`.

    Raises:
        ValueError: if `units` is not a positive integer.

    Example:

    >>> import numpy as np
    >>> from keras_attention import ConcatScore
    >>> score = ConcatScore(units=8)
    >>> tuple(score(np.ones((2, 4, 6)), np.ones((2, 5, 7))).shape)
    (2, 4, 5)
    >>> tuple(score.kernel.shape)
    (13, 8)

    Reference: Luong et al., 2015 (arXiv:1508.04025).
    """

    def build(self, query_shape, key_shape):
        super().build(query_shape, key_shape)
        units = self.units or key_shape[-1]
        depth = query_shape[-1] + key_shape[-1]
        self.kernel = self.add_kernel("kernel", (depth, units))
        self.add_hidden_weights(units)

    def project_query(self, query):
        return multiply(query, self.kernel[: query.shape[-1]])

    def project_key(self, key):
        return self.add_hidden_bias(multiply(key, self.kernel[-key.shape[-1] :]))


@register("feed_forward")
class FeedForwardScore(WeightedScore):
    """`score(q, k) = q . tanh(W k + b)`; gated: `q . (tanh(W k + b) * sigmoid(U k + c))`.

    Made for `AttentionPooling`, where `q` is learned and so takes the place of `v` in
    `v . tanh(W x + b)`; several learned queries share `W`.

    Args:
        units: depth of the hidden layer and of the query; `None` for the query's depth,
            and the key's depth for a learned query.
        use_bias: whether there are `b` and `c`.
        gated: whether to multiply by `sigmoid(U k + c)`: the tanh alone is nearly linear
            around 0.
        **kwargs: initializers, regularizers and constraints, `kernel_...` and `bias_...`,
            as in `keras.layers.Dense`.

    Call arguments:
        query: `(..., Tq, units)`.
        key: `(..., Tk, Dk)`.

    Returns:
        Scores `(..., Tq, Tk)`.

    Raises:
        ValueError: if `units` is not a positive integer, or not the query's depth.

    Example:

    >>> import numpy as np
    >>> from keras_attention import FeedForwardScore
    >>> score = FeedForwardScore()
    >>> tuple(score(np.ones((2, 4, 6)), np.ones((2, 5, 7))).shape)
    (2, 4, 5)

    Reference: Raffel and Ellis, 2015 (arXiv:1512.08756); Lin et al., 2017
    (arXiv:1703.03130); gated: Ilse et al., 2018 (arXiv:1802.04712).
    """

    def __init__(self, units=None, use_bias=True, gated=False, **kwargs):
        if units is not None:
            check_positive_integer("units", units)
        super().__init__(**kwargs)
        self.units = units
        self.use_bias = use_bias
        self.gated = gated

    def query_depth(self, key_depth):
        return self.units or key_depth

    def build(self, query_shape, key_shape):
        super().build(query_shape, key_shape)
        depth, units = key_shape[-1], query_shape[-1]
        if self.units not in (None, units):
            raise ValueError(
                f"Expected a query of depth {self.units}, the `units` of "
                f"{type(self).__name__}. Received: depth {units}"
            )
        self.kernel = self.add_kernel("kernel", (depth, units))
        if self.use_bias:
            self.bias = self.add_bias((units,))
        if self.gated:
            self.gate_kernel = self.add_kernel("gate_kernel", (depth, units))
            if self.use_bias:
                self.gate_bias = self.add_bias((units,), name="gate_bias")

    def project_key(self, key):
        hidden = multiply(key, self.kernel)
        hidden = ops.tanh(hidden + self.bias if self.use_bias else hidden)
        if not self.gated:
            return hidden
        gate = multiply(key, self.gate_kernel)
        return hidden * ops.sigmoid(gate + self.gate_bias if self.use_bias else gate)
