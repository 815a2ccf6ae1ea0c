"""Scores that are inner products: dot, scaled dot, cosine, bilinear, trilinear."""

import math

import keras
from keras import ops

from keras_attention.scores.base import Score, WeightedScore, multiply, register


@register("dot")
class DotScore(Score):
    """`score(q, k) = q . k`, optionally times a learned number.

    Args:
        use_scale: whether to multiply by a learned scalar, which starts at 1.

    Call arguments:
        query: `(..., Tq, D)`.
        key: `(..., Tk, D)`.

    Returns:
        Scores `(..., Tq, Tk)`.

    Raises:
        ValueError: if query and key differ in depth.

    Example:

    >>> import keras
    >>> import numpy as np
    >>> from keras_attention import DotScore
    >>> query, keys = np.ones((1, 3)), np.array([[7.0, 8.0, 9.0], [10.0, 11.0, 12.0]])
    >>> print(keras.ops.convert_to_numpy(DotScore()(query, keys)))
    [[24. 33.]]

    Reference: Luong et al., 2015 (arXiv:1508.04025).
    """

    def __init__(self, use_scale=False, **kwargs):
        super().__init__(**kwargs)
        self.use_scale = use_scale

    def build(self, query_shape, key_shape):
        super().build(query_shape, key_shape)
        self._require_equal_depths(query_shape, key_shape)
        if self.use_scale:
            self.scale = self.add_weight(name="scale", shape=(), initializer="ones")

    def project_query(self, query):
        return query * self.scale if self.use_scale else query


@register("scaled_dot")
class ScaledDotScore(Score):
    """`score(q, k) = q . k / sqrt(d)`, with `d` the depth of both.

    Call arguments:
        query: `(..., Tq, D)`.
        key: `(..., Tk, D)`.

    Returns:
        Scores `(..., Tq, Tk)`.

    Raises:
        ValueError: if query and key differ in depth.

    Example:

    >>> import keras
    >>> import numpy as np
    >>> from keras_attention import ScaledDotScore
    >>> query, keys = np.ones((1, 4)), np.array([[1.0, 2.0, 3.0, 4.0]])
    >>> print(keras.ops.convert_to_numpy(ScaledDotScore()(query, keys)))
    [[5.]]

    Reference: Vaswani et al., 2017 (arXiv:1706.03762).
    """

    def build(self, query_shape, key_shape):
        super().build(query_shape, key_shape)
        self._require_equal_depths(query_shape, key_shape)

    def project_query(self, query):
        return query / math.sqrt(query.shape[-1])


@register("cosine")
class CosineScore(Score):
    """`score(q, k) = scale * q . k / (|q| |k|)`; a vector of zeros has cosine 0.

    Args:
        use_scale: whether to learn the scale, which starts at 1. Without one, scores stay
            between -1 and 1 and softmax weights nearly even.

    Call arguments:
        query: `(..., Tq, D)`.
        key: `(..., Tk, D)`.

    Returns:
        Scores `(..., Tq, Tk)`.

    Raises:
        ValueError: if query and key differ in depth.

    Example:

    >>> import keras
    >>> import numpy as np
    >>> from keras_attention import CosineScore
    >>> query, keys = np.ones((1, 3)), np.array([[7.0, 8.0, 9.0], [10.0, 11.0, 12.0]])
    >>> print(keras.ops.convert_to_numpy(CosineScore()(query, keys)).round(4))
    [[0.9948 0.9973]]

    Reference: Graves et al., 2014 (arXiv:1410.5401).
    """

    def __init__(self, use_scale=True, **kwargs):
        super().__init__(**kwargs)
        self.use_scale = use_scale

    def build(self, query_shape, key_shape):
        super().build(query_shape, key_shape)
        self._require_equal_depths(query_shape, key_shape)
        if self.use_scale:
            self.scale = self.add_weight(name="scale", shape=(), initializer="ones")

    def project_query(self, query):
        query = _unit_vectors(query)
        return query * self.scale if self.use_scale else query

    def project_key(self, key):
        return _unit_vectors(key)


