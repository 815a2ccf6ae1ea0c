"""Normalizers: from scores and a mask to weights.

All are Keras layers, `normalizer(scores, mask=None)`, work along the last axis, count in
float32 whatever dtype they return, and give a masked position a weight of exactly 0. A row
in which everything is masked gets weights 0.
"""

import keras
import numpy as np
from keras import ops

from keras_attention.config import Configurable, Registry

__all__ = [
    "Entmax15",
    "Normalizer",
    "Sigmoid",
    "Softmax",
    "Sparsemax",
    "get",
    "names",
    "register",
    "unregister",
]


@keras.saving.register_keras_serializable("keras_attention")
class Normalizer(Configurable, keras.layers.Layer):
    """Base class: turns scores into weights along the last axis.

    A subclass defines `normalize(scores, mask)`, with scores in float32 or wider and a
    boolean mask that broadcasts to them, or `None`.

    Call arguments:
        scores: `(..., Tq, Tk)`, any float dtype.
        mask: booleans that broadcast to it, `True` = may be attended.

    Returns:
        Weights of the shape of `scores`, in the layer's dtype.

    Example:

    >>> import keras
    >>> import numpy as np
    >>> from keras_attention import normalizers
    >>> class Even(normalizers.Normalizer):
    ...     def normalize(self, scores, mask):
    ...         ones = keras.ops.ones_like(scores)
    ...         ones = ones if mask is None else keras.ops.where(mask, ones, 0.0)
    ...         return ones / keras.ops.sum(ones, axis=-1, keepdims=True)
    >>> print(keras.ops.convert_to_numpy(Even()(np.array([[3.0, 1.0]]))))
    [[0.5 0.5]]
    """

    # Whether weights are drawn, so that computing them again gives others.
    is_random = False

    def __init__(self, **kwargs):
        # Scores come in float32 on purpose; Keras would cast them down on the way in.
        super().__init__(autocast=False, **kwargs)

    def call(self, scores, mask=None):
        return ops.cast(self.normalize(self.in_float32(scores), mask), self.compute_dtype)

    def in_float32(self, scores):
        """Scores in float32 or wider, so that sums over many of them are right."""
        half = keras.backend.standardize_dtype(scores.dtype) in ("float16", "bfloat16")
        return ops.cast(scores, "float32") if half else scores

    def as_used(self, weights):
        """The weights as they enter the weighted sum: `weights`, to a derivative."""
        return weights

    def compute_mask(self, inputs, previous_mask):
        return None


_registry = Registry("normalizer", Normalizer)
register = _registry.register
unregister = _registry.unregister
get = _registry.get
names = _registry.names


@register("softmax")
class Softmax(Normalizer):
    """`w_j = exp(s_j / temperature) / sum_i exp(s_i / temperature)`, over unmasked `i`.

    Args:
        temperature: positive number; below 1 sharpens, above 1 flattens.

    Call arguments:
        scores: `(..., Tq, Tk)`.
        mask: booleans that broadcast to it, `True` = may be attended.

    Returns:
        Weights of the shape of `scores`. Rows sum to 1, or are 0 if all is masked.

    Raises:
        ValueError: if `temperature` is not positive.

    Example:

    >>> import keras
    >>> import numpy as np
    >>> from keras_attention import Softmax
    >>> scores = np.log([[1.0, 2.0, 5.0]])
    >>> weights = Softmax()(scores, mask=np.array([[True, True, False]]))
    >>> print(keras.ops.convert_to_numpy(weights).round(4))
    [[0.3333 0.6667 0.    ]]

    Reference: Bahdanau et al., 2015 (arXiv:1409.0473).
    """

    def __init__(self, temperature=1.0, **kwargs):
        super().__init__(**kwargs)
        if not temperature > 0:
            raise ValueError(
                f"Expected a positive `temperature`. Received: {temperature!r}"
            )
        self.temperature = temperature

    def normalize(self, scores, mask):
        if self.temperature != 1:
            scores = scores / self.temperature
        if keras.backend.backend() == "tensorflow":
            from keras_attention import tensorflow_softmax

            return tensorflow_softmax.softmax(scores, mask)
        exponentials = ops.exp(below_maximum(scores, mask))
        if mask is not None:
            exponentials = ops.where(mask, exponentials, 0.0)
        total = ops.sum(exponentials, axis=-1, keepdims=True)
        return _closed(exponentials / ops.where(total > 0, total, 1.0), mask)


@register("sparsemax")
class Sparsemax(Normalizer):
    """`w = argmin_p |p - s|^2` over probabilities `p`: softmax with exact zeros.

    `w_j = max(s_j - t, 0)`, with the threshold `t` that makes the row sum to 1.

    Call arguments:
        scores: `(..., Tq, Tk)`.
        mask: booleans that broadcast to it, `True` = may be attended.

    Returns:
        Weights of the shape of `scores`. Rows sum to 1, or are 0 if all is masked.

    Example:

    >>> import keras
    >>> import numpy as np
    >>> from keras_attention import Sparsemax
    >>> print(keras.ops.convert_to_numpy(Sparsemax()(np.array([[1.0, 0.5, -1.0]]))))
    [[0.75 0.25 0.  ]]

    Reference: Martins and Astudillo, 2016 (arXiv:1602.02068).
    """

    def normalize(self, scores, mask):
        mask = possible(scores, mask)
        scores = _clipped(scores, mask, -1.0)
        ordered, rank = _descending(scores)
        in_support = 1 + rank * ordered > ops.cumsum(ordered, axis=-1)
        support = _support(scores, mask, ordered, in_support)
        # Rounding in a long sum may let losers in; the threshold itself puts them out.
        for _ in range(2):
            threshold = (_sum(support * scores) - 1) / _size(support)
            support = support * ops.cast(scores > threshold, scores.dtype)
        # Within a given support the threshold is a plain formula of the scores, so its
        # derivative is the exact one and none has to pass through the sorting.
        threshold = (_sum(support * scores) - 1) / _size(support)
        return _closed(support * ops.relu(scores - threshold), mask)


