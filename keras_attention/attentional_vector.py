"""What a decoder makes of its output and of what it attended to."""

import keras
from keras import ops

from keras_attention.config import Configurable, as_list


@keras.saving.register_keras_serializable("keras_attention")
class AttentionalVector(Configurable, keras.layers.Layer):
    """`a = [activation(W_1 [s; c_1]); activation(W_2 [s; c_2]); ...]`.

    Args:
        units: depth for each context; an empty list for the contexts as they are.
        activation: of each part.

    Call arguments:
        output: `(..., U)`, what the cell put out.
        contexts: list of tensors `(..., Dm)`, what attention returned for each memory.

    Returns:
        `(..., width)`.
    """

    def __init__(self, units, activation, **kwargs):
        super().__init__(**kwargs)
        self.units = units
        self.activation = keras.activations.get(activation)
        self.denses = [
            keras.layers.Dense(
                width, activation=self.activation, use_bias=False, dtype=self.dtype_policy
            )
            for width in units
        ]

    def build(self, output_shape, contexts_shape):
        for dense, shape in zip(self.denses, contexts_shape, strict=False):
            if not dense.built:
                dense.build((*shape[:-1], output_shape[-1] + shape[-1]))
        widths = [dense.units for dense in self.denses]
        self.width = sum(widths or [shape[-1] for shape in contexts_shape])

    def call(self, output, contexts):
        if self.denses:
            contexts = [
                dense(ops.concatenate([output, context], axis=-1))
                for dense, context in zip(self.denses, contexts, strict=True)
            ]
        return ops.concatenate(contexts, axis=-1)

    def compute_mask(self, inputs, previous_mask):
        return None


def units_for(attention_units, number):
    """The depth for each of `number` contexts; an empty list for none."""
    units = [] if attention_units is None else as_list(attention_units)
    units = units * number if len(units) == 1 else units
    if len(units) not in (0, number):
        raise ValueError(
            f"Expected `attention_units` for {number} attentions. "
            f"Received: {attention_units}"
        )
    return units
