"""What a score is: two projections and a comparison."""

import keras
from keras import ops

from keras_attention.config import Configurable, Registry


@keras.saving.register_keras_serializable("keras_attention")
class Score(Configurable, keras.layers.Layer):
    """Base class: `score(query, key) = compare(project_query(query), project_key(key))`.

    A subclass replaces any of the three; what it does not replace is the inner product of
    query and key. `project_key` depends on the key alone: a decoder computes it once for
    all its steps.

    Call arguments:
        query: `(..., Tq, Dq)`.
        key: `(..., Tk, Dk)`.
        stage: `"project"` for the two projections instead of the scores, `"compare"` where
            query and key are projections already.

    Returns:
        Scores `(..., Tq, Tk)`; in float32 for float16 inputs, whose products can pass the
        largest float16, 65504.

    Raises:
        ValueError: for depths other than those it was built with.

    Example:

    >>> import keras
    >>> import numpy as np
    >>> from keras_attention import scores
    >>> class NegativeDistance(scores.Score):
    ...     def compare(self, query, key):
    ...         apart = keras.ops.expand_dims(query, -2) - keras.ops.expand_dims(key, -3)
    ...         return -keras.ops.sum(keras.ops.abs(apart), axis=-1)
    >>> print(keras.ops.convert_to_numpy(NegativeDistance()(np.ones((1, 2)), np.eye(2))))
    [[-1. -1.]]
    """

    _depths: tuple[int | None, int | None] = (None, None)

    def build(self, query_shape, key_shape):
        self._depths = (query_shape[-1], key_shape[-1])

    def project_query(self, query):
        """`(..., Tq, Dq) -> (..., Tq, P)`."""
        return query

    def project_key(self, key):
        """`(..., Tk, Dk) -> (..., Tk, P)`."""
        return key

    def compare(self, query, key):
        """Scores of a projected query and a projected key."""
        if len(query.shape) == 2 < len(key.shape):
            # One product for all batches; a product for each would sum gradients later.
            return ops.swapaxes(multiply(key, ops.transpose(query)), -1, -2)
        return ops.matmul(query, ops.swapaxes(key, -1, -2))

    def query_depth(self, key_depth):
        """The depth of a learned query for keys of `key_depth`."""
        return key_depth

    def numbers_per_pair(self, depth):
        """How many numbers `compare` keeps for each pair, for projections of `depth`."""
        return 1

    def call(self, query, key, stage=None):
        if stage == "compare":
            return self._compare(query, key)
        depths = (query.shape[-1], key.shape[-1])
        pairs = zip(depths, self._depths, strict=True)
        if any(None not in pair and pair[0] != pair[1] for pair in pairs):
            raise ValueError(
                f"Expected query and key of depths {self._depths}, with which "
                f"{self.name} was built. Received: {depths}"
            )
        query, key = self.project_query(query), self.project_key(key)
        return (query, key) if stage == "project" else self._compare(query, key)

    def match(self, query, projected_key):
        """Scores of a query and a key that has been through `project_key` before."""
        return self._compare(self.project_query(query), projected_key)

    def _compare(self, query, projected_key):
        if keras.backend.standardize_dtype(query.dtype) == "float16":
            query = ops.cast(query, "float32")
            projected_key = ops.cast(projected_key, "float32")
        return self.compare(query, projected_key)

    def compute_mask(self, inputs, previous_mask):
        return None

    def _require_equal_depths(self, query_shape, key_shape):
        if query_shape[-1] != key_shape[-1]:
            raise ValueError(
                f"Expected query and key of one depth for {type(self).__name__}. "
                f"Received: depths {query_shape[-1]} and {key_shape[-1]}. Scores that "
                "allow two depths: bilinear, additive, concat"
            )


class WeightedScore(Score):
    """Base class of scores with weights: how they start and what holds them back.

    Args:
        kernel_initializer, kernel_regularizer, kernel_constraint: for matrices and for
            the vector that is multiplied with a hidden layer, as in `keras.layers.Dense`.
        bias_initializer, bias_regularizer, bias_constraint: for biases.
    """

    def __init__(
        self,
        kernel_initializer="glorot_uniform",
        kernel_regularizer=None,
        kernel_constraint=None,
        bias_initializer="zeros",
        bias_regularizer=None,
        bias_constraint=None,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.kernel_initializer = keras.initializers.get(kernel_initializer)
        self.kernel_regularizer = keras.regularizers.get(kernel_regularizer)
        self.kernel_constraint = keras.constraints.get(kernel_constraint)
        self.bias_initializer = keras.initializers.get(bias_initializer)
        self.bias_regularizer = keras.regularizers.get(bias_regularizer)
        self.bias_constraint = keras.constraints.get(bias_constraint)

    def add_kernel(self, name, shape):
        """A weight, started, regularized and constrained as `kernel_...` say."""
        # An unseeded Keras initializer gives the same numbers at each use of one object.
        clone = getattr(self.kernel_initializer, "clone", None)
        return self.add_weight(
            name=name,
            shape=shape,
            initializer=clone() if clone else self.kernel_initializer,
            regularizer=self.kernel_regularizer,
            constraint=self.kernel_constraint,
        )

    def add_bias(self, shape, name="bias"):
        """A weight, started, regularized and constrained as `bias_...` say."""
        return self.add_weight(
            name=name,
            shape=shape,
            initializer=self.bias_initializer,
            regularizer=self.bias_regularizer,
            constraint=self.bias_constraint,
        )


def multiply(x, kernel):
    """`x @ kernel` as a product of two matrices.

    Of other ranks TensorFlow makes a `tensordot`, whose gradient XLA does not compile
    inside a loop, or (2.18 to 2.20, with AVX-512) writes past the end of its memory.
    """
    *axes, depth = ops.shape(x)
    product = ops.matmul(ops.reshape(x, (-1, depth)), kernel)
    return ops.reshape(product, (*axes, kernel.shape[-1]))


_registry = Registry("score", Score)
register = _registry.register
unregister = _registry.unregister
names = _registry.names
aliases = _registry.aliases