@register("bilinear", "general")
class BilinearScore(WeightedScore):
    """`score(q, k) = q W k + b`, Luong's "general"; query and key have their own depths.

    Args:
        use_bias: whether to add a learned scalar. Softmax does not change with it,
            sigmoid does.
        use_scale: whether to multiply `q W k` by a learned scalar, which starts at 1.
        **kwargs: initializers, regularizers and constraints, `kernel_...` and `bias_...`,
            as in `keras.layers.Dense`.

    Call arguments:
        query: `(..., Tq, Dq)`.
        key: `(..., Tk, Dk)`.

    Returns:
        Scores `(..., Tq, Tk)`.

    Example:

    >>> import numpy as np
    >>> from keras_attention import BilinearScore
    >>> tuple(BilinearScore()(np.ones((2, 4, 6)), np.ones((2, 5, 7))).shape)
    (2, 4, 5)

    Reference: Luong et al., 2015 (arXiv:1508.04025).
    """

    def __init__(self, use_bias=False, use_scale=False, **kwargs):
        super().__init__(**kwargs)
        self.use_bias = use_bias
        self.use_scale = use_scale

    def build(self, query_shape, key_shape):
        super().build(query_shape, key_shape)
        self.kernel = self.add_kernel("kernel", (query_shape[-1], key_shape[-1]))
        if self.use_bias:
            self.bias = self.add_bias(())
        if self.use_scale:
            self.scale = self.add_weight(name="scale", shape=(), initializer="ones")

    def project_query(self, query):
        return query * self.scale if self.use_scale else query

    def project_key(self, key):
        return multiply(key, ops.transpose(self.kernel))

    def compare(self, query, key):
        scores = super().compare(query, key)
        return scores + ops.cast(self.bias, scores.dtype) if self.use_bias else scores


@register("trilinear")
class TrilinearScore(WeightedScore):
    """`score(q, k) = w_q . q + w_k . k + w_qk . (q * k) + b`.

    Args:
        use_bias: whether to add a learned scalar.
        **kwargs: initializers, regularizers and constraints, `kernel_...` and `bias_...`,
            as in `keras.layers.Dense`.

    Call arguments:
        query: `(..., Tq, D)`.
        key: `(..., Tk, D)`.

    Returns:
        Scores `(..., Tq, Tk)`.

    Raises:
        ValueError: if query and key differ in depth.

    Example:

    >>> import numpy as np
    >>> from keras_attention import TrilinearScore
    >>> tuple(TrilinearScore()(np.ones((2, 4, 6)), np.ones((2, 5, 6))).shape)
    (2, 4, 5)

    Reference: Seo et al., 2017 (arXiv:1611.01603).
    """

    def __init__(self, use_bias=False, **kwargs):
        super().__init__(**kwargs)
        self.use_bias = use_bias

    def build(self, query_shape, key_shape):
        super().build(query_shape, key_shape)
        self._require_equal_depths(query_shape, key_shape)
        depth = (key_shape[-1],)
        self.query_kernel = self.add_kernel("query_kernel", depth)
        self.key_kernel = self.add_kernel("key_kernel", depth)
        self.product_kernel = self.add_kernel("product_kernel", depth)
        if self.use_bias:
            self.bias = self.add_bias(())

    # One inner product makes all three terms: [q * w_qk, w_q . q + b, 1] . [k, 1, w_k . k].

    def project_query(self, query):
        linear = ops.sum(query * self.query_kernel, axis=-1, keepdims=True)
        if self.use_bias:
            linear = linear + self.bias
        product = query * self.product_kernel
        return ops.concatenate([product, linear, ops.ones_like(linear)], axis=-1)

    def project_key(self, key):
        linear = ops.sum(key * self.key_kernel, axis=-1, keepdims=True)
        return ops.concatenate([key, ops.ones_like(linear), linear], axis=-1)


def _unit_vectors(x):
    """`x` over its norm, counted in float32; zeros stay zeros, with a gradient of 0."""
    dtype = x.dtype
    if keras.backend.standardize_dtype(dtype) in ("float16", "bfloat16"):
        x = ops.cast(x, "float32")
    # Dividing by the largest entry first keeps the squares from overflowing.
    largest = ops.max(ops.abs(x), axis=-1, keepdims=True, initial=0.0)
    x = x / ops.stop_gradient(ops.where(largest > 0, largest, 1.0))
    squares = ops.sum(ops.square(x), axis=-1, keepdims=True)
    return ops.cast(x * ops.rsqrt(ops.where(squares > 0, squares, 1.0)), dtype)
