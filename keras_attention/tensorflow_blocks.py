"""Blocks of rows, one after another, computed anew in the backward pass, for TensorFlow.

`keras.remat` within `keras.ops.map` would keep what each block reads, and its loop has no
bound that XLA could compile a gradient with. A gradient of our own is two plain loops.
"""

import tensorflow as tf


def map_blocks(function, rows, shared, block, dtype):
    """See `keras_attention.blockwise.map_blocks`."""

    @tf.custom_gradient
    def run(*tensors):
        # Else an eager tape would record, and keep, what happens in here.
        tensors = [tf.stop_gradient(x) for x in tensors]
        rows_, shared_ = tensors[: len(rows)], tensors[len(rows) :]
        blocks = _length(rows_[0]) // block

        def part(x, i):
            return _block(x, i, block)

        def step(i, outputs):
            output = function(i, *(part(x, i) for x in rows_), *shared_)
            return i + 1, outputs.write(i, output)

        def gradient(upstream):
            wanted = [x for x in tensors if x.dtype.is_floating]
            own = sum(x.dtype.is_floating for x in rows_)

            def step(i, stacks, sums):
                parts = [part(x, i) for x in rows_]
                sources = [x for x in (*parts, *shared_) if x.dtype.is_floating]
                with tf.GradientTape(watch_accessed_variables=False) as tape:
                    tape.watch(sources)
                    output = function(i, *parts, *shared_)
                found = tape.gradient(output, sources, part(upstream, i), "zero")
                stacks = [s.write(i, g) for s, g in zip(stacks, found, strict=False)]
                sums = [_add(s, g) for s, g in zip(sums, found[own:], strict=True)]
                return i + 1, stacks, sums

            stacks = [tf.TensorArray(x.dtype, blocks) for x in wanted[:own]]
            sums = [tf.zeros_like(x, _wide(x.dtype)) for x in wanted[own:]]
            _, stacks, sums = _loop(step, blocks, (stacks, sums))
            found = [_join(s.stack(), x) for s, x in zip(stacks, wanted, strict=False)]
            pairs = zip(sums, wanted[own:], strict=True)
            found = iter(found + [tf.cast(s, x.dtype) for s, x in pairs])
            return [next(found) if x.dtype.is_floating else None for x in tensors]

        _, outputs = _loop(step, blocks, (tf.TensorArray(dtype, blocks),))
        return _join(outputs.stack(), rows_[0]), gradient

    return run(*map(tf.convert_to_tensor, (*rows, *shared)))


def _loop(step, blocks, carry):
    return tf.while_loop(
        lambda i, *_: i < blocks,
        step,
        (tf.constant(0), *carry),
        parallel_iterations=1,
        maximum_iterations=blocks,
    )


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


def _wide(dtype):
    return tf.float32 if dtype.size < 4 else dtype


def _add(total, gradient):
    gradient = tf.cast(gradient, total.dtype)
    return total + tf.ensure_shape(gradient, total.shape)
