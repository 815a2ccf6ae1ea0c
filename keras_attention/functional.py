"""score -> mask -> normalise -> aggregate, once for every layer."""

import keras
import numpy as np
from keras import ops

from keras_attention import masks, normalizers, scores


def as_float(x, dtype):
    """`x` as a tensor, cast to `dtype` unless it is one of a float dtype."""
    if not ops.is_tensor(x):
        return ops.convert_to_tensor(x, dtype)
    is_float = "float" in keras.backend.standardize_dtype(x.dtype)
    return x if is_float else ops.cast(x, dtype)


def attend(
    query,
    value,
    key=None,
    *,
    score="scaled_dot",
    normalizer="softmax",
    mask=None,
    dropout=None,
):
    """Attention as a function: `normalizer(score(query, key)) @ value`.

    What `mask` hides has no influence: see `keras_attention.masks`.

    Args:
        query: `(..., Tq, Dq)`.
        value: `(..., Tk, Dv)`.
        key: `(..., Tk, Dk)`; `None` for `value`.
        score: a `Score`, or the name of one without weights.
        normalizer: a `Normalizer` or its name.
        mask: booleans that broadcast to `(..., Tq, Tk)`, `True` = may be attended.
        dropout: a layer or function that is applied to the weights used, not to those
            returned.

    Returns:
        `(output, weights)` of shapes `(..., Tq, Dv)` and `(..., Tq, Tk)`.

    Example:

    >>> import numpy as np
    >>> from keras_attention import attend
    >>> query = np.array([[1.0, 0.0]])
    >>> value = np.array([[0.0, 10.0], [np.log(2.0), 20.0], [5.0, 99.0]])
    >>> mask = np.array([[True, True, False]])
    >>> output, weights = attend(query, value, score="dot", mask=mask)
    >>> print(ops.convert_to_numpy(weights).round(4))
    [[0.3333 0.6667 0.    ]]

    Reference: Vaswani et al., 2017 (arXiv:1706.03762).
    """
    score, normalizer = scores.get(score), normalizers.get(normalizer)
    dtype = score.compute_dtype
    query, value = as_float(query, dtype), as_float(value, dtype)
    key = value if key is None else as_float(key, dtype)
    unsound = None
    if mask is not None:
        mask = masks.as_boolean(mask)
        mask = mask if len(mask.shape) > 1 else ops.expand_dims(mask, 0)
        query, key, value, unsound = masks.isolate(query, key, value, mask)
    output, weights = aggregate(
        score(query, key), value, normalizer=normalizer, mask=mask, dropout=dropout
    )
    if unsound is not None:
        unsound = ops.expand_dims(unsound, -1)
        output = ops.where(unsound, np.nan, output)
        weights = ops.where(unsound, np.nan, weights)
    return output, weights


def aggregate(scores, value, *, normalizer, mask=None, dropout=None):
    """The last three stages: `(output, weights)` from scores and values."""
    weights = ops.cast(normalizer(scores, mask=mask), value.dtype)
    used = normalizer.as_used(weights)
    used = used if dropout is None else dropout(used)
    return ops.matmul(used, value), weights
