"""Softmax attention of inner products, for groups of heads and blocks of queries.

A block stays in a processor's cache, and few passes are made over it. Weights are not
divided by their sum, the output and the upstream gradient are. A column of ones makes a
product with the values add weights up, another takes off the largest score or a mean.
"""

from collections.abc import Callable
from typing import NamedTuple

import tensorflow as tf

from keras_attention.axes import batch_size, count_blocks
from keras_attention.tensorflow_gradients import differentiable_once, loop, unwatched

# e^s of scores up to this is a float32, and so is a sum of many; so is e^-s.
RANGE = 40.0


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
        A tensor `(..., T, Dv)`.
    """
    lead = _lead([query, key, value])
    group = _group_size(query, key, block, most)
    query_, key_, value_ = (
        _stack(tf.cast(x, value.dtype), lead, group) for x in (query, key, value)
    )
    mask_at = masks.in_groups(block, lead, group) if masks else lambda place, i: None
    output = _run(query_, key_, value_, _Parts(block, group, mask_at, drop))
    rows = tf.reduce_prod(tf.stack(lead)) if lead else 1
    output = tf.reshape(output[:rows], [*lead, *_sizes(output)[1:]])
    return tf.ensure_shape(output, [*query.shape[:-1], value.shape[-1]])


def _run(query, key, value, parts):
    """The same with one axis before the last two, a multiple of `parts.group`."""

    @tf.custom_gradient
    def run(*tensors):
        query, key, value = unwatched(*tensors)
        with_ones = _with_column(value, 1.0)
        joined = _forward(query, key, with_ones, parts)
        output, total, top = joined[..., :-2], joined[..., -2:-1], joined[..., -1:]
        total = tf.where(total > 0, total, tf.ones_like(total))
        output = output / total

        def gradient(upstream):
            given = tf.stop_gradient(upstream) / total
            mean = tf.reduce_sum(given * output, -1, keepdims=True)
            given = tf.concat([given, -mean], -1)
            shifted = tf.concat([query, -top], -1), _with_column(key, 1.0)
            found = _backward(*shifted, with_ones, given, parts)
            return differentiable_once(found, *tensors, upstream)

        return output, gradient

    return run(query, key, value)


class _Parts(NamedTuple):
    """How the rows are divided, and what happens to exponentials of scores."""

    block: int
    group: int
    mask_at: Callable
    drop: Callable | None

    def groups(self, x):
        return _sizes(x)[0] // self.group

    def blocks(self, x):
        return _sizes(x)[1] // self.block

    def hide(self, exponentials, place, i):
        mask = self.mask_at(place, i)
        zero = tf.zeros((), exponentials.dtype)
        return exponentials if mask is None else tf.where(mask, exponentials, zero)


def _forward(query, key, value, parts):
    """`(heads, T, Dv + 2)`: sums of values, of exponentials; what scores lost before."""
    groups, blocks = parts.groups(query), parts.blocks(query)
    in_range = _largest_norm(query) * _largest_norm(key) < RANGE

    def one_block(place, i, query, key, value):
        # Each way makes scores of its own, so that exponentials can take their place.
        def plain():
            s = tf.matmul(query, key, transpose_b=True)
            return tf.exp(s), tf.zeros_like(s[..., :1])

        def shifted():
            s = tf.matmul(query, key, transpose_b=True)
            mask, lowest = parts.mask_at(place, i), tf.constant(s.dtype.min, s.dtype)
            seen = s if mask is None else tf.where(mask, s, lowest)
            top = tf.maximum(tf.reduce_max(seen, -1, keepdims=True), lowest)
            return tf.exp(s - top), top

        e, top = tf.cond(in_range, plain, shifted)
        e = parts.hide(e, place, i)
        if parts.drop is None:
            return tf.concat([tf.matmul(e, value), top], -1)
        total = tf.reduce_sum(e, -1, keepdims=True)
        e = parts.drop(place * blocks + i, e)
        return tf.concat([tf.matmul(e, value[..., :-1]), total, top], -1)

    def one_group(place, stack):
        rows, *shared = (_part(x, place, parts.group, 0) for x in (query, key, value))

        def step(i, stack):
            part = _part(rows, i, parts.block, 1)
            return i + 1, stack.write(i, one_block(place, i, part, *shared))

        _, found = loop(step, blocks, (tf.TensorArray(query.dtype, blocks),))
        return place + 1, stack.write(place, _end_to_end(found.stack()))

    _, found = loop(one_group, groups, (tf.TensorArray(query.dtype, groups),))
    return _together(found.stack(), query)


def _backward(query, key, value, given, parts):
    """Gradients by the first three, which all have the columns that sums are made with."""
    groups, blocks = parts.groups(query), parts.blocks(query)

    def one_block(place, i, query, key, value, given, plain_key):
        e = tf.exp(tf.matmul(query, key, transpose_b=True))
        e = used = parts.hide(e, place, i)
        if parts.drop is None:
            slope = tf.matmul(given, value, transpose_b=True)
        else:
            slope = tf.matmul(given[..., :-1], value[..., :-1], transpose_b=True)
            slope = parts.drop(place * blocks + i, slope) + given[..., -1:]
            used = parts.drop(place * blocks + i, e)
        slope = e * slope
        to_key = tf.matmul(slope, query[..., :-1], transpose_a=True)
        to_value = tf.matmul(used, given[..., :-1], transpose_a=True)
        return tf.matmul(slope, plain_key), to_key, to_value

    def one_group(place, *stacks):
        tensors = (query, key, value, given)
        rows, keys, values, givens = (_part(x, place, parts.group, 0) for x in tensors)
        plain_keys = keys[..., :-1]

        def step(i, stack, to_keys, to_values):
            part, given = (_part(x, i, parts.block, 1) for x in (rows, givens))
            found = one_block(place, i, part, keys, values, given, plain_keys)
            own, to_key, to_value = found
            return i + 1, stack.write(i, own), to_keys + to_key, to_values + to_value

        zeros = [tf.zeros_like(x[..., :-1]) for x in (keys, values)]
        start = tf.TensorArray(query.dtype, blocks), *zeros
        _, own, *sums = loop(step, blocks, start)
        found = [_end_to_end(own.stack()), *sums]
        written = [s.write(place, x) for s, x in zip(stacks, found, strict=True)]
        return place + 1, *written

    stacks = [tf.TensorArray(query.dtype, groups) for _ in range(3)]
    _, *found = loop(one_group, groups, stacks)
    likes = [x[..., :-1] for x in (query, key, value)]
    found = [_together(f.stack(), x) for f, x in zip(found, likes, strict=True)]
    return [tf.ensure_shape(f, x.shape) for f, x in zip(found, likes, strict=True)]


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
    return x if isinstance(gap, int) and gap == 0 else tf.pad(x, [[0, gap], [0, 0], [0, 0]])


def _group_size(query, key, block, most):
    rows, keys = batch_size(query.shape[:-2]), key.shape[-2]
    if keys is None or not isinstance(block, int):
        return 1
    group = max(1, min(rows, most // (4 * block * keys)))
    # As even as can be, so that few rows are added.
    if None in query.shape[:-2]:
        return group
    return max(1, -(-rows // count_blocks(rows, group)))


def _largest_norm(x):
    return tf.sqrt(tf.reduce_max(tf.reduce_sum(tf.square(x), -1)))


def _with_column(x, number):
    return tf.concat([x, tf.fill(tf.shape(x[..., :1]), tf.cast(number, x.dtype))], -1)


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


def _together(stack, like):
    """`(groups, group, T, D)` to `(heads, T, D)`, with the first two sizes of `like`."""
    shape = tf.shape(tf.ensure_shape(stack, [None] * 4))
    joined = tf.reshape(stack, [shape[0] * shape[1], shape[2], shape[3]])
    return tf.ensure_shape(joined, [*like.shape[:1], None, None])
