"""The decoder's parts of Xu et al. (2015): a gate on the context, and a deep output."""

import keras
from keras import ops

from keras_attention import cells
from keras_attention.config import Configurable


@keras.saving.register_keras_serializable("keras_attention")
class GatedContextCell(Configurable, keras.layers.Layer):
    """An RNN cell that decides how much to look: `z = sigmoid(w . h + b) * context`.

    A cell for `AttentionDecoder`, which gives it `[x; context]`. The cell within gets
    `[x; z]`, and `[h'; z]` comes out.

    Args:
        cell: an RNN cell.
        context_dim: depth of the context, the last features of the inputs.
        **kwargs: `name`, `dtype` and so on, as in every Keras layer.

    Call arguments:
        inputs: `(B, D + context_dim)`.
        states: list of the cell's states.
        training: whether to apply the cell's dropout.

    Returns:
        `(B, units + context_dim)`, and the list of new states.

    Reference: Xu et al., 2015 (arXiv:1502.03044), section 4.2.1.
    """

    def __init__(self, cell, context_dim, **kwargs):
        super().__init__(**kwargs)
        self.cell = cells.as_cell(cell)
        self.context_dim = context_dim
        self.gate = keras.layers.Dense(
            1, activation="sigmoid", dtype=self.dtype_policy, name="gate"
        )

    @property
    def state_size(self):
        return self.cell.state_size

    @property
    def output_size(self):
        return cells.output_width(self.cell) + self.context_dim

    def build(self, input_shape):
        if not self.gate.built:
            self.gate.build((None, cells.query_width(self.cell)))
        if not self.cell.built:
            self.cell.build(input_shape)
        self.pass_on_trainable()

    def call(self, inputs, states, training=None):
        options = {} if training is None else {"training": training}
        x, context = ops.split(inputs, [inputs.shape[-1] - self.context_dim], axis=-1)
        context = self.gate(cells.query_state(self.cell, states)) * context
        inputs = ops.concatenate([x, context], axis=-1)
        output, states = self.cell(inputs, states, **options)
        return ops.concatenate([output, context], axis=-1), states

    def get_initial_state(self, batch_size=None):
        return self.cell.get_initial_state(batch_size=batch_size)


@keras.saving.register_keras_serializable("keras_attention")
class DeepOutput(Configurable, keras.layers.Layer):
    """Logits from the word before, the state and the context: `L_o(y + L_h h + L_z z)`.

    `L_h` and `L_z` are one matrix here, as `[h; z]` comes in as one tensor.

    Args:
        vocabulary_size: number of logits.
        **kwargs: `name`, `dtype` and so on, as in every Keras layer.

    Call arguments:
        vectors: `(..., E)`, the word before.
        output: `(..., D)`, what a `GatedContextCell` put out.

    Returns:
        `(..., vocabulary_size)`.

    Reference: Xu et al., 2015 (arXiv:1502.03044), equation 7.
    """

    def __init__(self, vocabulary_size, **kwargs):
        super().__init__(**kwargs)
        self.vocabulary_size = vocabulary_size
        self.logits = keras.layers.Dense(vocabulary_size, dtype=self.dtype_policy)

    def build(self, vectors_shape, output_shape):
        self.hidden = keras.layers.Dense(vectors_shape[-1], dtype=self.dtype_policy)
        self.hidden.build(output_shape)
        self.logits.build(vectors_shape)
        self.pass_on_trainable()

    def call(self, vectors, output):
        return self.logits(vectors + self.hidden(output))
