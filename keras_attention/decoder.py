"""A recurrent decoder that attends to one memory or several while it runs."""

import keras
from keras import ops, tree

from keras_attention import cells, loops, masks
from keras_attention.attention import Attention
from keras_attention.attentional_vector import AttentionalVector, units_for
from keras_attention.choices import hand_in
from keras_attention.config import Configurable, as_list
from keras_attention.functional import as_float
from keras_attention.hard import check_stepwise

ORDERS = ("bahdanau", "luong")


@keras.saving.register_keras_serializable("keras_attention")
class AttentionDecoder(Configurable, keras.layers.Layer):
    """An RNN cell with attention at each step, for encoder-decoder models.

    With `c_t = attention(query_t, memory)`, cell state `s_t` and attentional vector
    `a_t = tanh(W_c [s_t; c_t])` (or `c_t` without `attention_units`):

    * `order="bahdanau"`: the query is `s_{t-1}`, and `s_t = cell([x_t; c_t], s_{t-1})`;
    * `order="luong"`: `s_t = cell(x_t, s_{t-1})`, and the query is `s_t`;
    * `input_feeding=True` feeds `a_{t-1}` to the cell too.

    `call` runs over whole target sequences (teacher forcing); `step` is the same for one
    step, and keeps nothing.

    Args:
        cell: an RNN cell, e.g. `keras.layers.GRUCell(256)`, or a list of cells to stack.
        attention: an `Attention`, the name of a score, or a list of either: one for each
            memory.
        order: `"bahdanau"` or `"luong"`.
        input_feeding: whether the cell gets the attentional vector of the step before.
        attention_units: depth of the attentional vector; a list for several memories.
        attention_activation: activation of the attentional vector.
        output_attention: whether the output is the attentional vector rather than the
            cell's output; by default for Luong's order only.
        **kwargs: `name`, `dtype` and so on, as in every Keras layer.

    Call arguments:
        inputs: `(B, Tq, D)`, the target sequence.
        memory: `(B, Tk, Dm)`, what is attended to, or a list of such tensors.
        initial_state: list of the cell's states; zeros if left out.
        inputs_mask: `(B, Tq)`, `True` = a real step; taken from the tensor unless given.
            A masked step leaves the state alone and has output and weights 0.
        memory_mask: `(B, Tk)`, `True` = may be attended, or a list.
        return_attention_scores: whether to return the weights too.
        return_state: whether to return the last states too.
        training: whether to apply dropout.

    Returns:
        The output `(B, Tq, units)`; if asked for, behind it the weights `(B, Tq, Tk)` (a
        list for several memories) and the list of states, as `initial_state` takes it.

    Raises:
        ValueError: for arguments without effect, or states or memories that do not fit.

    Example:

    >>> import keras
    >>> import numpy as np
    >>> from keras_attention import AttentionDecoder
    >>> decoder = AttentionDecoder(keras.layers.GRUCell(8), "additive")
    >>> targets, memory = np.ones((2, 4, 6)), np.ones((2, 9, 10))
    >>> output, weights = decoder(targets, memory, return_attention_scores=True)
    >>> tuple(output.shape), tuple(weights.shape)
    ((2, 4, 8), (2, 4, 9))

    Reference: Bahdanau et al., 2015 (arXiv:1409.0473); Luong et al., 2015
    (arXiv:1508.04025).
    """

    def __init__(
        self,
        cell,
        attention="additive",
        order="bahdanau",
        input_feeding=False,
        attention_units=None,
        attention_activation="tanh",
        output_attention=None,
        **kwargs,
    ):
        super().__init__(**kwargs)
        if order not in ORDERS:
            raise ValueError(f"Expected `order` to be one of {ORDERS}. Received: {order!r}")
        self.cell = cells.as_cell(cell)
        several = isinstance(attention, (list, tuple))
        self._attentions = [self._as_attention(a) for a in as_list(attention)]
        self.attention = self._attentions if several else self._attentions[0]
        self.order = order
        self.input_feeding = input_feeding
        self.attention_units = attention_units
        self.attention_activation = keras.activations.get(attention_activation)
        self.output_attention = output_attention
        self._gives_vector = (
            order == "luong" if output_attention is None else output_attention
        )
        self._check_effect()
        self._vector = AttentionalVector(
            units_for(attention_units, len(self._attentions)),
            self.attention_activation,
            dtype=self.dtype_policy,
            name="attentional_vector",
        )
        # Without input feeding, Luong's cell runs whatever is attended to.
        self._cell_runs_alone = order == "luong" and not input_feeding
        if self._cell_runs_alone:
            options = dict(return_state=True, zero_output_for_mask=True)
            options |= dict(return_sequences=True, dtype=self.dtype_policy)
            self._rnn = keras.layers.RNN(self.cell, **options)
        self.supports_masking = True

    def build(self, inputs_shape, memory_shape):
        several = isinstance(memory_shape[0], (list, tuple))
        shapes = memory_shape if several else [memory_shape]
        self._check_number(shapes)
        width = cells.output_width(self.cell)
        asking = cells.query_width(self.cell) if self.order == "bahdanau" else width
        contexts = [shape[-1] for shape in shapes]
        for attention, shape in zip(self._attentions, shapes, strict=True):
            if not attention.built:
                attention.build((None, None, asking), tuple(shape))
        if not self._vector.built:
            self._vector.build((None, width), [(None, context) for context in contexts])
        fed = self._vector.width if self.input_feeding else None
        self._states = cells.States(self.cell, fed)
        self._cell_input_width = inputs_shape[-1] + (fed or 0)
        if self.order == "bahdanau":
            self._cell_input_width += sum(contexts)
        if not self.cell.built:
            self.cell.build((None, self._cell_input_width))
        self.pass_on_trainable()

    def call(
        self,
        inputs,
        memory,
        *,
        initial_state=None,
        inputs_mask=None,
        memory_mask=None,
        return_attention_scores=False,
        return_state=False,
        training=None,
    ):
        masks.check_position_mask("inputs_mask", inputs_mask, "inputs", inputs.shape)
        inputs, keep = as_float(inputs, self.compute_dtype), None
        if inputs_mask is not None:
            keep = masks.as_boolean(inputs_mask, "inputs_mask")
            inputs = masks.hide(inputs, keep)
        memories = self.prepare_memory(memory, memory_mask)
        states = self.complete_states(initial_state, ops.shape(inputs)[0])
        if training and not self._cell_runs_alone:
            check_stepwise(attention.normalizer for attention in self._attentions)
        run = self._run_alone if self._cell_runs_alone else self._run_steps
        output, weights, states = run(inputs, states, memories, keep)
        for attention, handed_in in zip(self._attentions, weights, strict=True):
            hand_in(attention.normalizer, handed_in)
        return self._pack(
            masks.attach(output, inputs_mask),
            weights if return_attention_scores else None,
            states if return_state else None,
        )

    def prepare_memory(self, memory, memory_mask=None):
        """What `step` reads: the memory, with its keys projected once for all steps.

        Args:
            memory: `(B, Tk, Dm)`, or a list.
            memory_mask: `(B, Tk)`, or a list.

        Returns:
            A list with a `keras_attention.attention.Memory` for each attention.
        """
        values = as_list(memory)
        self._check_number(values)
        value_masks = [None] * len(values) if memory_mask is None else as_list(memory_mask)
        together = zip(self._attentions, values, value_masks, strict=True)
        return [a.prepare(value, value_mask=mask) for a, value, mask in together]

    def get_initial_state(self, batch_size):
        """The states before the first step: the cell's, and zeros for what is fed."""
        return self.complete_states(None, batch_size)

    def complete_states(self, states, batch_size):
        """All states of the decoder, from its cell's alone or from `None`."""
        return self._states.complete(states, batch_size, self.compute_dtype)

    def step(self, inputs, states, memories):
        """One step of the decoder, which keeps nothing.

        Args:
            inputs: `(B, D)`.
            states: list of states, from `get_initial_state` or the step before.
            memories: what `prepare_memory` returns.

        Returns:
            `(output, weights, states)`: `(B, units)`, `(B, Tk)` or a list of it, and the
            list of new states.
        """
        output, weights, states = self._step(inputs, states, memories)
        return output, weights if self._several else weights[0], states

    def _step(self, inputs, states, memories):
        states, fed = self._states.split(states)
        contexts, weights = [], []
        if self.order == "bahdanau":
            contexts, weights = self._look(cells.query_state(self.cell, states), memories)
        cell_inputs = ops.concatenate([inputs, *fed, *contexts], axis=-1)
        output, states = cells.run(self.cell, cell_inputs, states, self.compute_dtype)
        if self.order == "luong":
            contexts, weights = self._look(output, memories)
        if self.input_feeding or self._gives_vector:
            vector = self._vector(output, contexts)
            states = [*states, vector] if self.input_feeding else states
            output = vector if self._gives_vector else output
        return output, weights, states

    def _look(self, query, memories):
        """Contexts and weights for a query `(B, Dq)` or queries `(B, Tq, Dq)`."""
        one = len(query.shape) == 2
        query = ops.expand_dims(query, -2) if one else query
        together = zip(self._attentions, memories, strict=True)
        pairs = [attention.read(query, memory) for attention, memory in together]
        if one:
            pairs = [[ops.squeeze(x, -2) for x in pair] for pair in pairs]
        return [context for context, _ in pairs], [weights for _, weights in pairs]

    def _run_alone(self, inputs, states, memories, keep):
        """The cell as one RNN, then attention for all steps at once."""
        output, *states = self._rnn(inputs, initial_state=states, mask=keep)
        contexts, weights = self._look(output, memories)
        if self._gives_vector:
            output = self._vector(output, contexts)
        if keep is not None:
            output, *weights = [masks.hide(x, keep) for x in (output, *weights)]
        return output, weights, states

    def _run_steps(self, inputs, states, memories, keep):
        """Step after step: what the cell gets depends on what was attended to."""
        batch = ops.shape(inputs)[0]
        lengths = [ops.shape(memory.value)[-2] for memory in memories]
        sizes = [self._output_width(), *lengths]
        results = [ops.zeros((batch, size), dtype=self.compute_dtype) for size in sizes]
        sequences = [x for x in (inputs, keep) if x is not None]

        def step(carry, at_step):
            old = tree.pack_sequence_as(states, carry[len(results) :])
            output, weights, new = self._step(at_step[0], old, memories)
            carried = [output, *weights, *tree.flatten(new)]
            if keep is not None:
                real = ops.expand_dims(at_step[1], -1)
                kept = [ops.zeros_like(x) for x in results] + tree.flatten(old)
                pairs = zip(carried, kept, strict=True)
                carried = [ops.where(real, new, old) for new, old in pairs]
            return [ops.cast(x, self.compute_dtype) for x in carried]

        cell_inputs = ops.zeros((batch, self._cell_input_width), dtype=self.compute_dtype)
        cells.draw_dropout(self.cell, cell_inputs, self._states.split(states)[0])
        collected, carry = loops.scan(
            step,
            results + tree.flatten(states),
            [ops.swapaxes(x, 0, 1) for x in sequences],
            collect=len(results),
            generators=[g for a in self._attentions for g in a.seed_generators],
        )
        cells.forget_dropout(self.cell)
        output, *weights = [ops.swapaxes(x, 0, 1) for x in collected]
        return output, weights, tree.pack_sequence_as(states, carry[len(results) :])

    def compute_output_shape(self, inputs_shape, memory_shape):
        return (*inputs_shape[:-1], self._output_width())

    def _output_width(self):
        return self._vector.width if self._gives_vector else cells.output_width(self.cell)

    def compute_output_spec(
        self,
        inputs,
        memory,
        *,
        initial_state=None,
        inputs_mask=None,
        memory_mask=None,
        return_attention_scores=False,
        return_state=False,
        training=None,
    ):
        masks.check_position_mask("inputs_mask", inputs_mask, "inputs", inputs.shape)
        if memory_mask is not None:
            for value, mask in zip(as_list(memory), as_list(memory_mask), strict=True):
                masks.check_position_mask("memory_mask", mask, "memory", value.shape)
        batch, steps, _ = inputs.shape
        symbolic = self._symbolic
        output = symbolic(*self.compute_output_shape(inputs.shape, None))
        weights = [symbolic(batch, steps, m.shape[-2]) for m in as_list(memory)]
        states = tree.map_structure(lambda w: symbolic(batch, w), self._states.widths)
        if initial_state is not None:
            self._states.check(initial_state)
        return self._pack(
            masks.attach(output, inputs_mask),
            weights if return_attention_scores else None,
            states if return_state else None,
        )

    def _symbolic(self, *shape):
        return keras.KerasTensor(shape, dtype=self.compute_dtype)

    def _pack(self, output, weights, states):
        result = [output]
        if weights is not None:
            result.append(weights if self._several else weights[0])
        if states is not None:
            result.append(states)
        return tuple(result) if len(result) > 1 else output

    @property
    def _several(self):
        return isinstance(self.attention, list)

    def _as_attention(self, identifier):
        if isinstance(identifier, dict):
            identifier = keras.saving.deserialize_keras_object(identifier)
        if isinstance(identifier, keras.Layer) and not isinstance(identifier, Attention):
            raise ValueError(
                f"Expected a keras_attention.Attention or a score. Received: {identifier!r}"
            )
        if isinstance(identifier, Attention):
            return identifier
        return Attention(identifier, dtype=self.dtype_policy)

    def _check_effect(self):
        used = self._gives_vector or self.input_feeding
        if not used and (self.order == "luong" or self.attention_units is not None):
            what = "attention" if self.order == "luong" else "`attention_units`"
            raise ValueError(
                "Expected output_attention=True or input_feeding=True, without which "
                f"{what} has no effect. Received: order={self.order!r}, neither of them"
            )

    def _check_number(self, memories):
        if len(memories) != len(self._attentions):
            raise ValueError(
                f"Expected a memory for each of {len(self._attentions)} attentions. "
                f"Received: {len(memories)}"
            )
