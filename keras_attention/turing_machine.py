"""A neural Turing machine: an RNN cell with a memory that it reads and writes."""

import keras
from keras import ops, tree

from keras_attention import addressing, cells
from keras_attention.config import Configurable, check_positive_integer


@keras.saving.register_keras_serializable("keras_attention")
class NTMCell(Configurable, keras.layers.Layer):
    """`output = W [h; r] + b`: a controller `h`, and what its heads read, `r`.

    The controller sees the input and what was read last. It steers heads, which find their
    places by content and by steps from where they were (see `keras_attention.addressing`);
    all of them look at the memory as the last step left it, then the writing heads change
    it. No weight has the number of slots as a size: a saved machine can be given
    another memory.

    Args:
        controller: an RNN cell, such as `keras.layers.LSTMCell(100)`, or a list of them.
        units: width of the output.
        slots: rows of the memory.
        depth: columns of the memory.
        read_heads: number of heads that read.
        write_heads: number of heads that write.
        max_step: how far a head can move at a time, in both directions.
        **kwargs: `name`, `dtype` and so on, as in every Keras layer.

    Call arguments:
        inputs: `(B, D)`, one step. `keras.layers.RNN(cell)` takes `(B, T, D)`; with a mask
            on JAX it needs `zero_output_for_mask=True`.
        states: the controller's, then, each row put end to end, what was read, the heads'
            weights (readers first), the memory.
        training: passed on to the controller.

    Returns:
        `(output, states)`, with the output `(B, units)`.

    Raises:
        ValueError: for a controller that is no RNN cell.

    Example:

    >>> import keras
    >>> import numpy as np
    >>> from keras_attention import NTMCell
    >>> cell = NTMCell(keras.layers.LSTMCell(10), units=4, slots=9, depth=5)
    >>> output, *states = keras.layers.RNN(cell, return_state=True)(np.ones((2, 3, 6)))
    >>> tuple(output.shape), [tuple(state.shape) for state in states]
    ((2, 4), [(2, 10), (2, 10), (2, 5), (2, 18), (2, 45)])

    Reference: Graves et al., 2014 (arXiv:1410.5401).
    """

    def __init__(
        self,
        controller,
        units,
        slots=128,
        depth=20,
        read_heads=1,
        write_heads=1,
        max_step=1,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.controller = cells.as_cell(controller)
        self.units = units
        self.slots = slots
        self.depth = depth
        self.read_heads = read_heads
        self.write_heads = write_heads
        self.max_step = max_step
        for name in ("units", "slots", "depth", "read_heads", "write_heads", "max_step"):
            check_positive_integer(name, getattr(self, name))
        self.heads = read_heads + write_heads
        self.state_size = [
            *tree.flatten(cells.state_widths(self.controller)),
            read_heads * depth,
            self.heads * slots,
            slots * depth,
        ]
        self.output_size = units
        # Of each head: key, strength, gate, steps, power; of a writer: erase, add.
        self.head_sizes = [depth, 1, 1, 2 * max_step + 1, 1]
        steering = self.heads * sum(self.head_sizes) + write_heads * 2 * depth
        policy = self.dtype_policy
        self.steering = keras.layers.Dense(steering, dtype=policy, name="steering")
        self.reporting = keras.layers.Dense(units, dtype=policy, name="reporting")

    def build(self, input_shape):
        batch, reads = input_shape[0], self.read_heads * self.depth
        width = cells.output_width(self.controller)
        if not self.controller.built:
            self.controller.build((batch, input_shape[-1] + reads))
        self.steering.build((batch, width))
        self.reporting.build((batch, width + reads))
        self.first_read = self.add_weight(
            name="first_read", shape=(reads,), initializer="glorot_uniform"
        )
        self.pass_on_trainable()

    def get_initial_state(self, batch_size=None):
        """A nearly empty memory, heads at its first slot, a learned first reading."""
        dtype = self.compute_dtype
        start = self.controller.get_initial_state(batch_size=batch_size)
        read = ops.cast(ops.expand_dims(ops.tanh(self.first_read), 0), dtype)
        at_first = ops.cast(ops.arange(self.slots) == 0, dtype)
        return [
            *(ops.cast(x, dtype) for x in tree.flatten(start)),
            ops.tile(read, (batch_size, 1)),
            ops.tile(ops.expand_dims(at_first, 0), (batch_size, self.heads)),
            # Slots that are all zeros would have no direction to compare a key with.
            ops.full((batch_size, self.slots * self.depth), 1e-2, dtype=dtype),
        ]

    def call(self, inputs, states):
        *own, read, weights, memory = states
        weights = ops.reshape(weights, (-1, self.heads, self.slots))
        memory = ops.reshape(memory, (-1, self.slots, self.depth))
        own = tree.pack_sequence_as(cells.state_widths(self.controller), own)
        seen = ops.concatenate([inputs, read], axis=-1)
        hidden, own = cells.run(self.controller, seen, own, self.compute_dtype)

        heads, erase, add = self._steer(self.steering(hidden))
        weights = addressing.address(weights, memory, *heads)
        read = addressing.read(weights[:, : self.read_heads], memory)
        memory = addressing.write(memory, weights[:, self.read_heads :], erase, add)

        read = ops.reshape(read, (-1, self.read_heads * self.depth))
        output = self.reporting(ops.concatenate([hidden, read], axis=-1))
        weights = ops.reshape(weights, (-1, self.heads * self.slots))
        memory = ops.reshape(memory, (-1, self.slots * self.depth))
        return output, [*tree.flatten(own), read, weights, memory]

    def _steer(self, numbers):
        """What the heads need out of the controller's `(B, ...)` numbers."""
        cut = self.heads * sum(self.head_sizes)
        own = ops.reshape(numbers[:, :cut], (-1, self.heads, sum(self.head_sizes)))
        changes = ops.reshape(numbers[:, cut:], (-1, self.write_heads, 2 * self.depth))
        ends = [sum(self.head_sizes[:k]) for k in range(1, len(self.head_sizes))]
        key, strength, gate, steps, power = ops.split(own, ends, axis=-1)
        erase, add = ops.split(changes, 2, axis=-1)
        heads = (
            ops.tanh(key),
            ops.softplus(strength),
            ops.sigmoid(gate),
            ops.softmax(steps, axis=-1),
            1 + ops.softplus(power),
        )
        return heads, ops.sigmoid(erase), ops.tanh(add)
