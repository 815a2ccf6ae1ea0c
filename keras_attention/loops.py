"""A loop over time steps that carries tensors from one to the next."""

import keras
from keras import ops


def scan(step, carry, sequences, collect):
    """`carry = step(carry, inputs_t)` for every step `t`, keeping what comes by.

    Args:
        step: takes a list of tensors and the list of this step's inputs, returns the new
            list, of the same shapes and dtypes.
        carry: list of tensors to start from.
        sequences: list of tensors `(T, ...)`, time first.
        collect: how many of the carried tensors, from the first on, are stacked.

    Returns:
        `(collected, carry)`: a list of tensors `(T, ...)`, and the last list carried.
    """
    if keras.backend.backend() == "tensorflow":
        from keras_attention import tensorflow_loops

        return tensorflow_loops.scan(step, carry, sequences, collect)

    def body(carry, inputs):
        carry = step(carry, inputs)
        return carry, carry[:collect]

    carry, collected = ops.scan(body, carry, sequences)
    return collected, carry
