"""A loop over time steps that carries tensors from one to the next."""

import keras
from keras import ops

# Draws that one step may take from one generator.
DRAWS = 1024


def scan(step, carry, sequences, collect, generators=()):
    """`carry = step(carry, inputs_t)` for every step `t`, keeping what comes by.

    Args:
        step: takes a list of tensors and the list of this step's inputs, returns the new
            list, of the same shapes and dtypes.
        carry: list of tensors to start from.
        sequences: list of tensors `(T, ...)`, time first.
        collect: how many of the carried tensors, from the first on, are stacked.
        generators: every `keras.random.SeedGenerator` that `step` draws from.

    Returns:
        `(collected, carry)`: a list of tensors `(T, ...)`, and the last list carried.
    """
    if keras.backend.backend() == "tensorflow":
        from keras_attention import tensorflow_loops

        return tensorflow_loops.scan(step, carry, sequences, collect)

    # A compiled loop may not leave its own state in a generator (JAX refuses to go on):
    # every step starts from a state that follows from its number, and so does what
    # comes after the loop.
    states = [generator.state.value * 1 for generator in generators]

    def body(carry, inputs):
        t, *inputs = inputs
        _set(generators, states, t)
        carry = step(carry, inputs)
        return carry, carry[:collect]

    length = ops.shape(sequences[0])[0]
    carry, collected = ops.scan(body, carry, [ops.arange(length), *sequences])
    _set(generators, states, length)
    return collected, carry


def _set(generators, states, t):
    for generator, state in zip(generators, states, strict=True):
        passed = ops.stack([0, ops.cast(t, "int32") * DRAWS])
        generator.state.assign(state + ops.cast(passed, state.dtype))
