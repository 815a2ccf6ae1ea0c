"""Functions that XLA compiles, and their gradients, for JAX."""


def compiled(function):
    """`function` of tensors, compiled for each shape it meets."""
    import jax

    return jax.jit(function)


def differentiable(forward, backward):
    """`forward(*tensors)`, whose gradients are `backward(*tensors, upstream)`."""
    import jax

    run = jax.custom_vjp(forward)
    run.defvjp(
        lambda *tensors: (forward(*tensors), tensors),
        lambda tensors, upstream: tuple(backward(*tensors, upstream)),
    )
    return run
