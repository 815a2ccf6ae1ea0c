"""score -> mask -> normalise -> aggregate, once for every layer."""

import functools

import keras
import numpy as np
from keras import ops

from keras_attention import blockwise, masks, normalizers, scores
from keras_attention.config import check_positive_integer
from keras_attention.mask_parts import Masks


def check_rows(rows, queries):
    """Raises `ValueError` unless `rows` are numbers of some of the queries, in a list."""
    fits = np.ndim(rows) == 1
    if fits and isinstance(rows, (list, tuple, np.ndarray)) and queries is not None:
        fits = all(-queries <= row < queries for row in rows)
    if not fits:
        raise ValueError(
            f"Expected `attention_rows` to be a list of numbers of the {queries} queries. "
            f"Received: {rows!r}"
        )


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
    use_causal_mask=False,
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
        mask: booleans that broadcast to `(..., Tq, Tk)`, `True` = may be attended; a tuple
            of several is AND-ed, in blocks without making them one.
        use_causal_mask: whether to hide keys that are later than the query as well, as
            `causal_mask` does.
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
    if block_size is not None:
        check_positive_integer("block_size", block_size)
    mask = _gather(mask, use_causal_mask, query, key)
    rows_of, unsound = None, None
    if attention_rows is not None and not return_attention_scores:
        check_rows(attention_rows, query.shape[-2])
        rows_of = ops.take(query, attention_rows, axis=-2), value, key
        rows_mask = mask and mask.take(attention_rows)
    block = None
    if not return_attention_scores:
        block = _block(query, key, value, score, normalizer, dropout, block_size)
    parts = dict(normalizer=normalizer, dropout=dropout)
    if block is None:
        mask = mask and mask.whole()
        if mask is not None:
            query, key, value, unsound = masks.isolate(query, key, value, mask)
        output, weights = aggregate(score(query, key), value, mask=mask, **parts)
    else:
        if mask:
            query, key, value, unsound = mask.isolate(query, key, value)
        parts = dict(parts, score=score, mask=mask)
        output, weights = _in_blocks(query, key, value, block, **parts), None
    weights = weights if return_attention_scores else None
    if unsound is not None:
        unsound = ops.expand_dims(unsound, -1)
        output = ops.where(unsound, np.nan, output)
        weights = None if weights is None else ops.where(unsound, np.nan, weights)
    if rows_of is not None:
        options = dict(score=score, normalizer=normalizer, mask=rows_mask)
        _, weights = attend(*rows_of, **options)
    return output, weights


def _gather(mask, use_causal_mask, query, key):
    """`mask_parts.Masks` of what `attend` was given, or `None`."""
    parts = mask if isinstance(mask, tuple) else (mask,)
    parts = tuple(_with_two_axes(part) for part in parts if part is not None)
    if not parts and not use_causal_mask:
        return None
    lengths = ops.shape(query)[-2], ops.shape(key)[-2]
    return Masks(parts, use_causal_mask, lengths)


def _with_two_axes(mask):
    mask = masks.as_boolean(mask)
    return mask if len(mask.shape) > 1 else ops.expand_dims(mask, 0)


def _block(query, key, value, score, normalizer, dropout, block_size):
    """How many queries make a block, or `None` for all at once."""
    unseeded = dropout is not None and not isinstance(dropout, blockwise.SeededDropout)
    queries, keys = query.shape[-2], key.shape[-2]
    if unseeded or normalizer.is_random or 0 in (queries, keys):
        return None
    if block_size is not None:
        return None if queries is not None and block_size >= queries else block_size
    lead = _first(query, key, value).shape
    numbers = score.numbers_per_pair(key.shape[-1])
    grouped = _is_grouped(score, normalizer, value)
    return blockwise.choose((*lead, queries, keys), numbers, grouped)


def _first(query, key, value):
    """A tensor of the shape of the axes before the last two, broadcast."""
    first = query[..., 0, 0]
    for x in (key, value):
        if tuple(x.shape[:-2]) != tuple(first.shape):
            first = first + ops.cast(x[..., 0, 0], first.dtype)
    return first


def _is_grouped(score, normalizer, value):
    """Whether heads need not be together in a block: `tensorflow_groups` takes a few."""
    return (
        keras.backend.backend() == "tensorflow"
        and keras.backend.standardize_dtype(value.dtype) == "float32"
        and type(normalizer) is normalizers.Softmax
        and type(score).compare is scores.Score.compare
    )


def _in_blocks(query, key, value, block, *, score, normalizer, mask, dropout):
    """The output alone, for blocks of queries."""
    # The key's gradient adds up over the axes that it is broadcast along, these do not.
    first = _first(query, key, value)
    query, value = (
        x
        if tuple(x.shape[:-2]) == tuple(first.shape)
        else ops.broadcast_to(x, (*ops.shape(first), *ops.shape(x)[-2:]))
        for x in (query, value)
    )
    is_softmax = type(normalizer) is normalizers.Softmax
    steps = blockwise.Parts(
        scores=functools.partial(score, stage="compare"),
        aggregate=functools.partial(aggregate, normalizer=normalizer),
        variables=[*score.variables, *normalizer.variables],
        temperature=normalizer.temperature if is_softmax else None,
        grouped=_is_grouped(score, normalizer, value),
    )
    tensors = *score(query, key, stage="project"), value
    return blockwise.attend(steps, tensors, block=block, mask=mask, dropout=dropout)


def aggregate(scores, value, *, normalizer, mask=None, dropout=None):
    """The last three stages: `(output, weights)` from scores and values."""
    weights = ops.cast(normalizer(scores, mask=mask), value.dtype)
    used = normalizer.as_used(weights)
    used = used if dropout is None else dropout(used)
    return ops.matmul(used, value), weights
