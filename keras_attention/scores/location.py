"""The score that looks at the query alone."""

from keras import ops

from keras_attention.config import check_positive_integer
from keras_attention.scores.base import WeightedScore, multiply, register


@register("location")
class LocationScore(WeightedScore):
    """`score(q, k_j) = (W q)_j`: how much a query wants position `j`, whatever is there.

    The one score with a length in its weights, by its definition: keys may be shorter than
    `max_length`, never longer.

    Args:
        max_length: number of positions that have a row in `W`.
        **kwargs: initializers, regularizers and constraints, `kernel_...`, as in
            `keras.layers.Dense`.

    Call arguments:
        query: `(..., Tq, Dq)`.
        key: `(..., Tk, Dk)`, of which only `Tk` counts.

    Returns:
        Scores `(..., Tq, Tk)`.

    Raises:
        ValueError: if there are more than `max_length` keys.

    Example:

    >>> import numpy as np
    >>> from keras_attention import LocationScore
    >>> score = LocationScore(max_length=9)
    >>> tuple(score(np.ones((2, 4, 6)), np.ones((2, 5, 7))).shape)
    (2, 4, 5)

    Reference: Luong et al., 2015 (arXiv:1508.04025).
    """

    def __init__(self, max_length, **kwargs):
        check_positive_integer("max_length", max_length)
        super().__init__(**kwargs)
        self.max_length = max_length

    def build(self, query_shape, key_shape):
        super().build(query_shape, key_shape)
        self.kernel = self.add_kernel("kernel", (query_shape[-1], self.max_length))

    def project_query(self, query):
        return multiply(query, self.kernel)

    def compare(self, query, key):
        if key.shape[-2] is not None and key.shape[-2] > self.max_length:
            raise ValueError(
                f"Expected at most {self.max_length} keys, the `max_length` of "
                f"{type(self).__name__}. Received: {key.shape[-2]}"
            )
        scores = query[..., : ops.shape(key)[-2]]
        # Adding zeros of the key's shape gives the scores its leading axes too.
        return scores + ops.zeros_like(ops.expand_dims(key[..., 0], -2))
