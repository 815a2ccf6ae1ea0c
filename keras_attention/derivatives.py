"""First derivatives only, and said so: else second ones would be silently wrong."""

from keras import ops


def only_first(gradients, sources, what):
    """Gradients that were computed apart from `sources`, which have none by them.

    Args:
        gradients: list of tensors.
        sources: list of tensors that they were computed from.
        what: what has first derivatives only, for the error.

    Returns:
        A tuple of the same numbers. A derivative by the sources raises
        `NotImplementedError`.

    >>> (same,) = only_first([ops.ones(2)], [ops.ones(3)], "attention in blocks")
    >>> tuple(same.shape)
    (2,)
    """

    @ops.custom_gradient
    def passed_on(*tensors):
        def grad(*args, upstream=None):
            raise NotImplementedError(
                f"Expected first derivatives of {what}. Received: a request for second "
                "derivatives"
            )

        return tuple(tensors[: len(gradients)]), grad

    return tuple(passed_on(*gradients, *sources))
