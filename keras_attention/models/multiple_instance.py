"""Bags of instances with one label for the whole bag: which instance was it?"""

import keras
from keras import ops

from keras_attention import masks
from keras_attention.config import Configurable
from keras_attention.pooling import AttentionPooling


@keras.saving.register_keras_serializable("keras_attention")
class MultipleInstance(Configurable, keras.Model):
    """`P(bag) = sigmoid(W sum_i w_i h_i + b)`, with `h_i = encoder(x_i)`.

    `w = softmax(q . tanh(V h_i + c))`, or gated, `softmax(q . (tanh(V h_i + c) *
    sigmoid(U h_i + d)))`, so that the weights say which instances made the bag what it is.

    Args:
        encoder: a model or layer from instances `(N, ...)` to features `(N, D)`.
        attention_units: depth of the hidden layer of the attention.
        gated: whether the attention is gated.
        num_classes: 1 gives the probability of label 1 (sigmoid), more give one
            probability each (softmax).
        **kwargs: `name`, `dtype` and so on, as in every Keras model.

    Call arguments:
        inputs: bags `(B, N, ...)`, `N` instances each, or the pair of them and a mask.
        mask: `(B, N)`, `True` = an instance, where `inputs` is no pair. What is masked has
            no influence, as long as the encoder looks at each instance on its own.
        return_attention_scores: whether to return the weights too.
        training: whether the encoder is to behave as in training.

    Returns:
        Probabilities `(B, num_classes)`; with `return_attention_scores` the pair of them
        and the weights `(B, N)`.

    Example:

    >>> import keras
    >>> import numpy as np
    >>> from keras_attention.models import MultipleInstance
    >>> model = MultipleInstance(keras.layers.Dense(6, "relu"), attention_units=4)
    >>> bags, mask = np.ones((2, 5, 3)), np.arange(5) < np.array([[5], [2]])
    >>> probability, weights = model((bags, mask), return_attention_scores=True)
    >>> tuple(probability.shape), tuple(weights.shape)
    ((2, 1), (2, 5))

    Reference: Ilse et al., 2018 (arXiv:1802.04712).
    """

    def __init__(self, encoder, attention_units=128, gated=False, num_classes=1, **kwargs):
        super().__init__(**kwargs)
        if isinstance(encoder, dict):
            encoder = keras.saving.deserialize_keras_object(encoder)
        self.encoder = encoder
        self.attention_units = attention_units
        self.gated = gated
        self.num_classes = num_classes
        self.pool = AttentionPooling(
            attention_units, gated=gated, dtype=self.dtype_policy, name="pool"
        )
        activation = "sigmoid" if num_classes == 1 else "softmax"
        self.classifier = keras.layers.Dense(num_classes, activation, dtype="float32")

    def build(self, input_shape):
        shape = input_shape[0] if isinstance(input_shape[0], (list, tuple)) else input_shape
        instances = (None, *shape[2:])
        if not self.encoder.built:
            self.encoder.build(instances)
        depth = self.encoder.compute_output_shape(instances)[-1]
        self.pool.build((*shape[:2], depth))
        self.classifier.build((shape[0], depth))

    def call(self, inputs, mask=None, *, return_attention_scores=False, training=None):
        if isinstance(inputs, (list, tuple)):
            inputs, mask = inputs
        number, *rest = ops.shape(inputs)[1:]
        instances = ops.reshape(inputs, (-1, *rest))
        if mask is not None:
            mask = masks.as_boolean(mask)
            keep = ops.reshape(mask, (-1, *(1 for _ in rest)))
            # What is masked may be no number, and the encoder's gradient would see it.
            instances = ops.where(keep, instances, ops.zeros((), instances.dtype))
        options = {} if training is None else {"training": training}
        features = self.encoder(instances, **options)
        features = ops.reshape(features, (-1, number, features.shape[-1]))
        pooled, weights = self.pool(features, mask=mask, return_attention_scores=True)
        probability = self.classifier(pooled)
        return (probability, weights) if return_attention_scores else probability

    def compute_mask(self, inputs, previous_mask):
        return None
