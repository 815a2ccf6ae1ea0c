"""Axes: the pooled ones folded into one and back, their sizes, the largest along one."""

import math
import operator

import keras
from keras import ops

# What a graph that does not know the size of a batch counts on: Keras's own default.
UNKNOWN_BATCH = 32


class PooledAxes:
    """Which axes of an input of `rank` axes are pooled, and which are kept.

    Args:
        axis: an integer or several, negative ones counted from the end; neither the
            first axis (the batch) nor the last (the features).
        rank: number of axes of the input.

    Raises:
        ValueError: for axes that such an input does not have, or that cannot be pooled.
    """

    def __init__(self, axis, rank):
        listed = axis if isinstance(axis, tuple) else (axis,)
        pooled = sorted(operator.index(a) % rank for a in listed if -rank <= a < rank)
        allowed = len(pooled) == len(set(pooled)) == len(listed)
        if not allowed or not pooled or pooled[0] == 0 or pooled[-1] == rank - 1:
            raise ValueError(
                f"Expected `axis` to name axes between the batch and the last one of an "
                f"input with {rank} axes, each once: of (B, T, D) it is 1 or -2. "
                f"Received: axis={axis}"
            )
        self.pooled = pooled
        self.kept = [a for a in range(rank - 1) if a not in pooled]

    def fold(self, x):
        """The input, or its mask, with the kept axes first and the pooled ones as one."""
        last = list(range(len(self.pooled) + len(self.kept), len(x.shape)))
        order = self.kept + self.pooled + last
        if order != sorted(order):
            x = ops.transpose(x, order)
        if len(self.pooled) == 1:
            return x
        shape = ops.shape(x)
        first = len(self.kept)
        return ops.reshape(x, (*shape[:first], -1, *shape[first + len(self.pooled) :]))

    def folded_shape(self, shape):
        """The shape of `fold(x)` for `x` of `shape`, unknown sizes being `None`."""
        lengths = [shape[a] for a in self.pooled]
        length = None if None in lengths else math.prod(lengths)
        return (*(shape[a] for a in self.kept), length, *shape[-1:])

    def unfold_output(self, output):
        """`(*kept, queries, D)` with the queries where the first pooled axis was."""
        return ops.moveaxis(output, -2, self.pooled[0])

    def unfold_weights(self, weights, x):
        """`(*kept, queries, pooled)` as the axes of `x`, queries before the pooled ones."""
        queries = len(self.kept)
        shape, sizes = ops.shape(weights), ops.shape(x)
        weights = ops.reshape(
            weights, (*shape[: queries + 1], *(sizes[a] for a in self.pooled))
        )
        now = [*self.kept, "queries", *self.pooled]
        then = sorted(self.kept + self.pooled)
        then.insert(self.pooled[0], "queries")
        order = [now.index(a) for a in then]
        return weights if order == sorted(order) else ops.transpose(weights, order)


def batch_size(shape):
    """How many rows all `shape` makes, where an unknown size counts as `UNKNOWN_BATCH`.

    >>> batch_size((2, 3)), batch_size((None, 3))
    (6, 96)
    """
    return math.prod(UNKNOWN_BATCH if size is None else size for size in shape)


def count_blocks(length, block):
    """How many blocks hold the rows: one at least, as a loop makes nothing of none."""
    blocks = -(-length // block)
    return max(blocks, 1) if isinstance(blocks, int) else ops.maximum(blocks, 1)


def is_known(size, number):
    """Whether a size, which may be a tensor of a graph, is known to be `number`."""
    return isinstance(size, int) and size == number


def argmax(x):
    """Integers `(...)`: where each row `(..., D)` has its largest number, the first one."""
    x = ops.convert_to_tensor(x)
    if keras.backend.backend() == "tensorflow" and x.dtype != "bool":
        # There `ops.argmax` takes more than twice as long, to tell -0 from 0.
        return ops.top_k(x, 1)[1][..., 0]
    return ops.cast(ops.argmax(x, axis=-1), "int32")
