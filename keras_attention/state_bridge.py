"""From the last states of an encoder to the first ones of a decoder."""

import keras
from keras import ops, tree

from keras_attention.config import Configurable


@keras.saving.register_keras_serializable("keras_attention")
class StateBridge(Configurable, keras.layers.Layer):
    """Makes a decoder's initial states from those of a bidirectional encoder.

    Without `units`, the states of the two directions are put end to end: `h = [h_f; h_b]`,
    and `c` likewise, so that a decoder cell needs twice the encoder's units. With `units`,
    every decoder state is `tanh(W_i [all encoder states] + b_i)`, of any width.

    Args:
        units: widths of the decoder's states, e.g. `[256, 256]` for an LSTM cell of 256,
            or one for a GRU cell.
        activation: activation of the states, with `units`.
        **kwargs: `name`, `dtype` and so on, as in every Keras layer.

    Call arguments:
        states: list of tensors `(B, ...)`, first the forward ones, then as many backward
            ones: what `keras.layers.Bidirectional(..., return_state=True)` returns behind
            its output.

    Returns:
        List of states, for `initial_state` of a decoder.

    Raises:
        ValueError: for an odd number of states without `units`.

    Example:

    >>> import numpy as np
    >>> from keras_attention import StateBridge
    >>> h, c = StateBridge()([np.ones((2, 5))] * 4)
    >>> tuple(h.shape), tuple(c.shape)
    ((2, 10), (2, 10))

    Reference: Bahdanau et al., 2015 (arXiv:1409.0473).
    """

    def __init__(self, units=None, activation="tanh", **kwargs):
        super().__init__(**kwargs)
        self.units = units
        self.activation = keras.activations.get(activation)
        self._denses = [
            keras.layers.Dense(width, activation=self.activation, dtype=self.dtype_policy)
            for width in ([] if units is None else tree.flatten(units))
        ]

    def build(self, states_shape):
        if self.units is None and len(states_shape) % 2:
            raise ValueError(
                "Expected as many forward as backward states. Received: "
                f"{len(states_shape)} states"
            )
        width = sum(shape[-1] for shape in states_shape)
        for dense in self._denses:
            if not dense.built:
                dense.build((None, width))
        self.pass_on_trainable()

    def call(self, states):
        if self.units is None:
            half = len(states) // 2
            pairs = zip(states[:half], states[half:], strict=True)
            return [ops.concatenate(pair, axis=-1) for pair in pairs]
        everything = ops.concatenate(states, axis=-1)
        return [dense(everything) for dense in self._denses]
