"""Odd inputs and settings, over everything registered: each was wrong once."""

import contract
import keras
import numpy as np
import pytest
from contract import LAYERS
from keras import ops

import keras_attention as ka
from keras_attention import normalizers, scores
from keras_attention.models import Seq2Seq

RNG = np.random.default_rng(4)
CASES = [layer(score, "softmax") for layer in LAYERS.values() for score in scores.names()]


def random(*shape):
    return RNG.normal(size=shape).astype("float32")


def name_of(case):
    return f"{type(case).__name__}-{case.score}"


@pytest.mark.parametrize("case", CASES, ids=name_of)
def test_what_is_made_frozen_is_frozen_in_its_parts(case):
    layer, data = case.make(trainable=False), case.data()
    inputs = contract.symbolic(data)
    model = keras.Model(inputs, case.call(layer, inputs))
    assert model.trainable_variables == []
    assert not any(v.trainable for v in layer.variables)


@pytest.mark.parametrize("case", CASES, ids=name_of)
def test_integers_are_taken_as_numbers(case):
    layer = contract.built(case)
    data = {n: np.rint(3 * x).astype("int32") for n, x in case.data().items()}
    floats = {n: x.astype("float32") for n, x in data.items()}
    pairs = zip(case.call(layer, data), case.call(layer, floats), strict=True)
    for actual, expected in pairs:
        assert keras.backend.standardize_dtype(actual.dtype) == "float32"
        contract_close(actual, expected)


def contract_close(actual, expected):
    actual, expected = contract.to_numpy(actual), contract.to_numpy(expected)
    np.testing.assert_allclose(actual, expected, atol=1e-6)


@pytest.mark.parametrize("normalizer", normalizers.names())
@pytest.mark.parametrize(("batch", "keys"), [(0, 5), (2, 0)])
def test_nothing_there(normalizer, batch, keys):
    mask = np.ones((batch, keys), bool)
    layer = ka.Attention("scaled_dot", normalizer)
    output = layer(random(batch, 3, 4), random(batch, keys, 4), value_mask=mask)
    assert tuple(output.shape) == (batch, 3, 4)
    assert not contract.to_numpy(output).any()


@pytest.mark.parametrize("normalizer", normalizers.names())
@pytest.mark.parametrize("score", ["scaled_dot", "cosine", "additive", "trilinear"])
def test_what_later_steps_hold_leaves_causal_gradients_alone(score, normalizer):
    layer, good = ka.Attention(score, normalizer), random(2, 4, 5)
    bad = good.copy()
    bad[:, -1] = np.nan
    layer(good, good)

    def call(data):
        # The last row is the one that may see the last step: the loss leaves it out.
        return [layer(data["x"], data["x"], use_causal_mask=True)[:, :3]]

    ones = [np.ones((2, 3, 5), "float32")]
    (output,), found = contract.gradients(layer, call, {"x": bad}, ones)
    (expected,), wanted = contract.gradients(layer, call, {"x": good}, ones)
    np.testing.assert_allclose(output, expected, atol=1e-6)
    for name in wanted:
        np.testing.assert_allclose(found[name], wanted[name], atol=1e-5)


@pytest.mark.parametrize(("low", "length"), [(-1.05, 3000), (-1.9, 8000), (-0.75, 5000)])
def test_sparsemax_of_long_rows_with_equal_losers(low, length):
    scores_row = np.full((1, length), low, "float32")
    scores_row[0, 0] = 0
    weights = contract.to_numpy(ka.Sparsemax()(scores_row))[0]
    # All in: 1 = -t + (n - 1) (low - t); out when that leaves the losers nothing.
    threshold = ((length - 1) * low - 1) / length
    losers = max(low - threshold, 0) if low > -1 else 0.0
    np.testing.assert_allclose(weights[1:], losers, atol=1e-7)
    np.testing.assert_allclose(weights[0], 1 - (length - 1) * losers, atol=1e-4)
    assert not np.signbit(weights).any()


GRU, LSTM = keras.layers.GRUCell, keras.layers.LSTMCell
STACKS = {"gru": [GRU, GRU], "lstm": [LSTM, LSTM], "up": [LSTM, GRU], "down": [GRU, LSTM]}


@pytest.mark.parametrize("cells", STACKS.values(), ids=STACKS)
def test_a_stack_asks_with_its_uppermost_cell(cells):
    decoder = ka.AttentionDecoder([cell(4 + i) for i, cell in enumerate(cells)])
    memory = random(2, 6, 7)
    decoder(random(2, 3, 5), memory)
    memories, states = decoder.prepare_memory(memory), decoder.get_initial_state(2)
    inputs = random(2, 5)
    _, before, _ = decoder.step(inputs, states, memories)
    moved = [
        np.abs(contract.to_numpy(decoder.step(inputs, other, memories)[1] - before)).max()
        for other in one_state_moved(states)
    ]
    top = next(
        i for i, width in enumerate(keras.tree.flatten(states)) if width.shape[-1] == 5
    )
    assert [m > 1e-6 for m in moved] == [i == top for i in range(len(moved))]


def one_state_moved(states):
    flat = keras.tree.flatten(states)
    for i in range(len(flat)):
        move = ops.convert_to_tensor(random(*flat[i].shape))
        other = [x + move if i == j else x for j, x in enumerate(flat)]
        yield keras.tree.pack_sequence_as(states, other)


@pytest.mark.parametrize("dtype", ["float16", "mixed_float16"])
def test_a_cell_of_another_dtype_than_its_decoders(dtype):
    for order, feeding in (("bahdanau", False), ("luong", False), ("luong", True)):
        decoder = ka.AttentionDecoder(
            GRU(4), order=order, input_feeding=feeding, dtype=dtype
        )
        output = decoder(random(2, 3, 5), random(2, 6, 7))
        assert keras.backend.standardize_dtype(output.dtype) == "float16"


def test_lengths_in_small_integers():
    mask = ka.padding_mask(np.array([5, 100], "int8"), 300)
    assert ops.convert_to_numpy(mask).sum(axis=-1).tolist() == [5, 100]


def test_a_vector_of_zeros_can_be_normalized():
    score = ka.AdditiveScore(normalize=True, kernel_initializer="zeros")
    assert not contract.to_numpy(score(random(2, 3, 4), random(2, 5, 6))).any()


def test_signs_of_seq2seq_are_not_words():
    with pytest.raises(ValueError, match="<end>"):
        Seq2Seq(["a"], ["b", "<end>"])
    with pytest.raises(ValueError, match="'a' twice"):
        Seq2Seq(["a", "a"], ["b"])
    model = Seq2Seq(["a"], ["b"], embedding_dim=3, encoder_units=4)
    _, targets = model.encode_pairs(["a a"], ["b <end> b"])
    assert targets.tolist() == [[4, 1, 4, 3]]
    assert model.translate([]) == []
