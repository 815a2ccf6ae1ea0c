"""What decoders and encoders need to know about Keras's RNN cells and layers."""

import weakref

import keras
from keras import ops, tree


def as_cell(cell):
    """An RNN cell from a cell, a list of cells to stack, or a config."""
    if isinstance(cell, dict):
        cell = keras.saving.deserialize_keras_object(cell)
    if isinstance(cell, (list, tuple)):
        cell = keras.layers.StackedRNNCells([as_cell(c) for c in cell])
    is_cell = hasattr(cell, "state_size") and callable(cell)
    if not is_cell or isinstance(cell, keras.layers.RNN):
        raise ValueError(
            "Expected an RNN cell such as keras.layers.GRUCell(256), or a list of cells. "
            f"Received: {cell!r}"
        )
    return cell


def state_widths(cell):
    """Widths of the cell's states: a list, nested for stacked cells."""
    sizes = cell.state_size
    return list(sizes) if isinstance(sizes, (list, tuple)) else [sizes]


def output_width(cell):
    """Width of what the cell puts out."""
    width = getattr(cell, "output_size", None)
    return query_width(cell) if width is None else width


def query_state(cell, states):
    """The state that asks: the first one of the cell, the uppermost of a stack."""
    return tree.flatten(states[-1])[0] if hasattr(cell, "cells") else states[0]


def query_width(cell):
    """Width of `query_state`."""
    return query_state(cell, state_widths(cell))


class States:
    """The states of a decoder: its cell's and, behind them, what is fed back to it.

    Args:
        cell: an RNN cell.
        fed_width: width of what is fed back; `None` for nothing.
    """

    def __init__(self, cell, fed_width=None):
        self.cell = cell
        self.fed_widths = [] if fed_width is None else [fed_width]
        self.cell_widths = state_widths(cell)
        self.widths = [*self.cell_widths, *self.fed_widths]

    def split(self, states):
        """The cell's states, and a list of what is fed back."""
        cut = len(self.cell_widths)
        return list(states[:cut]), list(states[cut:])

    def complete(self, states, batch_size, dtype):
        """All states, in `dtype`, from the cell's alone or from `None`."""
        if states is None:
            states = _initial_states(self.cell, batch_size, dtype)
        self.check(states)
        flat = [ops.cast(x, dtype) for x in tree.flatten(states)]
        if len(flat) < len(tree.flatten(self.widths)):
            flat += [
                ops.zeros((batch_size, width), dtype=dtype) for width in self.fed_widths
            ]
        return tree.pack_sequence_as(self.widths, flat)

    def check(self, states):
        """Raises `ValueError` unless `states` are all of them, or all the cell's."""
        received = [state.shape[-1] for state in tree.flatten(states)]
        expected = tree.flatten(self.cell_widths)
        if received not in (expected, expected + self.fed_widths):
            raise ValueError(
                f"Expected initial states of widths {expected}, those of "
                f"{type(self.cell).__name__}. Received: widths {received}. An encoder "
                "that runs both ways has states of twice its units when they are put end "
                "to end: see keras_attention.StateBridge"
            )


def _initial_states(cell, batch_size, dtype):
    if hasattr(cell, "get_initial_state"):
        return cell.get_initial_state(batch_size=batch_size)
    return tree.map_structure(
        lambda width: ops.zeros((batch_size, width), dtype=dtype), state_widths(cell)
    )


def run(cell, inputs, states, dtype):
    """One step: `(output, states)` in `dtype`, whatever the cell's own is."""
    output, new_states = cell(inputs, states)
    flat = [ops.cast(x, dtype) for x in tree.flatten(new_states)]
    return ops.cast(output, dtype), tree.pack_sequence_as(states, flat)


def draw_dropout(cell, inputs, states):
    """Draws the dropout masks that a Keras cell keeps for all steps of a sequence.

    Drawn inside a loop, they would belong to its first step alone.
    """
    for part, part_inputs, part_states in _parts(cell, inputs, states):
        if hasattr(part, "get_dropout_mask"):
            part.get_dropout_mask(part_inputs)
            part.get_recurrent_dropout_mask(tree.flatten(part_states)[0])


def forget_dropout(cell):
    """Lets go of the masks of `draw_dropout`."""
    for part in getattr(cell, "cells", [cell]):
        if hasattr(part, "reset_dropout_mask"):
            part.reset_dropout_mask()
            part.reset_recurrent_dropout_mask()


def require_no_dropout(cell, argument):
    """Raises `ValueError` for a cell whose dropout a loop over steps would not know."""
    for part in getattr(cell, "cells", [cell]):
        rates = [getattr(part, name, 0) for name in ("dropout", "recurrent_dropout")]
        if any(rates):
            raise ValueError(
                f"Expected a cell without dropout beside `{argument}`. Received: "
                f"{type(part).__name__} with dropout={rates[0]}, "
                f"recurrent_dropout={rates[1]}"
            )


def _parts(cell, inputs, states):
    """Each cell of a stack, with a tensor of its input's shape and its states."""
    if not hasattr(cell, "cells"):
        return [(cell, inputs, states)]
    parts = []
    for part, part_states in zip(cell.cells, states, strict=True):
        parts.append((part, inputs, part_states))
        inputs = ops.zeros((ops.shape(inputs)[0], output_width(part)), inputs.dtype)
    return parts


# Of each `Bidirectional` the layer that it is a copy of.
_COPIED: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()


def bidirectional(layer, dtype=None):
    """`keras.layers.Bidirectional(layer)` for models that are loaded.

    Keras copies the layer twice, by its config, and drops it. While a file is loaded it
    takes two objects with one `id` for one: a layer that is made later, in the memory of
    one that was dropped, would be a copy of the other's. So none is dropped.
    """
    both = keras.layers.Bidirectional(layer, dtype=dtype)
    _COPIED[both] = layer
    return both
