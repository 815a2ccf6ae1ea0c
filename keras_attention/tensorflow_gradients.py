"""Gradients of our own, for TensorFlow: of compiled functions, and parts of others."""

import tensorflow as tf


def compiled(function):
    """`function` of tensors, compiled for each shape it meets, in graphs as in eager."""
    return tf.function(function, jit_compile=True, autograph=False)


def differentiable(forward, backward):
    """`forward(*tensors)`, whose gradients are `backward(*tensors, upstream)`."""

    @tf.custom_gradient
    def run(*tensors):
        values = unwatched(*tensors)

        def gradient(upstream):
            found = backward(*values, tf.stop_gradient(upstream))
            return differentiable_once(found, *tensors, upstream)

        return forward(*values), gradient

    return run


def differentiable_once(results, *sources):
    """`results`, which are derivatives made of `sources`, refusing another derivative.

    What is compiled here, or computed anew block by block, is not differentiated twice;
    without this, a second derivative would come out wrong and say nothing.
    """

    @tf.custom_gradient
    def link(*sources):
        def gradient(*upstream):
            raise NotImplementedError(
                "Expected no second derivative of attention in blocks, or of additive "
                "scores of many steps. `return_attention_scores=True` or a `block_size` "
                'of all queries avoids blocks; `dtype="float64"` the other.'
            )

        return [tf.identity(x) for x in results], gradient

    return link(*sources)


def unwatched(*tensors):
    """Else an eager tape would record, and keep, what is done with them."""
    return [tf.stop_gradient(x) for x in tensors]


def loop(step, blocks, carry):
    return tf.while_loop(
        lambda i, *_: i < blocks,
        step,
        (tf.constant(0), *carry),
        parallel_iterations=1,
        maximum_iterations=blocks,
    )
