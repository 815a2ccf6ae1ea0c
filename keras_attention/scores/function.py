"""A plain function as a score, and `get`, which makes a score from anything."""

import keras

from keras_attention.masks import agree
from keras_attention.scores.base import Score, _registry


@keras.saving.register_keras_serializable("keras_attention")
class FunctionScore(Score):
    """`score(q, k) = function(q, k)`, for a function registered for serialization.

    Args:
        function: takes `(..., Tq, Dq)` and `(..., Tk, Dk)`, returns `(..., Tq, Tk)`, and
            is decorated with `@keras.saving.register_keras_serializable()`.

    Call arguments:
        query: `(..., Tq, Dq)`.
        key: `(..., Tk, Dk)`.

    Returns:
        Scores `(..., Tq, Tk)`.

    Raises:
        ValueError: for a lambda or a function that is not registered.

    Example:

    >>> import keras
    >>> import numpy as np
    >>> from keras_attention import FunctionScore
    >>> @keras.saving.register_keras_serializable("my_package")
    ... def negative_distance(query, key):
    ...     apart = keras.ops.expand_dims(query, -2) - keras.ops.expand_dims(key, -3)
    ...     return -keras.ops.sum(keras.ops.square(apart), axis=-1)
    >>> score = FunctionScore(negative_distance)
    >>> tuple(score(np.ones((2, 4, 6)), np.ones((2, 5, 6))).shape)
    (2, 4, 5)
    """

    def __init__(self, function, **kwargs):
        super().__init__(**kwargs)
        if isinstance(function, dict):
            function = keras.saving.deserialize_keras_object(function)
        registered = keras.saving.get_registered_name(function)
        if keras.saving.get_registered_object(registered) is not function:
            kind = "a lambda" if function.__name__ == "<lambda>" else "a function"
            raise ValueError(
                "Expected a function registered with "
                "@keras.saving.register_keras_serializable(), as a saved model holds only "
                f"its name. Received: {kind} that is not registered, {function!r}"
            )
        self.function = function

    def compare(self, query, key):
        scores = self.function(query, key)
        expected = (query.shape[-2], key.shape[-2])
        if not agree(tuple(scores.shape[-2:]), expected):
            raise ValueError(
                f"Expected scores (..., Tq, Tk), so (..., {expected[0]}, {expected[1]}), "
                f"of {self.function!r}. Received: shape {tuple(scores.shape)}"
            )
        return scores


def get(identifier, dtype=None, **options):
    """Makes a score from a name, an instance, a config or a registered function.

    Args:
        identifier: e.g. `"additive"`, `AdditiveScore(64)`, its config, or a function
            `(query, key) -> scores` registered for serialization.
        dtype: dtype policy for a score made from a name or a function.
        **options: constructor arguments for a score made from a name; an instance has to
            agree with them. `None` means not given.

    Returns:
        A `Score`.

    Raises:
        ValueError: for an unknown name, an unregistered function, or an option that the
            score does not have.

    Example:

    >>> from keras_attention import scores
    >>> scores.get("bahdanau", units=64).units
    64
    """
    if callable(identifier) and not isinstance(identifier, (Score, type)):
        identifier = FunctionScore(identifier, dtype=dtype)
    return _registry.get(identifier, dtype=dtype, **options)
