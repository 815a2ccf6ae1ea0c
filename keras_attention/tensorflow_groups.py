"""Softmax attention of inner products, for groups of heads and blocks of queries.

A block stays in a processor's cache, and few passes are made over it: the softmax is one
kernel, quicker than exponentials alone are, so that the backward pass takes it again
rather than keep what would save a part of it. A column of ones takes off a mean there
within a product of matrices.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import tensorflow as tf

from keras_attention.axes import batch_size, count_blocks, is_known
from keras_attention.tensorflow_gradients import differentiable_once, loop, unwatched
from keras_attention.tensorflow_softmax import hide, weights_of


def attend(query, key, value, *, block, masks, drop, most):
    """`softmax(query @ key^T) @ value`.

    Args:
        query: `(..., T, P)`, with `T` a multiple of `block`.
        key: `(..., Tk, P)`.
        value: `(..., Tk, Dv)`, in float32.
        block: number of queries.
        masks: `mask_parts.Masks` or `None`.
        drop: dropout, from the index of a block and weights; or `None`.
        most: bytes of the scores of one block.

    Returns:
        A tensor `(..., T, Dv)`. A query that sees nothing gets numbers of no meaning, which
        the caller replaces.
    """
    lead = _lead([query, key, value])
    group = _group_size(query, key, block, most)
    query_, key_, value_ = (
        _stack(tf.cast(x, value.dtype), lead, group) for x in (query, key, value)
    )
    mask_at = masks.in_groups(block, lead, group) if masks else lambda place, i: None
    output = _run(query_, key_, value_, _Parts(block, group, mask_at, drop))
    rows = math.prod(lead)
    # A slice of all would be a copy.
    output = output if is_known(rows, output.shape[0]) else output[:rows]
    output = tf.reshape(output, [*lead, *_sizes(output)[1:]])
    return tf.ensure_shape(output, [*query.shape[:-1], value.shape[-1]])


def _run(query, key, value, parts):
    """The same with one axis before the last two, a multiple of `parts.group`."""

    @tf.custom_gradient
    def run(*tensors):
        query, key, value = unwatched(*tensors)
        output = _forward(query, key, value, parts)

        def gradient(upstream):
            found = _backward(query, key, value, output, tf.stop_gradient(upstream), parts)
            return differentiable_once(found, *tensors, upstream)

        return output, gradient

    return run(query, key, value)


class _Parts(NamedTuple):
    """How the rows are divided, and what happens to scores and weights."""

    block: int
    group: int
    mask_at: Callable
    drop: Callable | None

    def groups(self, x):
        return _sizes(x)[0] // self.group

    def blocks(self, x):
        return _sizes(x)[1] // self.block

    def of_group(self, place, *tensors):
        return [_part(x, place, self.group, 0) for x in tensors]

    def of_block(self, i, *tensors):
        return [_part(x, i, self.block, 1) for x in tensors]

    def weights(self, query, key, mask):
        if mask is not None:
            # Of rows that see nothing, which would have to be made twice.
            mask = mask | ~tf.reduce_any(mask, -1, keepdims=True)
        return weights_of(lambda: tf.matmul(query, key, transpose_b=True), mask)


def _forward(query, key, value, parts):
    """`(heads, T, Dv)`."""
    groups, blocks = parts.groups(query), parts.blocks(query)

    def one_block(place, i, query, key, value):
        weights = parts.weights(query, key, parts.mask_at(place, i))
        if parts.drop is not None:
            weights = parts.drop(place * blocks + i, weights)
        return tf.matmul(weights, value)

    def one_group(place, stack):
        rows, *shared = parts.of_group(place, query, key, value)

        def step(i, stack):
            found = one_block(place, i, *parts.of_block(i, rows), *shared)
            return i + 1, stack.write(i, found)

        if is_known(blocks, 1):
            return place + 1, stack.write(place, one_block(place, 0, rows, *shared))
        _, found = loop(step, blocks, (tf.TensorArray(query.dtype, blocks),))
        return place + 1, stack.write(place, _end_to_end(found.stack()))

    _, found = loop(one_group, groups, (tf.TensorArray(query.dtype, groups),))
    return _together(found.stack(), query, value)


def _backward(query, key, value, output, upstream, parts):
    """Gradients by the first three."""
    groups, blocks = parts.groups(query), parts.blocks(query)
    # Each weight's gradient less the mean of a row's, where no dropout stands between.
    mean = tf.reduce_sum(upstream * output, -1, keepdims=True)
    shifted = tf.concat([upstream, -mean], -1)
    with_ones = tf.concat([value, tf.ones_like(value[..., :1])], -1)

    def one_block(place, i, query, upstream, shifted, key, with_ones):
        mask = parts.mask_at(place, i)
        used = weights = parts.weights(query, key, mask)
        if parts.drop is None:
            slope = tf.matmul(shifted, with_ones, transpose_b=True)
        else:
            slope = tf.matmul(upstream, with_ones[..., :-1], transpose_b=True)
            slope = parts.drop(place * blocks + i, slope) + shifted[..., -1:]
            used = parts.drop(place * blocks + i, weights)
        slope = weights * hide(slope, mask)
        to_key = tf.matmul(slope, query, transpose_a=True)
        to_value = tf.matmul(used, upstream, transpose_a=True)
        return tf.matmul(slope, key), to_key, to_value

    def one_group(place, *stacks):
        rows = parts.of_group(place, query, upstream, shifted)
        shared = parts.of_group(place, key, with_ones)

        def step(i, stack, to_keys, to_values):
            found = one_block(place, i, *parts.of_block(i, *rows), *shared)
            own, to_key, to_value = found
            return i + 1, stack.write(i, own), to_keys + to_key, to_values + to_value

        if is_known(blocks, 1):
            found = one_block(place, 0, *rows, *shared)
        else:
            zeros = [tf.zeros_like(x) for x in parts.of_group(place, key, value)]
            start = tf.TensorArray(query.dtype, blocks), *zeros
            _, own, *sums = loop(step, blocks, start)
            found = [_end_to_end(own.stack()), *sums]
        written = [s.write(place, x) for s, x in zip(stacks, found, strict=True)]
        return place + 1, *written

    stacks = [tf.TensorArray(query.dtype, groups) for _ in range(3)]
    _, *found = loop(one_group, groups, stacks)
    likes = query, key, value
    return [_together(f.stack(), x, x) for f, x in zip(found, likes, strict=True)]


def _lead(tensors):
    """Sizes of the axes before the last two, broadcast: numbers where they are known."""
    shape = tensors[0].shape[:-2]
    for x in tensors[1:]:
        shape = tf.broadcast_static_shape(shape, x.shape[:-2])
    if shape.is_fully_defined():
        return shape.as_list()
    sizes = tf.shape(tensors[0])[:-2]
    for x in tensors[1:]:
        sizes = tf.broadcast_dynamic_shape(sizes, tf.shape(x)[:-2])
    known = shape.as_list()
    return [sizes[a] if size is None else size for a, size in enumerate(known)]


def _stack(x, lead, group):
    """`x` with one axis before the last two, of a multiple of `group`."""
    *_, length, depth = _sizes(x)
    # An unknown size equals nothing, itself included; the kernel sees that it is the same.
    sizes = [size if isinstance(size, int) else None for size in lead]
    if None in sizes or x.shape[:-2] != sizes:
        x = tf.broadcast_to(x, [*lead, length, depth])
    x = tf.reshape(x, [-1, length, depth])
    rows = _sizes(x)[0]
    gap = count_blocks(rows, group) * group - rows
    return x if is_known(gap, 0) else tf.pad(x, [[0, gap], [0, 0], [0, 0]])


def _group_size(query, key, block, most):
    rows, keys = batch_size(query.shape[:-2]), key.shape[-2]
    if keys is None or not isinstance(block, int):
        return 1
    group = max(1, min(rows, most // (4 * block * keys)))
    # As even as can be, so that few rows are added.
    if None in query.shape[:-2]:
        return group
    return max(1, -(-rows // count_blocks(rows, group)))


def _sizes(x):
    """The sizes of all axes, numbers where they are known."""
    sizes = tf.shape(x)
    return [sizes[a] if size is None else size for a, size in enumerate(x.shape)]


def _part(x, i, size, axis):
    """Entries `i * size` to `(i + 1) * size` of an axis."""
    start, sizes = [0, 0, 0], _sizes(x)
    start[axis], sizes[axis] = i * size, size
    return tf.slice(x, start, sizes)


def _end_to_end(stack):
    """`(blocks, group, block, D)` to `(group, blocks * block, D)`."""
    stack = tf.transpose(tf.ensure_shape(stack, [None] * 4), [1, 0, 2, 3])
    blocks = tf.shape(stack)
    return tf.reshape(stack, [blocks[0], blocks[1] * blocks[2], blocks[3]])


def _together(stack, rows, columns):
    """`(groups, group, T, D)` to `(heads, T, D)`, with the sizes of two tensors."""
    shape = tf.shape(tf.ensure_shape(stack, [None] * 4))
    joined = tf.reshape(stack, [shape[0] * shape[1], shape[2], shape[3]])
    return tf.ensure_shape(joined, [*rows.shape[:-1], *columns.shape[-1:]])
