"""Attention for blocks of queries, one after another: the same result in bounded memory.

A block sees all keys, so any score and any normalizer give what they give for all queries
at once. Only the inputs are kept for the backward pass, which computes each block anew.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import keras
from keras import ops

from keras_attention import masks
from keras_attention.axes import batch_size, count_blocks
from keras_attention.mask_parts import lengthen, shorten

# Scores of more bytes than this are not made all at once.
WHOLE_BYTES = 2**25
# Scores of one block: a few of them fit a cache together.
BLOCK_BYTES = 2**23


class Parts(NamedTuple):
    """What attention does with a block of queries.

    Args:
        scores: of projected queries and keys.
        aggregate: `(scores, value, mask=, dropout=)` to the output and the weights.
        variables: Keras variables that the two read.
        temperature: of the softmax that `aggregate` applies; `None` if it is another.
        grouped: whether `tensorflow_groups` computes it, where a block has few of the
            rows of the axes before the last two.
    """

    scores: Callable
    aggregate: Callable
    variables: list[Any]
    temperature: float | None
    grouped: bool


class SeededDropout:
    """The dropout of a `keras.layers.Dropout` in training, the same for each block again.

    Args:
        layer: the `keras.layers.Dropout`.
    """

    def __init__(self, layer):
        self._layer = layer

    def __call__(self, weights):
        return self._layer(weights, training=True)

    def draw(self):
        """A new seed, for one call of attention."""
        return self._layer.seed_generator.next()

    def at(self, seed, index):
        """What `keras.StatelessScope` needs for block `index` to draw its own numbers."""
        # The layer itself counts on in the second number.
        step = ops.stack([ops.cast(index, seed.dtype), ops.zeros((), seed.dtype)])
        return [(self._layer.seed_generator.state, seed + 1000003 * step)]


def choose(scores_shape, numbers, grouped=False):
    """How many queries make a block, or `None` for all at once.

    Decided when a graph is made, so that it holds one way only.

    Args:
        scores_shape: `(..., Tq, Tk)`. An unknown size before the last two counts as
            32; where a length is unknown, the answer is `None`.
        numbers: how many numbers the score keeps for each pair of query and key.
        grouped: whether a block need not have all of the axes before the last two.

    >>> choose((4, 100, 100), 1), choose((None, 2048, 2048), 1), choose((4, None, 100), 1)
    (None, 32, None)
    >>> choose((None, 4096, 4096), 1, grouped=True)
    512
    """
    *lead, queries, keys = scores_shape
    if queries is None or keys is None:
        return None
    row = 4 * numbers * keys
    if row * batch_size(lead) * queries <= WHOLE_BYTES:
        return None
    most = BLOCK_BYTES // (row * (1 if grouped else batch_size(lead)))
    return -(-queries // count_blocks(queries, max(1, most)))


def attend(parts, tensors, *, block, mask=None, dropout=None):
    """The output of attention, for blocks of queries.

    Args:
        parts: what is done with each block, `Parts`.
        tensors: the projected query `(..., Tq, P)`, the projected key `(..., Tk, P)` and
            the value `(..., Tk, Dv)`.
        block: how many queries make a block.
        mask: `mask_parts.Masks`, or `None`.
        dropout: a `SeededDropout` or `None`.

    Returns:
        The output `(..., Tq, Dv)`.
    """
    query, key, value = tensors
    length = ops.shape(query)[-2]
    query = lengthen(query, length, block)
    seed = None if dropout is None else dropout.draw()
    # As plain tensors, so that each backend sees what a block depends on.
    values = [ops.convert_to_tensor(v) for v in parts.variables]

    def scope(index, values):
        known = list(zip(parts.variables, values, strict=True))
        return keras.StatelessScope(
            known + ([] if seed is None else dropout.at(seed, index))
        )

    def dropped(index, weights):
        with scope(index, values):
            return dropout(weights)

    drop = None if seed is None else dropped
    if parts.grouped:
        from keras_attention import tensorflow_groups

        query = query if parts.temperature == 1 else query / parts.temperature
        output = tensorflow_groups.attend(
            query, key, value, block=block, masks=mask, drop=drop, most=BLOCK_BYTES
        )
        output = shorten(output, length)
        return masks.hide(output, mask.sees()) if mask else output

    mask_at = mask.in_blocks(block) if mask else lambda index: None

    def scores(query, key, *values):
        with scope(0, values):
            scores = ops.cast(parts.scores(query, key), value.dtype)
        return scores if parts.temperature == 1 else scores / parts.temperature

    def one_block(index, query, key, value, *values):
        with scope(index, values):
            options = dict(mask=mask_at(index), dropout=dropout)
            return parts.aggregate(parts.scores(query, key), value, **options)[0]

    if keras.backend.backend() != "tensorflow":
        output = map_blocks(one_block, query, [key, value, *values], block)
    elif parts.temperature and keras.backend.standardize_dtype(value.dtype) == "float32":
        from keras_attention import tensorflow_blocks

        options = dict(mask_at=mask_at, drop=drop)
        output = tensorflow_blocks.softmax_blocks(
            scores, query, key, value, values, block=block, **options
        )
    else:
        from keras_attention import tensorflow_blocks

        tensors = [key, value, *values]
        output = tensorflow_blocks.map_blocks(one_block, query, tensors, block)
    return shorten(output, length)


def map_blocks(function, rows, shared, block):
    """`function(index, rows_of_a_block, *shared)` for each block, end to end.

    What happens inside is computed anew in the backward pass, not kept.

    Args:
        function: returns `(..., block, D)`.
        rows: `(..., T, P)`, with `T` a multiple of `block`.
        shared: list of tensors that each block gets whole.
        block: number of rows.

    Returns:
        A tensor `(..., T, D)`.
    """
    again = keras.remat(function)
    *lead, length, depth = rows.shape
    stack = ops.reshape(rows, (*lead, length // block, block, depth))
    stack = ops.moveaxis(stack, -3, 0)
    indices = ops.arange(length // block, dtype="int32")
    outputs = ops.map(lambda at: again(*at, *shared), (indices, stack))
    return ops.reshape(ops.moveaxis(outputs, 0, -3), (*lead, length, -1))
