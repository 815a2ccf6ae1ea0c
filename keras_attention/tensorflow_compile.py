"""Functions that XLA compiles, for TensorFlow."""

import tensorflow as tf


def compiled(function):
    """`function` of tensors, compiled for each shape it meets, in graphs as in eager."""
    return tf.function(function, jit_compile=True, autograph=False)
