"""`AttentionDecoder` and `StateBridge`: what they compute, masks, states, errors."""

import functools
import itertools
import json
import subprocess
import sys
from types import SimpleNamespace

import contract
import keras
import numpy as np
import pytest
import references
from contract import randomise, to_numpy
from keras import layers, ops, tree

import keras_attention as ka
from keras_attention import normalizers, scores
from keras_attention.state_bridge import StateBridge

BACKEND = keras.backend.backend()
tensorflow_only = pytest.mark.skipif(
    BACKEND != "tensorflow", reason="this is TensorFlow's own"
)
# All sizes differ, so that none can stand for another.
B, TQ, TK, DX, DM, UNITS, VECTOR = 3, 4, 7, 5, 6, 8, 11
ORDERS = ("bahdanau", "luong")
LENGTHS = np.array([7, 3, 5])  # of the memory
REAL = np.arange(TK) < LENGTHS[:, None]
STEPS = np.array([4, 2, 3])  # of the target
HEARD = np.arange(TQ) < STEPS[:, None]


def normal(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype("float32")


def close(actual, desired, atol=1e-5):
    actual, desired = tree.flatten(actual), tree.flatten(desired)
    assert len(actual) == len(desired)
    for one, other in zip(actual, desired, strict=True):
        np.testing.assert_allclose(to_numpy(one), to_numpy(other), atol=atol, rtol=1e-5)


def inputs(steps=TQ, seed=0):
    return normal(B, steps, DX, seed=seed)


def memory(steps=TK, seed=1):
    return normal(B, steps, DM, seed=seed)


def everything(decoder, x, m, **options):
    """Outputs, weights and states as flat lists of arrays."""
    found = decoder(x, m, return_attention_scores=True, return_state=True, **options)
    return [tree.flatten(part) for part in found]


def stepped(decoder, x, m, memory_mask=None, states=None):
    """What `everything` gives, by the pure step."""
    memories = decoder.prepare_memory(tree.map_structure(tensor, m), memory_mask)
    states = decoder.get_initial_state(len(x)) if states is None else states
    outputs, weights = [], []
    for t in range(x.shape[1]):
        output, looked, states = decoder.step(tensor(x[:, t]), states, memories)
        outputs.append(output)
        weights.append(tree.flatten(looked))
    weights = [ops.stack(parts, axis=1) for parts in zip(*weights, strict=True)]
    return [ops.stack(outputs, axis=1)], weights, tree.flatten(states)


def tensor(x):
    return ops.convert_to_tensor(x)


# Cells.


@keras.saving.register_keras_serializable("keras_attention_tests")
class PlainCell(layers.Layer):
    """The least a cell can be: two states of two widths, the first is the output."""

    def __init__(self, units, **kwargs):
        super().__init__(**kwargs)
        self.units = units
        self.state_size = (units, units - 3)

    def build(self, shape):
        def matrix(name, *sizes):
            return self.add_weight(name=name, shape=sizes)

        self.kernel = matrix("kernel", shape[-1], self.units)
        self.recurrent = matrix("recurrent", self.units - 3, self.units)
        self.out = matrix("out", self.units, self.units - 3)

    def call(self, x, states):
        _, memory = states
        output = ops.matmul(x, self.kernel) + ops.matmul(memory, self.recurrent)
        output = ops.tanh(output)
        return output, [output, memory - ops.matmul(output, self.out)]

    def get_config(self):
        return super().get_config() | {"units": self.units}


@keras.saving.register_keras_serializable("keras_attention_tests")
class ProjectedCell(PlainCell):
    """Puts out a third width, and starts from ones."""

    def __init__(self, units, **kwargs):
        super().__init__(units, **kwargs)
        self.output_size = units + 2

    def build(self, shape):
        super().build(shape)
        self.project = self.add_weight(name="project", shape=(self.units, self.output_size))

    def call(self, x, states):
        output, states = super().call(x, states)
        return ops.matmul(output, self.project), states

    def get_initial_state(self, batch_size=None):
        return [ops.ones((batch_size, width)) for width in self.state_size]


@keras.saving.register_keras_serializable("keras_attention_tests")
class OneStateCell(PlainCell):
    """One state, given and returned bare."""

    def __init__(self, units, **kwargs):
        super().__init__(units, **kwargs)
        self.state_size = units

    def build(self, shape):
        self.kernel = self.add_weight(name="kernel", shape=(shape[-1], self.units))

    def call(self, x, states):
        state = states[0] if isinstance(states, (list, tuple)) else states
        output = ops.tanh(ops.matmul(x, self.kernel) + state)
        return output, output


CELLS = {
    "lstm": lambda: layers.LSTMCell(UNITS),
    "gru": lambda: layers.GRUCell(UNITS),
    "gru_v1": lambda: layers.GRUCell(UNITS, reset_after=False),
    "simple": lambda: layers.SimpleRNNCell(UNITS),
    "stacked_grus": lambda: [layers.GRUCell(9), layers.GRUCell(UNITS)],
    "stacked_lstms": lambda: [layers.LSTMCell(9), layers.LSTMCell(UNITS)],
    "stacked_mixed": lambda: [
        layers.LSTMCell(UNITS),
        layers.GRUCell(9),
        layers.SimpleRNNCell(UNITS),
    ],
    "plain": lambda: PlainCell(UNITS),
    "projected": lambda: ProjectedCell(UNITS),
    "one_state": lambda: OneStateCell(UNITS),
    "stacked_own": lambda: [PlainCell(9), OneStateCell(UNITS)],
}
# Every way of arranging a decoder: order, input feeding, attention units, output.
ARRANGEMENTS = [
    dict(order=order, input_feeding=feeding, attention_units=units, output_attention=out)
    for order, feeding, units, out in itertools.product(
        ORDERS, (False, True), (None, VECTOR), (None, True, False)
    )
]


def has_effect(order, input_feeding, attention_units, output_attention):
    gives_vector = order == "luong" if output_attention is None else output_attention
    if order == "luong" or attention_units is not None:
        return gives_vector or input_feeding
    return True


EFFECTIVE = [a for a in ARRANGEMENTS if has_effect(**a)]
# One of each order and feeding, the cheap choice where all would say the same.
MAIN = [
    dict(order=order, input_feeding=feeding, attention_units=VECTOR, output_attention=True)
    for order in ORDERS
    for feeding in (False, True)
]


def label(value):
    if isinstance(value, dict):
        return "-".join(str(v) for v in value.values())
    return None


# What it computes, beside NumPy.


def float64(variables):
    return [to_numpy(v).astype("float64") for v in variables]


class NumpyDecoder:
    """The formulas of the docstring, for SimpleRNN cells and additive scores."""

    def __init__(self, decoder, memories, masks):
        self.memories = [one.astype("float64") for one in memories]
        self.masks = [mask[:, None] for mask in masks]
        self.cells = [
            float64(cell.weights) for cell in getattr(decoder.cell, "cells", [decoder.cell])
        ]
        several = isinstance(decoder.attention, list)
        self.scores = [
            dict(zip([v.name for v in a.weights], float64(a.weights), strict=True))
            for a in (decoder.attention if several else [decoder.attention])
        ]
        vectors = [v for v in decoder.weights if "attentional_vector" in v.path]
        self.vectors = float64(vectors)
        assert len(vectors) == len(memories) * (decoder.attention_units is not None)
        widths = [kernel.shape[1] for kernel in self.vectors]
        self.width = sum(widths or [one.shape[-1] for one in memories])
        self.bahdanau = decoder.order == "bahdanau"
        self.feeds = decoder.input_feeding
        gives = decoder.output_attention
        self.gives_vector = not self.bahdanau if gives is None else gives

    def look(self, query):
        together = zip(self.scores, self.memories, self.masks, strict=True)
        pairs = [
            references.attend("additive", "softmax", query[:, None], m, m, weights, mask)
            for weights, m, mask in together
        ]
        return [context[:, 0] for context, _ in pairs], [w[:, 0] for _, w in pairs]

    def step(self, x, states, vector):
        parts = [x, vector] if self.feeds else [x]
        if self.bahdanau:
            contexts, weights = self.look(states[-1])
            parts += contexts
        output, new = np.concatenate(parts, 1), []
        for (kernel, recurrent, bias), state in zip(self.cells, states, strict=True):
            output = np.tanh(output @ kernel + state @ recurrent + bias)
            new.append(output)
        if not self.bahdanau:
            contexts, weights = self.look(output)
        if self.vectors:
            contexts = [
                np.tanh(np.concatenate([output, context], 1) @ kernel)
                for context, kernel in zip(contexts, self.vectors, strict=True)
            ]
        vector = np.concatenate(contexts, 1)
        return vector if self.gives_vector else output, weights, new, vector

    def run(self, x, states):
        """As `everything` returns it."""
        outputs, weights, vector = [], [], np.zeros((len(x), self.width))
        for t in range(x.shape[1]):
            output, looked, states, vector = self.step(x[:, t], states, vector)
            outputs.append(output)
            weights.append(looked)
        weights = [np.stack(one, 1) for one in zip(*weights, strict=True)]
        fed = [vector] if self.feeds else []
        return [np.stack(outputs, 1)], weights, [*states, *fed]


@pytest.mark.parametrize("arrangement", EFFECTIVE, ids=label)
@pytest.mark.parametrize("number", [1, 2], ids=["one_memory", "two_memories"])
def test_equals_numpy(arrangement, number):
    stacked = number == 2
    cell = layers.SimpleRNNCell(UNITS, bias_initializer="random_normal")
    widths = [UNITS]
    if stacked:
        cell, widths = [layers.SimpleRNNCell(9), cell], [9, UNITS]
    m = [memory(), normal(B, 9, 2, seed=3)][:number]
    masks = [REAL, np.arange(9) != 4][:number]
    masks = [
        np.broadcast_to(mask, one.shape[:2]) for mask, one in zip(masks, m, strict=True)
    ]
    decoder = ka.AttentionDecoder(
        cell, ["additive", "additive"] if stacked else "additive", **arrangement
    )
    states = [normal(B, width, seed=9) for width in widths]
    given = (m, masks) if stacked else (m[0], masks[0])
    options = dict(memory_mask=given[1], initial_state=states)
    decoder(inputs(), given[0])
    randomise(decoder)
    found = everything(decoder, inputs(), given[0], **options)
    close(found, NumpyDecoder(decoder, m, masks).run(inputs(), states))


def test_attention_activation():
    """None as in TensorFlow Addons: the attentional vector is a matrix product."""
    given = dict(order="luong", attention_units=VECTOR)
    linear = ka.AttentionDecoder(layers.GRUCell(UNITS), attention_activation=None, **given)
    bent = ka.AttentionDecoder(layers.GRUCell(UNITS), attention_activation="relu", **given)
    found = to_numpy(linear(inputs(), memory()))
    bent(inputs(), memory())
    bent.set_weights(linear.get_weights())
    assert (found < 0).any()
    close(bent(inputs(), memory()), np.maximum(found, 0))


def test_units_for_each_memory():
    decoder = ka.AttentionDecoder(
        layers.GRUCell(UNITS),
        ["additive", "general"],
        attention_units=[VECTOR, 2],
        output_attention=True,
    )
    assert decoder(inputs(), [memory(), memory(9)]).shape == (B, TQ, VECTOR + 2)


def test_a_list_of_one_memory():
    """A list in, a list out."""
    one = ka.AttentionDecoder(layers.GRUCell(UNITS), "additive")
    listed = ka.AttentionDecoder(layers.GRUCell(UNITS), ["additive"])
    output, weights = one(inputs(), memory(), return_attention_scores=True)
    listed(inputs(), [memory()])
    listed.set_weights(one.get_weights())
    found, looked = listed(inputs(), [memory()], return_attention_scores=True)
    close(found, output)
    assert isinstance(looked, list)
    close(looked, [weights])


# Teacher forcing equals stepping.


def check_stepping(decoder, m=None, mask=REAL, least_move=1e-4):
    m = memory() if m is None else m
    decoder(inputs(), m)
    randomise(decoder)
    found = everything(decoder, inputs(), m, memory_mask=mask)
    close(found, stepped(decoder, inputs(), m, mask))
    for one in found[1]:
        # It does look around.
        assert np.abs(np.diff(to_numpy(one), axis=1)).max() >= least_move


@pytest.mark.parametrize("arrangement", MAIN, ids=label)
@pytest.mark.parametrize("cell", CELLS)
def test_stepping_for_every_cell(cell, arrangement):
    check_stepping(ka.AttentionDecoder(CELLS[cell](), **arrangement))


@pytest.mark.parametrize("arrangement", EFFECTIVE, ids=label)
def test_stepping_for_every_arrangement(arrangement):
    check_stepping(ka.AttentionDecoder(layers.LSTMCell(UNITS), **arrangement))


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("score", scores.names())
def test_stepping_for_every_score(score, order):
    options = {"max_length": 9} if score == "location" else {}
    depth = DM if references.score_of(score).any_query_depth else UNITS
    attention = ka.Attention(scores.get(score, **options))
    decoder = ka.AttentionDecoder(layers.GRUCell(UNITS), attention, order=order)
    check_stepping(decoder, normal(B, TK, depth, seed=1))


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("normalizer", normalizers.names())
def test_stepping_for_every_normalizer(normalizer, order):
    attention = ka.Attention("additive", normalizer=normalizer, units=3)
    decoder = ka.AttentionDecoder(layers.LSTMCell(UNITS), attention, order=order)
    # The most probable place may be the same at all of a few steps.
    least_move = 0 if normalizer in references.HARD else 1e-4
    check_stepping(decoder, least_move=least_move)


@pytest.mark.parametrize("arrangement", EFFECTIVE, ids=label)
def test_stepping_for_two_memories(arrangement):
    attentions = [ka.Attention("additive", units=3), "general"]
    decoder = ka.AttentionDecoder(layers.GRUCell(UNITS), attentions, **arrangement)
    check_stepping(decoder, [memory(), normal(B, 9, 2, seed=3)], [REAL, None])


@pytest.mark.parametrize("order", ORDERS)
def test_stepping_from_a_given_state(order):
    decoder = ka.AttentionDecoder(
        layers.LSTMCell(UNITS), order=order, input_feeding=True, attention_units=VECTOR
    )
    decoder(inputs(), memory())
    states = [normal(B, width, seed=7) for width in (UNITS, UNITS, VECTOR)]
    found = everything(decoder, inputs(), memory(), initial_state=states)
    close(found, stepped(decoder, inputs(), memory(), states=list(map(tensor, states))))


def test_a_step_leaves_its_arguments_alone():
    decoder = ka.AttentionDecoder(layers.LSTMCell(UNITS), input_feeding=True)
    decoder(inputs(), memory())
    memories = decoder.prepare_memory(tensor(memory()))
    states = decoder.get_initial_state(B)
    first = decoder.step(tensor(inputs()[:, 0]), states, memories)
    close(states, [np.zeros_like(to_numpy(s)) for s in states])
    close(decoder.step(tensor(inputs()[:, 0]), states, memories), first, atol=0)


# Masks.


@pytest.mark.parametrize("arrangement", EFFECTIVE, ids=label)
def test_masked_steps_leave_the_state_alone(arrangement):
    """Wherever they stand: the rest is as if they were not there."""
    decoder = ka.AttentionDecoder(layers.LSTMCell(UNITS), **arrangement)
    decoder(inputs(), memory())
    randomise(decoder)
    short = inputs(2)
    expected = everything(decoder, short, memory(), memory_mask=REAL)
    for places in ([0, 1], [3, 4], [1, 3]):
        x = normal(B, 5, DX, seed=4)
        x[:, places] = short
        keep = np.isin(np.arange(5), places)[None].repeat(B, 0)
        output, weights, states = everything(
            decoder, x, memory(), inputs_mask=keep, memory_mask=REAL
        )
        close(states, expected[2])
        close([to_numpy(output[0])[:, places]], expected[0])
        close([to_numpy(weights[0])[:, places]], expected[1])
        for one in (*output, *weights):
            assert not to_numpy(one)[~keep].any()


@pytest.mark.parametrize("arrangement", MAIN, ids=label)
@pytest.mark.parametrize("cell", ["stacked_mixed", "plain", "projected", "one_state"])
def test_masked_steps_for_other_cells(cell, arrangement):
    decoder = ka.AttentionDecoder(CELLS[cell](), **arrangement)
    found = everything(decoder, inputs(), memory(), inputs_mask=HEARD)
    for row, steps in enumerate(STEPS):
        short = inputs()[:, :steps]
        expected = everything(decoder, short, memory())
        for one, other in zip(found[2], expected[2], strict=True):
            close(to_numpy(one)[row], to_numpy(other)[row])
        for one, other in zip(found[0] + found[1], expected[0] + expected[1], strict=True):
            close(to_numpy(one)[row, :steps], to_numpy(other)[row])
            assert not to_numpy(one)[row, steps:].any()


@pytest.mark.parametrize("arrangement", MAIN, ids=label)
def test_a_target_without_any_step(arrangement):
    decoder = ka.AttentionDecoder(layers.GRUCell(UNITS), **arrangement)
    start = normal(B, UNITS, seed=2)
    keep = np.array([[1] * TQ, [0] * TQ, [1] * TQ])
    output, weights, states = everything(
        decoder, inputs(), memory(), initial_state=[start], inputs_mask=keep
    )
    close(to_numpy(states[0])[1], start[1], atol=0)
    for one in (*output, *weights, *states[1:]):
        assert not to_numpy(one)[1].any()


@pytest.mark.parametrize("arrangement", MAIN, ids=label)
def test_a_memory_without_anything_to_see(arrangement):
    """Weights and context 0, as in every attention here, and no NaN."""
    decoder = ka.AttentionDecoder(layers.GRUCell(UNITS), **arrangement)
    mask = np.array([[1] * TK, [0] * TK, [1] * TK])
    found = everything(decoder, inputs(), memory(), memory_mask=mask)
    blank = memory()
    blank[1] = 0
    expected = everything(decoder, inputs(), blank, memory_mask=mask)
    assert not to_numpy(found[1][0])[1].any()
    close(found, expected)
    unseen = everything(decoder, inputs(), np.zeros_like(memory()))
    close(to_numpy(found[0][0])[1], to_numpy(unseen[0][0])[1])
    assert all(np.isfinite(to_numpy(x)).all() for x in tree.flatten(found))


def all_gradients(decoder, call, data, cotangents):
    """Outputs, and gradients by the variables' paths: names alone may come twice."""
    groups = []
    for variable in decoder.trainable_variables:
        for group in groups:
            if variable.name not in {v.name for v in group}:
                group.append(variable)
                break
        else:
            groups.append([variable])
    gathered = {}
    for group in groups:
        part = SimpleNamespace(trainable_variables=group)
        outputs, found = contract.gradients(part, call, data, cotangents)
        gathered |= {name: found[name] for name in data}
        gathered |= {v.path: found[v.name] for v in group}
    assert len(gathered) == len(data) + len(decoder.trainable_variables)
    return outputs, gathered


def flat_call(decoder, **options):
    def call(data):
        return tree.flatten(everything(decoder, data["inputs"], data["memory"], **options))

    return call


@pytest.mark.parametrize(
    ("arrangement", "garbage"),
    [*((a, np.nan) for a in MAIN), (MAIN[0], np.inf)],
    ids=label,
)
def test_what_is_masked_changes_nothing(arrangement, garbage):
    """In the memory and in the targets, for outputs and for gradients."""
    decoder = ka.AttentionDecoder(layers.LSTMCell(UNITS), "additive", **arrangement)
    call = flat_call(decoder, inputs_mask=HEARD, memory_mask=REAL)
    clean = {"inputs": inputs(), "memory": memory()}
    clean["inputs"][~HEARD] = clean["memory"][~REAL] = 0
    dirty = {"inputs": inputs(), "memory": memory()}
    dirty["inputs"][~HEARD] = dirty["memory"][~REAL] = garbage
    cotangents = [normal(*y.shape, seed=5) for y in call(clean)]
    randomise(decoder)
    expected, slopes = all_gradients(decoder, call, clean, cotangents)
    found, gradients = all_gradients(decoder, call, dirty, cotangents)
    close(found, expected)
    for name, slope in slopes.items():
        np.testing.assert_allclose(
            gradients[name], slope, atol=1e-5, rtol=1e-4, err_msg=name
        )
        assert slope.any(), name
    assert not gradients["inputs"][~HEARD].any()
    assert not gradients["memory"][~REAL].any()


@pytest.mark.parametrize("arrangement", MAIN, ids=label)
def test_gradients_are_those_of_the_steps(arrangement):
    decoder = ka.AttentionDecoder(layers.GRUCell(UNITS), "general", **arrangement)
    data = {"inputs": inputs(3), "memory": memory()}
    whole = flat_call(decoder, memory_mask=REAL)
    cotangents = [normal(*y.shape, seed=5) for y in whole(data)]
    randomise(decoder)

    def by_steps(data):
        return tree.flatten(stepped(decoder, data["inputs"], data["memory"], REAL))

    expected, slopes = all_gradients(decoder, by_steps, data, cotangents)
    found, gradients = all_gradients(decoder, whole, data, cotangents)
    close(found, expected)
    for name, slope in slopes.items():
        np.testing.assert_allclose(
            gradients[name], slope, atol=1e-4, rtol=1e-4, err_msg=name
        )


IDS = np.array([[3, 1, 2, 0], [4, 2, 0, 0], [1, 2, 4, 0]])
SOURCES = np.array([[5, 1, 3, 4, 2], [6, 4, 0, 0, 0], [1, 2, 3, 0, 0]])


class Embedded:
    """A model of ids: the decoder gets its masks from two embeddings, or by hand."""

    def __init__(self, carried, order="bahdanau", score="additive"):
        targets = layers.Embedding(7, DX, mask_zero=carried)
        sources = layers.Embedding(7, DM, mask_zero=carried)
        ids = [keras.Input((None,), dtype="int32"), keras.Input((None,), dtype="int32")]
        masks = {}
        if not carried:
            masks = {"inputs_mask": ids[0] != 0, "memory_mask": ids[1] != 0}
        self.decoder = ka.AttentionDecoder(layers.GRUCell(UNITS), score, order=order)
        outputs = self.decoder(
            targets(ids[0]),
            sources(ids[1]),
            return_attention_scores=True,
            return_state=True,
            **masks,
        )
        self.model = keras.Model(ids, tree.flatten(outputs))

    def predict(self, targets=IDS, sources=SOURCES):
        return self.model.predict([targets, sources], verbose=0)


@pytest.mark.parametrize("order", ORDERS)
def test_carried_masks_are_those_given_by_hand(order):
    carried, by_hand = Embedded(True, order), Embedded(False, order)
    by_hand.model.set_weights(carried.model.get_weights())
    found = carried.predict()
    close(by_hand.predict(), found)
    output, weights, state = found
    assert not output[IDS == 0].any()
    assert not weights[IDS == 0].any()
    assert not weights.transpose(0, 2, 1)[SOURCES == 0].any()
    close(weights.sum(-1), (IDS != 0).astype("float32"))
    if order == "bahdanau":  # the output is the state
        close(state, output[np.arange(B), (IDS != 0).sum(1) - 1])
    # More padding, the same answers.
    wider = carried.predict(
        np.pad(IDS, [(0, 0), (0, 2)]), np.pad(SOURCES, [(0, 0), (0, 3)])
    )
    close([wider[0][:, :4], wider[1][:, :4, :5], wider[2]], found)


@pytest.mark.parametrize("order", ORDERS)
def test_an_explicit_mask_wins(order):
    masking = layers.Masking()
    x, m = inputs(), memory()
    x[:, 2:] = m[:, 4:] = 0
    decoder = ka.AttentionDecoder(layers.GRUCell(UNITS), order=order)
    other = {
        "inputs_mask": np.arange(TQ)[None].repeat(B, 0) < 3,
        "memory_mask": np.arange(TK)[None].repeat(B, 0) < 6,
    }
    found = everything(decoder, masking(x), masking(m), **other)
    close(found, everything(decoder, x, m, **other))
    carried = everything(decoder, masking(x), masking(m))
    assert np.abs(to_numpy(carried[1][0]) - to_numpy(found[1][0])).max() > 1e-3


def test_one_memory_carries_a_mask_and_one_does_not():
    padded = memory()
    padded[:, 4:] = 0
    plain = normal(B, 3, 2, seed=3)
    decoder = ka.AttentionDecoder(layers.GRUCell(UNITS), ["additive", "additive"])
    carried = everything(decoder, inputs(), [layers.Masking()(padded), plain])
    mask = np.arange(TK)[None].repeat(B, 0) < 4
    close(carried, everything(decoder, inputs(), [padded, plain], memory_mask=[mask, None]))
    assert not to_numpy(carried[1][0])[:, :, 4:].any()
    assert to_numpy(carried[1][1]).all()


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("options", [{}, {"return_state": True}], ids=["one", "more"])
def test_the_targets_mask_leaves_with_the_output(order, options):
    x = inputs()
    x[:, 3:] = 0
    decoder = ka.AttentionDecoder(layers.GRUCell(UNITS), order=order)
    output = decoder(layers.Masking()(x), memory(), **options)
    output = output[0] if options else output
    pooled = layers.GlobalAveragePooling1D()(output)
    close(pooled, to_numpy(output)[:, :3].mean(1))
    ids = keras.Input((None,), dtype="int32")
    symbolic_memory = keras.Input((None, DM))
    embedded = layers.Embedding(7, DX, mask_zero=True)(ids)
    symbolic = decoder(embedded, symbolic_memory, **options)
    symbolic = symbolic[0] if options else symbolic
    masked = layers.GlobalAveragePooling1D()(symbolic)
    model = keras.Model([ids, symbolic_memory], [symbolic, masked])
    output, pooled = model.predict([IDS[:, :3], memory()], verbose=0)
    close(pooled[1], output[1, :2].mean(0))


def test_without_a_targets_mask_none_leaves():
    m = memory()
    m[:, 3:] = 0
    output = ka.AttentionDecoder(layers.GRUCell(UNITS))(inputs(), layers.Masking()(m))
    close(layers.GlobalAveragePooling1D()(output), to_numpy(output).mean(1))


# States.


def test_states_start_from_zeros_or_as_the_cell_says():
    for cell, value in (("lstm", 0), ("stacked_mixed", 0), ("plain", 0), ("projected", 1)):
        decoder = ka.AttentionDecoder(CELLS[cell]())
        decoder(inputs(), memory())
        states = tree.flatten(decoder.get_initial_state(B))
        for state in states:
            np.testing.assert_array_equal(to_numpy(state), np.full(state.shape, value))
        given = [np.full(state.shape, value, "float32") for state in states]
        close(
            everything(decoder, inputs(), memory()),
            everything(decoder, inputs(), memory(), initial_state=given),
        )


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("cell", ["gru", "stacked_grus", "stacked_mixed"])
def test_the_cells_states_alone_will_do(cell, order):
    """With input feeding, what is fed at first is zeros, unless it is given."""
    decoder = ka.AttentionDecoder(
        CELLS[cell](), order=order, input_feeding=True, attention_units=VECTOR
    )
    decoder(inputs(), memory())
    widths = [s.shape[-1] for s in tree.flatten(decoder.get_initial_state(B))]
    assert widths[-1] == VECTOR
    states = [normal(B, width, seed=i) for i, width in enumerate(widths)]
    partial = everything(decoder, inputs(), memory(), initial_state=states[:-1])
    zeros = np.zeros_like(states[-1])
    close(
        partial,
        everything(decoder, inputs(), memory(), initial_state=[*states[:-1], zeros]),
    )
    full = everything(decoder, inputs(), memory(), initial_state=states)
    assert np.abs(to_numpy(full[0][0]) - to_numpy(partial[0][0])).max() > 1e-3


@pytest.mark.parametrize("arrangement", MAIN, ids=label)
@pytest.mark.parametrize("cell", ["lstm", "stacked_mixed", "stacked_grus"])
def test_two_halves_are_the_whole(cell, arrangement):
    """Returned states go in again as they are."""
    decoder = ka.AttentionDecoder(CELLS[cell](), **arrangement)
    whole = everything(decoder, inputs(), memory())
    first, states = decoder(inputs()[:, :1], memory(), return_state=True)
    second = everything(decoder, inputs()[:, 1:], memory(), initial_state=states)
    close(ops.concatenate([first, second[0][0]], axis=1), whole[0][0])
    close(second[2], whole[2])


def test_case_14_encoder_states_and_padded_targets():
    """A bidirectional encoder of 4 starts a decoder of 8; padding runs nothing on."""
    encoder = layers.Bidirectional(layers.LSTM(4, return_sequences=True, return_state=True))
    source, target = normal(B, 5, 3, seed=1), inputs(5)
    seen = np.arange(5)[None].repeat(B, 0) < 4
    steps = np.arange(5)[None].repeat(B, 0) < 3
    encoded, *states = encoder(source, mask=tensor(seen))
    short, *short_states = encoder(source[:, :4])
    start = StateBridge()(states)
    close(start, StateBridge()(short_states))
    close(start[0], ops.concatenate([states[0], states[2]], axis=-1), atol=0)
    close(start[1], ops.concatenate([states[1], states[3]], axis=-1), atol=0)
    decoder = ka.AttentionDecoder(layers.LSTMCell(8))
    output, state = decoder(
        target,
        encoded,
        initial_state=start,
        inputs_mask=steps,
        memory_mask=seen,
        return_state=True,
    )
    expected, shorter = decoder(
        target[:, :3], short, initial_state=start, return_state=True
    )
    close(state, shorter)
    close(to_numpy(output)[:, :3], expected)
    logits = layers.Dense(7)(output)
    loss = ka.SequenceCrossentropy()
    ids = np.array([[1, 2, 3, 0, 0]] * B)
    wild = to_numpy(logits).copy()
    wild[:, 3:] = 1e6
    assert float(loss(ids, logits)) == float(loss(ids, wild))


@pytest.mark.parametrize("symbolic", [False, True])
def test_case_14_a_wrong_width_names_both(symbolic):
    decoder = ka.AttentionDecoder(layers.LSTMCell(4))
    x, m, state = inputs(), memory(), np.zeros((B, 8), "float32")
    if symbolic:
        x, m = keras.Input((None, DX)), keras.Input((None, DM))
        state = keras.Input((8,))
    with pytest.raises(ValueError, match=r"\[4, 4\].*LSTMCell.*\[8, 8\]"):
        decoder(x, m, initial_state=[state, state])


@pytest.mark.parametrize("number", [1, 3, 4])
def test_a_wrong_number_of_states(number):
    decoder = ka.AttentionDecoder(layers.LSTMCell(UNITS))
    with pytest.raises(ValueError, match=r"\[8, 8\]"):
        decoder(
            inputs(), memory(), initial_state=[np.zeros((B, UNITS), "float32")] * number
        )


# The bridge.


def test_a_bridge_with_units():
    """`tanh(W [all states] + b)` for each state of the decoder."""
    states = [normal(B, 4, seed=i) for i in range(4)]
    bridge = StateBridge([UNITS, 3])
    bridge(states)
    randomise(bridge)
    together = np.concatenate(states, axis=1)
    weights = bridge.get_weights()
    expected = [
        np.tanh(together @ weights[0] + weights[1]),
        np.tanh(together @ weights[2] + weights[3]),
    ]
    close(bridge(states), expected)
    assert [w.shape[-1] for w in weights] == [UNITS, UNITS, 3, 3]


def test_a_bridge_for_one_state_and_another_activation():
    states = [normal(B, 4, seed=i) for i in range(2)]
    bridge = StateBridge(UNITS, activation="relu")
    (state,) = bridge(states)
    assert state.shape == (B, UNITS)
    assert (to_numpy(state) >= 0).all()
    (joined,) = StateBridge()(states)
    close(joined, np.concatenate(states, axis=1), atol=0)


def test_a_bridge_needs_two_directions():
    with pytest.raises(ValueError, match=r"Expected.*backward.*Received: 3"):
        StateBridge()([np.zeros((B, 4), "float32")] * 3)


def test_a_bridge_in_a_saved_model(tmp_path):
    source, target = keras.Input((None, 3)), keras.Input((None, DX))
    encoded, *states = layers.Bidirectional(
        layers.GRU(4, return_sequences=True, return_state=True)
    )(source)
    outputs = [
        ka.AttentionDecoder(layers.GRUCell(8))(
            target, encoded, initial_state=StateBridge()(states)
        ),
        ka.AttentionDecoder(layers.LSTMCell(5))(
            target, encoded, initial_state=StateBridge([5, 5], activation="relu")(states)
        ),
    ]
    model = keras.Model([source, target], outputs)
    model.save(tmp_path / "m.keras")
    loaded = keras.models.load_model(tmp_path / "m.keras")
    data = [normal(B, 6, 3, seed=1), inputs()]
    close(loaded(data), model(data), atol=1e-6)
    bridges = [x for x in loaded.layers if isinstance(x, StateBridge)]
    assert [b.units for b in bridges] == [None, [5, 5]]
    assert [b.activation.__name__ for b in bridges] == ["tanh", "relu"]


# Errors.


def test_an_unknown_order():
    with pytest.raises(ValueError, match=r"Expected.*bahdanau.*luong.*Received: 'after'"):
        ka.AttentionDecoder(layers.GRUCell(UNITS), order="after")


@pytest.mark.parametrize(
    "arrangement", [a for a in ARRANGEMENTS if not has_effect(**a)], ids=label
)
def test_arguments_without_effect_are_refused(arrangement):
    with pytest.raises(ValueError, match=r"effect.*Received"):
        ka.AttentionDecoder(layers.GRUCell(UNITS), **arrangement)


@pytest.mark.parametrize("cell", [UNITS, "gru", None, layers.Dense(UNITS)])
def test_a_cell_that_is_none(cell):
    with pytest.raises(ValueError, match=r"Expected an RNN cell.*Received"):
        ka.AttentionDecoder(cell)


def test_units_for_another_number_of_memories():
    with pytest.raises(ValueError, match=r"2 attentions.*Received: \[1, 2, 3\]"):
        ka.AttentionDecoder(
            layers.GRUCell(UNITS),
            ["dot", "dot"],
            attention_units=[1, 2, 3],
            output_attention=True,
        )


@pytest.mark.parametrize("symbolic", [False, True])
def test_a_wrong_number_of_memories(symbolic):
    m = keras.Input((None, DM)) if symbolic else memory()
    x = keras.Input((None, DX)) if symbolic else inputs()
    two = ka.AttentionDecoder(layers.GRUCell(UNITS), ["additive", "additive"])
    with pytest.raises(ValueError, match=r"Expected.*2 attentions.*Received: 1"):
        two(x, m)
    with pytest.raises(ValueError, match=r"Expected.*2 attentions.*Received: 3"):
        two(x, [m, m, m])
    one = ka.AttentionDecoder(layers.GRUCell(UNITS))
    with pytest.raises(ValueError, match=r"Expected.*1 attention.*Received: 2"):
        one(x, [m, m])


def test_a_wrong_number_of_memory_masks():
    two = ka.AttentionDecoder(layers.GRUCell(UNITS), ["additive", "additive"])
    with pytest.raises(ValueError, match="mask"):
        two(inputs(), [memory(), memory()], memory_mask=[REAL])
    with pytest.raises(ValueError, match="mask"):
        two(inputs(), [memory(), memory()], memory_mask=REAL)


@pytest.mark.parametrize("symbolic", [False, True])
def test_wrong_masks_are_named_with_their_shapes(symbolic):
    decoder = ka.AttentionDecoder(layers.GRUCell(UNITS))
    x, m, mask = inputs(), memory(), np.ones((B, 9), bool)
    if symbolic:
        x, m = keras.Input((TQ, DX)), keras.Input((TK, DM))
        mask = keras.Input((9,), dtype="bool")
    with pytest.raises(ValueError, match=r"inputs_mask.*, 4\).*, 9\)"):
        decoder(x, m, inputs_mask=mask)
    with pytest.raises(ValueError, match=r"mask.*, 7\).*, 9\)"):
        decoder(x, m, memory_mask=mask)


def test_an_additive_mask_is_refused():
    decoder = ka.AttentionDecoder(layers.GRUCell(UNITS))
    with pytest.raises(ValueError, match="additive"):
        decoder(inputs(), memory(), inputs_mask=np.where(HEARD, 0, -1e9))
    with pytest.raises(ValueError, match="additive"):
        decoder(inputs(), memory(), memory_mask=np.where(REAL, 0, -1e9))


def test_a_dot_score_of_two_depths_is_refused():
    with pytest.raises(ValueError, match=r"8.*6|6.*8"):
        ka.AttentionDecoder(layers.GRUCell(UNITS), "dot")(inputs(), memory())


# Dropout.


def dropped(decoder, **options):
    return everything(decoder, inputs(), memory(), training=True, **options)


DROPPING = {
    "gru": lambda: layers.GRUCell(UNITS, dropout=0.4, recurrent_dropout=0.3, seed=1),
    "lstm": lambda: layers.LSTMCell(UNITS, dropout=0.4, seed=1),
    "simple": lambda: layers.SimpleRNNCell(UNITS, recurrent_dropout=0.5, seed=1),
    "stacked": lambda: [
        layers.GRUCell(9, dropout=0.4, seed=1),
        layers.LSTMCell(UNITS, recurrent_dropout=0.4, seed=2),
    ],
}


@pytest.mark.parametrize("arrangement", MAIN, ids=label)
@pytest.mark.parametrize("cell", DROPPING)
def test_dropout_in_cells(cell, arrangement):
    decoder = ka.AttentionDecoder(DROPPING[cell](), **arrangement)
    still = everything(decoder, inputs(), memory())
    first, second = dropped(decoder), dropped(decoder)
    for one, other in ((first, still), (second, still), (first, second)):
        assert np.abs(to_numpy(one[0][0]) - to_numpy(other[0][0])).max() > 1e-3
    close(everything(decoder, inputs(), memory()), still)
    close(everything(decoder, inputs(), memory(), training=False), still)
    data = {"inputs": inputs(), "memory": memory()}
    call = flat_call(decoder, training=True)
    cotangents = [np.ones(y.shape, "float32") for y in call(data)]
    _, gradients = all_gradients(decoder, call, data, cotangents)
    assert all(np.isfinite(g).all() for g in gradients.values())
    assert gradients["inputs"].any()


@pytest.mark.parametrize("order", ORDERS)
def test_a_cell_drops_the_same_in_all_steps(order):
    """As in Keras's own RNN layers: the states of a linear cell show what was dropped."""
    cell = layers.SimpleRNNCell(
        DX,
        activation=None,
        use_bias=False,
        kernel_initializer="ones",
        recurrent_initializer="zeros",
        dropout=0.5,
        seed=3,
    )
    decoder = ka.AttentionDecoder(
        cell, order=order, input_feeding=True, output_attention=False
    )
    ones = np.ones((B, 6, DX), "float32")
    output = to_numpy(decoder(ones, np.zeros((B, TK, 1), "float32"), training=True))
    close(output, output[:, :1].repeat(6, 1))
    assert len(np.unique(output)) > 1


@pytest.mark.parametrize("arrangement", MAIN, ids=label)
def test_dropout_of_attention(arrangement):
    attention = ka.Attention("additive", dropout=0.5, seed=4)
    decoder = ka.AttentionDecoder(layers.GRUCell(UNITS), attention, **arrangement)
    still = everything(decoder, inputs(), memory(), memory_mask=REAL)
    first = dropped(decoder, memory_mask=REAL)
    second = dropped(decoder, memory_mask=REAL)
    assert np.abs(to_numpy(first[0][0]) - to_numpy(still[0][0])).max() > 1e-3
    assert np.abs(to_numpy(first[0][0]) - to_numpy(second[0][0])).max() > 1e-3
    close(to_numpy(first[1][0]).sum(-1), np.ones((B, TQ)))  # returned before dropout
    close(everything(decoder, inputs(), memory(), memory_mask=REAL), still)


@pytest.mark.parametrize("arrangement", MAIN, ids=label)
def test_attention_drops_other_places_at_each_step(arrangement):
    """Equal steps, weights that do not move: outputs differ by what was dropped."""
    attention = ka.Attention("additive", dropout=0.5, seed=4)
    cell = layers.SimpleRNNCell(
        UNITS, kernel_initializer="zeros", recurrent_initializer="zeros"
    )
    decoder = ka.AttentionDecoder(cell, attention, **arrangement)
    x = np.ones((B, 6, DX), "float32")
    # Rows of one product may differ by rounding, which drops nothing.
    assert np.abs(np.diff(to_numpy(decoder(x, memory())), axis=1)).max() < 1e-6
    output = to_numpy(decoder(x, memory(), training=True))
    assert (np.abs(np.diff(output, axis=1)).max(axis=(0, 2)) > 1e-4).all()


def training_model(order="bahdanau", feeding=True, dropout=0.0):
    x, m = keras.Input((None, DX)), keras.Input((None, DM))
    decoder = ka.AttentionDecoder(
        layers.GRUCell(UNITS, dropout=dropout, recurrent_dropout=dropout, seed=2),
        ka.Attention("additive", dropout=dropout, seed=3),
        order=order,
        input_feeding=feeding,
        attention_units=VECTOR,
        output_attention=True,
    )
    hidden = decoder(layers.Masking()(x), layers.Masking()(m))
    return keras.Model([x, m], layers.Dense(2)(hidden))


def training_data():
    x, m = inputs(), memory()
    x[~HEARD] = m[~REAL] = 0
    return [x, m], normal(B, TQ, 2, seed=6)


def fitted(model=None, epochs=3, **how):
    """Losses and weights after some epochs. Eager ones need no graph, which takes long."""
    if model is None:
        keras.utils.set_random_seed(4)
        model = training_model()
    model.compile(keras.optimizers.SGD(0.1), "mse", **how)
    data, targets = training_data()
    history = model.fit(data, targets, epochs=epochs, verbose=0).history
    return history["loss"], model.get_weights()


@pytest.mark.parametrize(
    ("order", "feeding"), [("bahdanau", True), ("luong", True), ("luong", False)]
)
def test_fit_with_all_kinds_of_dropout(order, feeding):
    model = training_model(order, feeding, dropout=0.3)
    losses, weights = fitted(model, epochs=2)
    assert np.isfinite(losses).all()
    assert all(np.isfinite(w).all() for w in weights)


@tensorflow_only
@pytest.mark.parametrize(("order", "feeding"), [("bahdanau", True), ("luong", False)])
def test_case_18_a_compiled_fit_is_the_plain_fit(order, feeding):
    results = []
    for jit_compile in (False, True):
        keras.utils.set_random_seed(4)
        model = training_model(order, feeding)
        results.append(fitted(model, jit_compile=jit_compile))
    (plain, weights), (losses, compiled) = results
    np.testing.assert_allclose(losses, plain, atol=1e-5)
    assert losses[2] < losses[0]
    close(compiled, weights)


@tensorflow_only
@pytest.mark.parametrize("score", ["additive", "concat", "location", "cosine"])
def test_case_18_gradients_compile_for_unknown_lengths(score):
    """The gradient of a loop holds shapes that XLA must know."""
    import tensorflow as tf

    options = {"max_length": 9} if score == "location" else {}
    decoder = ka.AttentionDecoder(
        layers.SimpleRNNCell(DM), ka.Attention(scores.get(score, **options))
    )
    decoder(inputs(), memory())

    def slopes(x, m):
        with tf.GradientTape() as tape:
            tape.watch([x, m])
            loss = tf.reduce_sum(decoder(x, m) ** 2)
        return tape.gradient(loss, [x, m])

    signature = [tf.TensorSpec((None, None, DX)), tf.TensorSpec((None, None, DM))]
    compiled = tf.function(slopes, input_signature=signature, jit_compile=True)
    close(compiled(inputs(), memory()), slopes(tensor(inputs()), tensor(memory())))


@tensorflow_only
def test_case_18_a_compiled_fit_with_dropout():
    losses, weights = fitted(training_model(dropout=0.3), 2, jit_compile=True)
    assert np.isfinite(losses).all()
    assert all(np.isfinite(w).all() for w in weights)


@tensorflow_only
def test_case_18_few_traces_over_many_lengths(monkeypatch):
    calls = []
    original = ka.AttentionDecoder.call

    @functools.wraps(original)
    def counted(self, *args, **kwargs):
        calls.append(self)
        return original(self, *args, **kwargs)

    model = training_model()
    monkeypatch.setattr(ka.AttentionDecoder, "call", counted)
    for steps in range(3, 9):
        model.predict([inputs(steps), memory(steps + 1)], verbose=0)
    assert 1 <= len(calls) <= 3


# Nothing is kept; keys are projected once.


def kept_tensors(x):
    """Tensors among the attributes of a layer and of the layers within it."""
    if isinstance(x, keras.Variable):
        return []
    if isinstance(x, layers.Layer):
        return [y for value in vars(x).values() for y in kept_tensors(value)]
    if isinstance(x, (list, tuple)):
        return [y for value in x for y in kept_tensors(value)]
    return [x] if ops.is_tensor(x) else []


@pytest.mark.parametrize("arrangement", MAIN, ids=label)
def test_a_memory_is_never_kept(arrangement):
    decoder = ka.AttentionDecoder(
        layers.LSTMCell(UNITS, dropout=0.2, recurrent_dropout=0.2), **arrangement
    )
    other = memory(3, seed=8)
    mask = np.arange(3)[None].repeat(B, 0) < 2
    expected = everything(decoder, inputs(), other, memory_mask=mask)
    everything(decoder, inputs(5), memory(9), memory_mask=np.ones((B, 9), bool))
    decoder(inputs(), memory(), training=True)
    close(everything(decoder, inputs(), other, memory_mask=mask), expected, atol=0)
    unmasked = everything(decoder, inputs(), other)
    assert to_numpy(unmasked[1][0]).all()  # nor is its mask
    assert not kept_tensors(decoder)


@pytest.mark.parametrize("arrangement", MAIN, ids=label)
def test_keys_are_projected_once(arrangement, monkeypatch):
    calls = []
    original = ka.AdditiveScore.project_key

    def counted(self, key):
        calls.append(key)
        return original(self, key)

    monkeypatch.setattr(ka.AdditiveScore, "project_key", counted)
    decoder = ka.AttentionDecoder(layers.GRUCell(UNITS), **arrangement)
    decoder(inputs(), memory())
    calls.clear()
    decoder(inputs(), memory(), memory_mask=REAL)
    assert len(calls) == 1
    calls.clear()
    stepped(decoder, inputs(), memory(), REAL)
    assert len(calls) == 1


# Shapes, dtypes.


@pytest.mark.parametrize(
    ("arrangement", "number"),
    [*((a, 1) for a in EFFECTIVE), *((a, 2) for a in MAIN)],
    ids=label,
)
def test_symbolic_shapes_are_the_real_ones(arrangement, number):
    attentions = ["additive", "general"]
    depths = [(TK, DM), (9, 2)]
    decoder = ka.AttentionDecoder(
        [layers.LSTMCell(9), layers.GRUCell(UNITS)],
        attentions[:number] if number == 2 else "additive",
        **arrangement,
    )
    options = dict(return_attention_scores=True, return_state=True)
    x, *m = keras.Input((None, DX)), *(keras.Input((None, d)) for _, d in depths)
    m = m[:number] if number == 2 else m[0]
    symbolic = decoder(x, m, **options)
    fixed, *known = (
        keras.Input((TQ, DX), batch_size=B),
        *(keras.Input(s, batch_size=B) for s in depths),
    )
    known = known[:number] if number == 2 else known[0]
    exact = decoder(fixed, known, **options)
    real = [normal(B, *s, seed=1) for s in depths][:number]
    real = decoder(inputs(), real if number == 2 else real[0], **options)
    tree.assert_same_structure(symbolic, real)
    loose = [(None, None, decoder.compute_output_shape((1, 1), None)[-1])]
    loose += [(None, None, None)] * number
    flat = tree.flatten(real)
    loose += [(None, y.shape[-1]) for y in flat[1 + number :]]
    assert [tuple(y.shape) for y in tree.flatten(symbolic)] == loose
    assert [tuple(y.shape) for y in tree.flatten(exact)] == [tuple(y.shape) for y in flat]
    assert {keras.backend.standardize_dtype(y.dtype) for y in flat} == {"float32"}
    alone = decoder(x, m)
    assert tuple(alone.shape) == loose[0]
    assert tuple(decoder(x, m, return_state=True)[0].shape) == loose[0]


def test_trained_at_one_length_used_at_others():
    model = training_model()
    assert not {TQ, TK, B} & {n for w in model.weights for n in w.shape}
    data, targets = training_data()
    model.compile("sgd", "mse", run_eagerly=True)
    model.fit(data, targets, verbose=0)
    for steps, places in ((1, 9), (9, 1)):
        shape = model.predict([inputs(steps), memory(places)], verbose=0).shape
        assert shape == (B, steps, 2)


@pytest.mark.parametrize("policy", ["float16", "mixed_float16", "mixed_bfloat16"])
@pytest.mark.parametrize("arrangement", MAIN, ids=label)
def test_half_precision(arrangement, policy):
    keras.config.set_dtype_policy(policy)
    decoder = ka.AttentionDecoder(layers.LSTMCell(UNITS), **arrangement)
    found = everything(decoder, inputs(), memory(), inputs_mask=HEARD, memory_mask=REAL)
    half = keras.config.dtype_policy().compute_dtype
    for y in tree.flatten(found):
        assert keras.backend.standardize_dtype(y.dtype) == half
    assert not to_numpy(found[1][0])[:, :, 3:][1].any()
    variable = keras.config.dtype_policy().variable_dtype
    assert {v.dtype for v in decoder.weights} == {variable}
    keras.config.set_dtype_policy("float32")
    full = ka.AttentionDecoder(layers.LSTMCell(UNITS), **arrangement)
    full(inputs(), memory())
    full.set_weights([to_numpy(w) for w in decoder.weights])
    expected = everything(full, inputs(), memory(), inputs_mask=HEARD, memory_mask=REAL)
    close(found, expected, atol=3e-2 if half == "bfloat16" else 5e-3)
    whole = everything(decoder, inputs(), memory(), memory_mask=REAL)
    close(stepped(decoder, inputs(), memory(), REAL), whole, atol=2e-2)


def test_a_decoder_with_its_own_policy():
    """Cells take the global policy, as everywhere in Keras."""
    decoder = ka.AttentionDecoder(
        layers.GRUCell(UNITS, dtype="mixed_float16"), dtype="mixed_float16"
    )
    output = decoder(inputs(), memory())
    assert keras.backend.standardize_dtype(output.dtype) == "float16"
    loaded = ka.AttentionDecoder.from_config(decoder.get_config())
    output = loaded(inputs(), memory())
    assert keras.backend.standardize_dtype(output.dtype) == "float16"


def test_mixed_float16_training():
    keras.config.set_dtype_policy("mixed_float16")
    losses, weights = fitted(run_eagerly=True)
    keras.config.set_dtype_policy("float32")
    expected, _ = fitted(run_eagerly=True)
    np.testing.assert_allclose(losses, expected, atol=1e-2)
    assert all(np.isfinite(w).all() for w in weights)


# Configs and files.


def unusual():
    """Every argument away from its default."""
    policy = dict(dtype="mixed_bfloat16")
    score = ka.AdditiveScore(3, use_bias=True, normalize=True, **policy)
    normalizer = ka.Softmax(temperature=0.5, **policy)
    return ka.AttentionDecoder(
        cell=[
            PlainCell(9, name="mine", **policy),
            layers.LSTMCell(UNITS, unit_forget_bias=False, **policy),
        ],
        attention=[
            ka.Attention(score, normalizer, dropout=0.25, seed=4, **policy),
            ka.Attention("general", "entmax15", **policy),
        ],
        order="luong",
        input_feeding=True,
        attention_units=[VECTOR, 2],
        attention_activation="relu",
        output_attention=False,
        name="speaker",
        **policy,
    )


def test_a_config_says_everything():
    decoder = unusual()
    config = decoder.get_config()
    again = ka.AttentionDecoder.from_config(json.loads(json.dumps(config)))
    assert again.get_config() == config
    defaults = ka.AttentionDecoder(layers.GRUCell(UNITS)).get_config()
    assert all(
        config[name] != value for name, value in defaults.items() if name != "trainable"
    )
    assert "Lambda" not in json.dumps(config)
    assert again.name == "speaker"
    assert again.dtype_policy.name == "mixed_bfloat16"
    assert again.attention[0].score.normalize
    data = inputs(), [memory(), normal(B, 3, 2)]
    decoder(*data)
    again(*data)
    again.set_weights(decoder.get_weights())
    close(everything(again, *data), everything(decoder, *data), atol=0)


@pytest.mark.parametrize("cell", CELLS)
def test_configs_of_all_cells(cell):
    decoder = ka.AttentionDecoder(CELLS[cell](), "general")
    again = ka.AttentionDecoder.from_config(decoder.get_config())
    decoder(inputs(), memory())
    again(inputs(), memory())
    again.set_weights(decoder.get_weights())
    close(again(inputs(), memory()), decoder(inputs(), memory()), atol=0)


def test_two_decoders_share_nothing():
    """One config makes layers with weights of their own."""
    config = ka.AttentionDecoder(layers.GRUCell(UNITS)).get_config()
    one, other = (ka.AttentionDecoder.from_config(config) for _ in range(2))
    one(inputs(), memory())
    other(inputs(), memory())
    assert len({id(w) for w in one.weights + other.weights}) == 2 * len(one.weights)


def stack_of_decoders():
    """Both orders, and one decoder used twice."""
    x, m = keras.Input((None, DX)), keras.Input((None, DM))
    outputs = []
    for arrangement in (MAIN[1], MAIN[2]):
        decoder = ka.AttentionDecoder(
            [layers.GRUCell(9), layers.LSTMCell(UNITS)],
            ka.Attention("additive", normalizer="sparsemax", units=3),
            attention_activation="relu",
            **arrangement,
        )
        outputs += tree.flatten(
            decoder(
                layers.Masking()(x),
                m,
                return_attention_scores=True,
                return_state=True,
            )
        )
    again = ka.AttentionDecoder(layers.SimpleRNNCell(UNITS), "general", order="luong")
    outputs += [again(x, m), again(outputs[0][..., :DX], m)]
    return keras.Model([x, m], outputs)


def test_clones_and_files(tmp_path, fresh_process):
    model = stack_of_decoders()
    randomise(model)
    data, _ = training_data()
    expected = [to_numpy(y) for y in model(data)]
    clone = keras.models.clone_model(model)
    assert [w.shape for w in clone.weights] == [w.shape for w in model.weights]
    clone.set_weights(model.get_weights())
    close(clone(data), expected, atol=1e-6)
    model.save(tmp_path / "m.keras")
    np.savez(tmp_path / "data.npz", *data)
    fresh_process(
        """
        import pathlib, numpy
        folder = pathlib.Path(sys.argv[1])
        data = numpy.load(folder / "data.npz")
        model = keras.models.load_model(folder / "m.keras")
        found = model([data[name] for name in data.files])
        found = [keras.ops.convert_to_numpy(y) for y in found]
        numpy.savez(folder / "found.npz", *found)
        """,
        tmp_path,
    )
    with np.load(tmp_path / "found.npz") as found:
        assert len(found.files) == len(expected)
        for name, desired in zip(found.files, expected, strict=True):
            np.testing.assert_allclose(found[name], desired, atol=1e-6)


def test_a_loaded_decoder_trains_on(tmp_path):
    model = training_model()
    model.compile(keras.optimizers.Adam(0.01), "mse", run_eagerly=True)
    data, targets = training_data()
    model.fit(data, targets, verbose=0)
    model.save(tmp_path / "m.keras")
    loaded = keras.models.load_model(tmp_path / "m.keras")
    loaded.run_eagerly = True
    assert [w.shape for w in loaded.weights] == [w.shape for w in model.weights]
    close(loaded.get_weights(), model.get_weights(), atol=0)
    for one in (model, loaded):
        one.fit(data, targets, verbose=0)
    close(loaded.get_weights(), model.get_weights(), atol=1e-6)


def test_inside_a_subclassed_model():
    class Translator(keras.Model):
        def __init__(self):
            super().__init__()
            self.decoder = ka.AttentionDecoder(layers.GRUCell(UNITS), order="luong")

        def call(self, data):
            return self.decoder(*data)

    model = Translator()
    model.compile("sgd", "mse", run_eagerly=True)
    model.fit([inputs(), memory()], normal(B, TQ, DM), verbose=0)
    found = model.predict([inputs(), memory()], verbose=0)
    close(found, model.decoder(inputs(), memory()))


@tensorflow_only
def test_case_13_served_where_this_package_is_not(tmp_path):
    """A decoder, and a greedy search with it, out of a SavedModel."""
    import tensorflow as tf

    ids = keras.Input((None,), dtype="int32"), keras.Input((None,), dtype="int32")
    words = layers.Embedding(7, DX, mask_zero=True)
    encoder = layers.Embedding(7, DM, mask_zero=True)
    decoder = ka.AttentionDecoder(
        layers.GRUCell(UNITS), attention_units=VECTOR, output_attention=True
    )
    speak = layers.Dense(7, kernel_initializer="random_normal")
    model = keras.Model(ids, speak(decoder(words(ids[0]), encoder(ids[1]))))
    randomise(model)

    def step(tokens, states, context):
        output, weights, states = decoder.step(words(tokens), states, context)
        return speak(output), weights, states

    @tf.function(input_signature=[tf.TensorSpec((None, None), tf.int32)])
    def translate(sources):
        batch = tf.shape(sources)[0]
        found = ka.greedy_search(
            step,
            decoder.get_initial_state(batch),
            tf.ones((batch,), tf.int32),
            2,
            max_length=6,
            context=decoder.prepare_memory(encoder(sources), sources != 0),
        )
        return {"tokens": found.tokens, "alignments": found.alignments}

    model.export(tmp_path / "forced", verbose=False)
    archive = keras.export.ExportArchive()
    archive.track(model)
    archive.add_endpoint("translate", translate)
    archive.write_out(tmp_path / "searched", verbose=False)
    targets, sources = IDS[:2, :3], SOURCES[:2]
    wider = np.pad(sources, [(0, 0), (0, 3)])
    np.savez(tmp_path / "data.npz", targets=targets, sources=sources, wider=wider)
    program = """
        import sys, numpy, tensorflow as tf
        folder = sys.argv[1]
        data = {k: v.astype("int32") for k, v in numpy.load(folder + "/data.npz").items()}
        forced = tf.saved_model.load(folder + "/forced")
        searched = tf.saved_model.load(folder + "/searched")
        found = {}
        for name in ("sources", "wider"):
            found[name] = forced.serve((data["targets"], data[name]))
            for key, y in searched.translate(data[name]).items():
                found[name + key] = y
        assert "keras_attention" not in sys.modules
        numpy.savez(folder + "/found.npz", **found)
    """
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", "if True:" + program, str(tmp_path)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    expected = model.predict([targets, sources], verbose=0)
    spoken = translate(tf.constant(sources, tf.int32))
    with np.load(tmp_path / "found.npz") as found:
        for name in ("sources", "wider"):
            close(found[name], expected)
            np.testing.assert_array_equal(found[name + "tokens"], spoken["tokens"])
            close(found[name + "alignments"][..., :5], spoken["alignments"])
            assert not found[name + "alignments"][..., 5:].any()
