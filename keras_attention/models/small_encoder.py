"""A small convolutional encoder, for pictures without one of `keras.applications`."""

import keras
from keras import ops

from keras_attention.config import Configurable


@keras.saving.register_keras_serializable("keras_attention")
class Coordinates(Configurable, keras.layers.Layer):
    """Tells each region where it lies: its row and column, from -1 to 1, as two features.

    Convolutions see the same garment wherever it lies, and attention takes regions in any
    order: without this, nothing could say what is left of what.

    Args:
        **kwargs: `name`, `dtype` and so on, as in every Keras layer.

    Call arguments:
        inputs: `(B, H, W, C)`.

    Returns:
        `(B, H, W, C + 2)`.

    Reference: Liu et al., 2018 (arXiv:1807.03247).
    """

    def call(self, inputs):
        batch, height, width, _ = ops.shape(inputs)
        rows, columns = (self._line(size) for size in (height, width))
        shape = (batch, height, width, 1)
        return ops.concatenate(
            [
                inputs,
                ops.broadcast_to(rows[:, None, None], shape),
                ops.broadcast_to(columns[:, None], shape),
            ],
            axis=-1,
        )

    def _line(self, size):
        steps = ops.cast(ops.arange(size), self.compute_dtype)
        return 2 * steps / ops.maximum(ops.cast(size - 1, self.compute_dtype), 1) - 1

    def compute_output_shape(self, input_shape):
        return (*input_shape[:-1], input_shape[-1] + 2)


def small_encoder(image_shape, dtype=None):
    """A `keras.Model` with a region for every 12 x 12 pixels, 96 features each.

    Args:
        image_shape: `(height, width, channels)`; the pictures' numbers are 0 to 255.
        dtype: dtype policy of its layers.

    Raises:
        ValueError: without a shape.
    """
    if image_shape is None:
        raise ValueError(
            "Expected an `encoder`, or the `image_shape` of pictures for the default one. "
            "Received: neither"
        )

    def convolve(x, filters, size, stride):
        options = dict(strides=stride, padding="same", use_bias=False, dtype=dtype)
        x = keras.layers.Conv2D(filters, size, **options)(x)
        x = keras.layers.BatchNormalization(momentum=0.9, dtype=dtype)(x)
        return keras.layers.ReLU(dtype=dtype)(x)

    inputs = keras.Input(image_shape)
    x = keras.layers.Rescaling(1 / 255, dtype=dtype)(inputs)
    x = convolve(x, 32, 6, 4)
    x = convolve(x, 64, 3, 3)
    x = convolve(Coordinates(dtype=dtype)(x), 96, 3, 1)
    return keras.Model(inputs, x, name="encoder")
