"""Functions that XLA compiles, for JAX."""


def compiled(function):
    """`function` of tensors, compiled for each shape it meets."""
    import jax

    return jax.jit(function)
