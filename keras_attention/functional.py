"""score -> mask -> normalise -> aggregate, once for every layer."""

import functools

import keras
import numpy as np
from keras import ops

from keras_attention import blockwise, masks, normalizers, scores


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
    return_attention_scores=True,
    attention_rows=None,
    block_size=None,
):
    """Attention as a function: `normalizer(score(query, key)) @ value`.

    What `mask` hides has no influence: see `keras_attention.masks`.

    Where the weights are not asked for and would take more than
    `keras_attention.blockwise.WHOLE_BYTES` (32 MiB), queries are taken in blocks, one
    after another, and computed anew in the backward pass: the same result in bounded
    memory.

    Args:
        query: `(..., Tq, Dq)`.
        value: `(..., Tk, Dv)`.
        key: `(..., Tk, Dk)`; `None` for `value`.
        score: a `Score`, or the name of one without weights.
        normalizer: a `Normalizer` or its name.
        mask: booleans that broadcast to `(..., Tq, Tk)`, `True` = may be attended.
        dropout: a layer or function that is applied to the weights used, not to those
            returned. Only a `blockwise.SeededDropout` goes with blocks.
        return_attention_scores: whether to return all weights.
        attention_rows: integers `(R,)`, the queries to return weights for, when not all
            weights are returned.
        block_size: how many queries make a block; `None` to choose by size, where a graph
            that does not know the size of the batch counts on 32, and one that does not
            know a length takes all at once.

    Returns:
        `(output, weights)` of shapes `(..., Tq, Dv)` and `(..., Tq, Tk)`. The weights are
        those of `attention_rows`, `(..., R, Tk)`, or `None`, if not all are asked for.

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
    unsound, rows_of = None, None
    if mask is not None:
        mask = masks.as_boolean(mask)
        mask = mask if len(mask.shape) > 1 else ops.expand_dims(mask, 0)
    if attention_rows is not None and not return_attention_scores:
        rows_of = ops.take(query, attention_rows, axis=-2), value, key
        rows_mask = mask
        if mask is not None and mask.shape[-2] != 1:
            rows_mask = ops.take(mask, attention_rows, axis=-2)
    if mask is not None:
        query, key, value, unsound = masks.isolate(query, key, value, mask)
    parts = dict(score=score, normalizer=normalizer, mask=mask, dropout=dropout)
    if return_attention_scores:
        output, weights = _at_once(query, key, value, **parts)
    else:
        output, weights = _bounded(query, key, value, block_size, **parts), None
    if unsound is not None:
        unsound = ops.expand_dims(unsound, -1)
        output = ops.where(unsound, np.nan, output)
        weights = None if weights is None else ops.where(unsound, np.nan, weights)
    if rows_of is not None:
        options = dict(score=score, normalizer=normalizer, mask=rows_mask)
        _, weights = attend(*rows_of, **options)
    return output, weights


def _at_once(query, key, value, *, score, **parts):
    return aggregate(score(query, key), value, **parts)


def _bounded(query, key, value, block_size, *, score, normalizer, mask, dropout):
    """The output alone, for blocks of queries where all at once would be too much."""
    parts = dict(score=score, normalizer=normalizer, mask=mask, dropout=dropout)
    unseeded = dropout is not None and not isinstance(dropout, blockwise.SeededDropout)
    empty = 0 in (query.shape[-2], key.shape[-2])
    if unseeded or normalizer.is_random or empty:
        return _at_once(query, key, value, **parts)[0]
    first = query[..., 0, 0] + key[..., 0, 0]
    queries, keys = query.shape[-2], key.shape[-2]
    if block_size is None:
        numbers = score.numbers_per_pair(key.shape[-1])
        block_size = blockwise.choose((*first.shape, queries, keys), numbers)
    if block_size is None or (queries is not None and block_size >= queries):
        return _at_once(query, key, value, **parts)[0]
    if tuple(query.shape[:-2]) != tuple(first.shape):
        shape = *ops.shape(first), *ops.shape(query)[-2:]
        query = ops.broadcast_to(query, shape)

    is_softmax = type(normalizer) is normalizers.Softmax
    steps = blockwise.Parts(
        scores=functools.partial(score, stage="compare"),
        aggregate=functools.partial(aggregate, normalizer=normalizer),
        variables=[*score.variables, *normalizer.variables],
        temperature=normalizer.temperature if is_softmax else None,
    )

    tensors = *score(query, key, stage="project"), value
    return blockwise.attend(steps, tensors, block=block_size, mask=mask, dropout=dropout)


def aggregate(scores, value, *, normalizer, mask=None, dropout=None):
    """The last three stages: `(output, weights)` from scores and values."""
    weights = ops.cast(normalizer(scores, mask=mask), value.dtype)
    used = normalizer.as_used(weights)
    used = used if dropout is None else dropout(used)
    return ops.matmul(used, value), weights
