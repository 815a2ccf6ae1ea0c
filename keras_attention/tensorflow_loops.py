"""The loops of `keras_attention.loops`, written for TensorFlow.

`keras.ops.scan` gives its loop no bound there, so that its gradient does not compile with
`jit_compile=True`, and stacks every tensor that is carried.
"""

import contextlib

import tensorflow as tf


@contextlib.contextmanager
def eagerly():
    """Within it, a `tf.function` runs as the Python it is made of."""
    before = tf.config.functions_run_eagerly()
    tf.config.run_functions_eagerly(True)
    try:
        yield
    finally:
        tf.config.run_functions_eagerly(before)


def scan(step, carry, sequences, collect):
    """See `keras_attention.loops.scan`."""
    length = sequences[0].shape[0] or tf.shape(sequences[0])[0]
    arrays = [_array(x.dtype, length, x.shape[1:]).unstack(x) for x in sequences]
    stacks = [_array(x.dtype, length, x.shape) for x in carry[:collect]]

    def body(t, carry, stacks):
        carry = step(carry, [array.read(t) for array in arrays])
        stacks = [s.write(t, x) for s, x in zip(stacks, carry, strict=False)]
        return t + 1, carry, stacks

    _, carry, stacks = tf.while_loop(
        lambda t, *_: t < length,
        body,
        (tf.constant(0), list(carry), stacks),
        maximum_iterations=length,
    )
    return [stack.stack() for stack in stacks], carry


def _array(dtype, length, shape):
    return tf.TensorArray(dtype, length, element_shape=shape, clear_after_read=False)
