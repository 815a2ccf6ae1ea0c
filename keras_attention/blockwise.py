"""Attention for blocks of queries, one after another: the same result in bounded memory.

A block sees all keys, so any score and any normalizer give what they give for all queries
at once. Only the inputs are kept for the backward pass, which computes each block anew.
"""

import math

import keras
from keras import ops

# Scores of more bytes than this are not made all at once.
WHOLE_BYTES = 2**25
# Scores of one block: a few of them fit a cache together.
BLOCK_BYTES = 2**22


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


def choose(scores_shape, numbers, block_size=None):
    """How many queries make a block, or `None` for all at once.

    Args:
        scores_shape: `(..., Tq, Tk)`, unknown sizes as tensors.
        numbers: how many numbers the score keeps for each pair of query and key.
        block_size: what the user wants.

    Returns:
        An integer, or a tensor where sizes are unknown: all queries, if they fit
        `WHOLE_BYTES`.
    """
    *lead, queries, keys = scores_shape
    if block_size is not None:
        return block_size
    if all(isinstance(size, int) for size in scores_shape):
        row = 4 * numbers * math.prod(lead) * keys
        if row * queries <= WHOLE_BYTES:
            return queries
        return max(1, min(queries, BLOCK_BYTES // row))
    row = 4.0 * numbers * ops.prod(ops.cast(ops.stack([*lead, keys]), "float32"))
    queries = ops.cast(queries, "float32")
    block = ops.clip(ops.floor(BLOCK_BYTES / row), 1.0, queries)
    return ops.cast(ops.where(row * queries <= WHOLE_BYTES, queries, block), "int32")


def attend(compute, query, key, value, mask, *, block, variables, dropout=None):
    """`compute(query, key, value, mask, dropout)` for blocks of `query` and `mask`.

    Args:
        compute: returns the output `(..., Tq, Dv)`.
        query: `(..., Tq, P)`.
        key: `(..., Tk, P)`.
        value: `(..., Tk, Dv)`.
        mask: booleans that broadcast to `(..., Tq, Tk)`, or `None`.
        block: how many queries make a block.
        variables: Keras variables that `compute` reads.
        dropout: a `SeededDropout` or `None`.

    Returns:
        The output `(..., Tq, Dv)`.
    """
    length = ops.shape(query)[-2]
    rows, shared = [_lengthen(query, length, block)], [key, value]
    mask_in_rows = mask is not None and mask.shape[-2] != 1
    if mask_in_rows:
        if mask.shape[-2] is None:
            *lead, _, keys = ops.shape(mask)
            mask = ops.broadcast_to(mask, (*lead, length, keys))
        rows.append(_lengthen(mask, length, block))
    elif mask is not None:
        shared.append(mask)
    seeds = [] if dropout is None else [dropout.draw()]
    # As plain tensors, so that each backend's recomputing sees what it depends on.
    values = [ops.convert_to_tensor(v) for v in variables]

    def one_block(index, query, *others):
        others = list(others)
        mask = others.pop(0) if mask_in_rows else None
        key, value = others[:2]
        del others[:2]
        if mask is None and shared[2:]:
            mask = others.pop(0)
        known = list(zip(variables, others[len(seeds) :], strict=True))
        if seeds:
            known += dropout.at(others[0], index)
        with keras.StatelessScope(known):
            return compute(query, key, value, mask, dropout)

    shared_tensors = [*shared, *seeds, *values]
    output = map_blocks(one_block, rows, shared_tensors, block, value.dtype)
    return output[..., :length, :]


def map_blocks(function, rows, shared, block, dtype):
    """`function(index, *rows_of_a_block, *shared)` for each block, end to end.

    What happens inside is computed anew in the backward pass, not kept.

    Args:
        function: returns `(..., block, D)`.
        rows: list of tensors `(..., T, any)`, with `T` a multiple of `block`.
        shared: list of tensors that each block gets whole.
        block: number of rows.
        dtype: of the result.

    Returns:
        A tensor `(..., T, D)`.
    """
    if keras.backend.backend() == "tensorflow":
        from keras_attention import tensorflow_blocks

        return tensorflow_blocks.map_blocks(function, rows, shared, block, dtype)
    again = keras.remat(function)

    def one_block(at):
        return again(*at, *shared)

    stacks = [_split(x, block) for x in rows]
    outputs = ops.map(one_block, (ops.arange(stacks[0].shape[0]), *stacks))
    outputs = ops.moveaxis(outputs, 0, -3)
    *lead, blocks, _, depth = outputs.shape
    return ops.reshape(outputs, (*lead, blocks * block, depth))


def _split(x, block):
    """`(..., T, D)` to `(T / block, ..., block, D)`."""
    *lead, length, depth = x.shape
    return ops.moveaxis(ops.reshape(x, (*lead, length // block, block, depth)), -3, 0)


def _lengthen(x, length, block):
    """Zeros (`False`) behind the rows, up to a multiple of `block`."""
    gap = -length % block
    if isinstance(gap, int) and gap == 0:
        return x
    return ops.pad(x, [*([0, 0] for _ in x.shape[:-2]), [0, gap], [0, 0]])
