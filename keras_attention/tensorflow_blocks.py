"""Attention for blocks of queries, for TensorFlow, with gradients that compute them anew.

`keras.remat` within `keras.ops.map` would keep what each block reads, and its loop has no
bound that XLA could compile a gradient with. A gradient of our own is two plain loops.
"""

import tensorflow as tf

from keras_attention.tensorflow_gradients import differentiable_once, loop, unwatched
from keras_attention.tensorflow_softmax import hide, weights_of


def map_blocks(function, rows, shared, block):
    """See `keras_attention.blockwise.map_blocks`."""

    @tf.custom_gradient
    def run(*tensors):
        rows, *shared = unwatched(*tensors)
        blocks = _length(rows) // block

        def step(i, outputs):
            return i + 1, outputs.write(i, function(i, _block(rows, i, block), *shared))

        def gradient(upstream):
            given_rows = tf.stop_gradient(upstream)

            def step(i, stack, sums):
                sources = [_block(rows, i, block), *shared]
                with tf.GradientTape(watch_accessed_variables=False) as tape:
                    tape.watch(sources)
                    output = function(i, *sources)
                given = _block(given_rows, i, block)
                found = tape.gradient(output, sources, given, "zero")
                return i + 1, stack.write(i, found[0]), _add(sums, found[1:])

            start = tf.TensorArray(rows.dtype, blocks), _sums_like(shared)
            _, stack, sums = loop(step, blocks, start)
            found = [_join(stack.stack(), rows), *_cast_like(sums, shared)]
            return differentiable_once(found, *tensors, upstream)

        _, outputs = loop(step, blocks, (tf.TensorArray(shared[1].dtype, blocks),))
        return _join(outputs.stack(), rows), gradient

    return run(*map(tf.convert_to_tensor, (rows, *shared)))


def softmax_blocks(scores, query, key, value, values, *, block, mask_at, drop):
    """Attention with softmax: as `map_blocks`, with a gradient of fewer passes.

    Args:
        scores: `(query, key, *values)` to `(..., block, Tk)`.
        query: `(..., T, P)`, with `T` a multiple of `block`.
        key: `(..., Tk, P)`.
        value: `(..., Tk, Dv)`, of the dtype of the scores.
        values: list of tensors that `scores` depends on.
        block: number of queries.
        mask_at: from the index of a block to booleans, or `None`.
        drop: dropout, from the index of a block and weights; or `None`.

    Returns:
        A tensor `(..., T, Dv)`.
    """

    def used(i, weights):
        return weights if drop is None else drop(i, weights)

    @tf.custom_gradient
    def run(*tensors):
        query, key, value, *values = unwatched(*tensors)
        blocks = _length(query) // block

        def step(i, outputs):
            s = scores(_block(query, i, block), key, *values)
            weights = used(i, weights_of(lambda: s, mask_at(i)))
            return i + 1, outputs.write(i, tf.matmul(weights, value))

        _, outputs = loop(step, blocks, (tf.TensorArray(value.dtype, blocks),))
        output = _join(outputs.stack(), query)

        def gradient(upstream):
            given_rows = tf.stop_gradient(upstream)
            mean = tf.reduce_sum(given_rows * output, -1, keepdims=True)

            def step(i, stack, sums):
                sources = [_block(query, i, block), key, *values]
                given = _block(given_rows, i, block)
                with tf.GradientTape(watch_accessed_variables=False) as tape:
                    tape.watch(sources)
                    s = scores(*sources)
                mask = mask_at(i)
                weights = weights_of(lambda: s, mask)
                slope = used(i, tf.matmul(given, value, transpose_b=True))
                slope = weights * hide(slope - _block(mean, i, block), mask)
                own, *found = tape.gradient(s, sources, slope, "zero")
                found.insert(1, tf.matmul(used(i, weights), given, transpose_a=True))
                return i + 1, stack.write(i, own), _add(sums, found)

            shared = [key, value, *values]
            start = tf.TensorArray(query.dtype, blocks), _sums_like(shared)
            _, stack, sums = loop(step, blocks, start)
            found = [_join(stack.stack(), query), *_cast_like(sums, shared)]
            return differentiable_once(found, *tensors, upstream)

        return output, gradient

    return run(*map(tf.convert_to_tensor, (query, key, value, *values)))


def _length(x):
    return x.shape[-2] or tf.shape(x)[-2]


def _block(x, i, block):
    """Rows `i * block` to `(i + 1) * block`."""
    rank = len(x.shape)
    start = [0] * (rank - 2) + [i * block, 0]
    sizes = tf.shape(x) if None in x.shape else x.shape
    sizes = [sizes[a] if x.shape[a] is None else x.shape[a] for a in range(rank)]
    part = tf.slice(x, start, [*sizes[:-2], block, sizes[-1]])
    known = block if isinstance(block, int) else None
    return tf.ensure_shape(part, [*x.shape[:-2], known, x.shape[-1]])


def _join(stack, like):
    """`(blocks, ..., block, D)` to `(..., blocks * block, D)`."""
    rank = len(like.shape) + 1
    order = [*range(1, rank - 2), 0, rank - 2, rank - 1]
    stack = tf.transpose(tf.ensure_shape(stack, [None] * rank), order)
    shape = tf.shape(stack)
    joined = tf.reshape(stack, tf.concat([shape[:-3], [-1], shape[-1:]], 0))
    return tf.ensure_shape(joined, [*like.shape[:-1], None])


def _sums_like(tensors):
    """Zeros to add to, in float32 for low precision."""
    wide = [tf.float32 if x.dtype.size < 4 else x.dtype for x in tensors]
    return [tf.zeros_like(x, dtype) for x, dtype in zip(tensors, wide, strict=True)]


def _add(sums, gradients):
    return [
        s + tf.ensure_shape(tf.cast(g, s.dtype), s.shape)
        for s, g in zip(sums, gradients, strict=True)
    ]


def _cast_like(sums, tensors):
    return [tf.cast(s, x.dtype) for s, x in zip(sums, tensors, strict=True)]