@register("entmax15")
class Entmax15(Normalizer):
    """`w_j = max(s_j / 2 - t, 0)^2`: between softmax and sparsemax, with exact zeros.

    The threshold `t` makes the row sum to 1; it is found exactly, by sorting.

    Call arguments:
        scores: `(..., Tq, Tk)`.
        mask: booleans that broadcast to it, `True` = may be attended.

    Returns:
        Weights of the shape of `scores`. Rows sum to 1, or are 0 if all is masked.

    Example:

    >>> import keras
    >>> import numpy as np
    >>> from keras_attention import Entmax15
    >>> weights = Entmax15()(np.array([[1.0, 0.5, -1.0]]))
    >>> print(keras.ops.convert_to_numpy(weights).round(4))
    [[0.6739 0.3261 0.    ]]

    Reference: Peters, Niculae and Martins, 2019 (arXiv:1905.05702).
    """

    def normalize(self, scores, mask):
        mask = possible(scores, mask)
        scores = _clipped(scores / 2, mask, -2.0)
        ordered, rank = _descending(scores)
        mean = ops.cumsum(ordered, axis=-1) / rank
        # Deviations from the mean over the first k: k * (mean of squares - mean^2).
        squares = ops.cumsum(ops.square(ordered), axis=-1)
        spread = squares - rank * ops.square(mean)
        gap = ops.maximum((1 - spread) / rank, 0.0)
        support = _support(scores, mask, ordered, mean - ops.sqrt(gap) <= ordered)
        # As in sparsemax: exact derivatives from the formula within the support.
        size = _size(support)
        mean = _sum(support * scores) / size
        spread = _sum(support * ops.square(scores - mean))
        threshold = mean - ops.sqrt((1 - spread) / size)
        return _closed(support * ops.square(scores - threshold), mask)


@register("sigmoid")
class Sigmoid(Normalizer):
    """`w_j = 1 / (1 + exp(-s_j))`: each key on its own, rows do not sum to 1.

    Call arguments:
        scores: `(..., Tq, Tk)`.
        mask: booleans that broadcast to it, `True` = may be attended.

    Returns:
        Weights between 0 and 1, of the shape of `scores`.

    Example:

    >>> import keras
    >>> import numpy as np
    >>> from keras_attention import Sigmoid
    >>> print(keras.ops.convert_to_numpy(Sigmoid()(np.array([[0.0, -200.0]]))))
    [[0.5 0. ]]

    Reference: Ramapuram et al., 2024 (arXiv:2409.04431).
    """

    def normalize(self, scores, mask):
        if mask is None:
            return ops.sigmoid(scores)
        return ops.where(mask, ops.sigmoid(ops.where(mask, scores, 0.0)), 0.0)


def _closed(weights, mask):
    """`weights`, which let no gradient in where masked: it may be infinite there."""
    return weights if mask is None else ops.where(mask, weights, 0.0)


def below_maximum(scores, mask):
    """Scores less their row's largest unmasked one: finite where masked."""
    lowest = float(np.finfo(keras.backend.standardize_dtype(scores.dtype)).min)
    if mask is not None:
        scores = ops.where(mask, scores, lowest)
    top = ops.max(scores, axis=-1, keepdims=True, initial=lowest)
    return scores - ops.stop_gradient(top)


def possible(scores, mask):
    """`mask`, less the places where a score of minus infinity leaves no chance."""
    possible = ops.not_equal(scores, -float("inf"))
    return possible if mask is None else ops.logical_and(mask, possible)


def _clipped(scores, mask, floor):
    """Scores below their maximum, none under `floor`.

    A sparse normalizer gives nothing to a score that lies 1 or more below the largest, so
    a floor of -1 or less changes no weight, and no sum can overflow.
    """
    return ops.maximum(below_maximum(scores, mask), floor)


def _descending(scores):
    """Scores from the largest down, and their ranks from 1."""
    ordered = -ops.sort(-ops.stop_gradient(scores), axis=-1)
    return ordered, ops.cumsum(ops.ones_like(ordered), axis=-1)


def _support(scores, mask, ordered, in_support):
    """1 for each score that the leading ones of `ordered` reach down to, else 0."""
    reached = ops.where(in_support, ordered, 0.0)
    smallest = ops.min(reached, axis=-1, keepdims=True, initial=0.0)
    return ops.cast(ops.logical_and(scores >= smallest, mask), scores.dtype)


def _sum(x):
    return ops.sum(x, axis=-1, keepdims=True)


def _size(support):
    return ops.maximum(_sum(support), 1.0)
