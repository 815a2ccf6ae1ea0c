"""The numbers of TensorFlow Addons' seq2seq: decoders, searches, losses.

Computed by tensorflow-addons 0.23.0; the files say under "config_json" how. Where that
search counts its end token late, the arrays called `alt_...` hold what is right.
"""

import functools
import json
import re
from pathlib import Path

import keras
import numpy as np
import pytest
from contract import to_numpy
from keras import ops

import keras_attention as ka

DATA = Path(__file__).parent / "data"
WRAPPERS = sorted(path.stem for path in DATA.glob("k[45]_*.npz"))
BEAMS = sorted(path.stem for path in DATA.glob("k6_*.npz"))
# Numbers beside the expected ones: weights, inputs, and notes on how they were made.
GIVEN = {
    "memory",
    "memory_lengths",
    "memory_kernel",
    "query_kernel",
    "v",
    "g",
    "b",
    "scale",
    "attention_kernel",
    "cell_kernel",
    "cell_recurrent_kernel",
    "cell_bias",
    "h0",
    "c0",
    "inputs",
    "embedding",
    "output_kernel",
    "output_bias",
    "start_tokens",
}


def close(actual, desired):
    np.testing.assert_allclose(to_numpy(actual), desired, atol=1e-5, rtol=0)


def equal(actual, desired):
    np.testing.assert_array_equal(ops.convert_to_numpy(actual), desired)


class Fixture:
    """One file: its numbers, which of them were compared, and the layer it describes."""

    def __init__(self, name):
        with np.load(DATA / f"{name}.npz", allow_pickle=False) as stored:
            self.arrays = {key: stored[key] for key in stored.files}
        self.config = json.loads(str(self.arrays.pop("config_json")))
        self.left = {k for k in self.arrays if re.sub(r"^m\d_", "", k) not in GIVEN}
        mechanisms = self.config["mechanisms"]
        several = len(mechanisms) > 1
        self.prefixes = [f"m{i}_" if several else "" for i in range(len(mechanisms))]

    def __getitem__(self, name):
        """An expected array: it counts as compared."""
        self.left.discard(name)
        return self.arrays[name]

    def per_mechanism(self, name):
        return [self[prefix + name] for prefix in self.prefixes]

    @property
    def memory(self):
        memories = self.per_mechanism("memory")
        lengths = self.per_mechanism("memory_lengths")
        masks = [
            to_numpy(ka.padding_mask(n, m.shape[1])).astype(bool)
            for n, m in zip(lengths, memories, strict=True)
        ]
        several = len(masks) > 1
        return (memories, masks) if several else (memories[0], masks[0])

    @property
    def initial_state(self):
        return [self[name] for name in ("h0", "c0") if name in self.arrays]

    def decoder(self, output_attention=None):
        config = self.config
        make = {"LSTM": keras.layers.LSTMCell, "GRU": keras.layers.GRUCell}
        given = {k: config[k] for k in ("reset_after",) if k in config}
        attentions = [ka.Attention(_score(m)) for m in config["mechanisms"]]
        if output_attention is None:
            output_attention = config["output_attention"]
        decoder = ka.AttentionDecoder(
            make[config["cell"]](config["cell_units"], **given),
            attentions if len(attentions) > 1 else attentions[0],
            order="luong",
            input_feeding=True,
            attention_units=config["attention_layer_size"],
            attention_activation=None,
            output_attention=output_attention,
        )
        decoder.build(
            (None, None, config["input_depth"]),
            [m.shape for m in self.memory[0]]
            if len(attentions) > 1
            else self.memory[0].shape,
        )
        self._load(decoder, attentions)
        return decoder

    def _load(self, decoder, attentions):
        cell = [self["cell_kernel"], self["cell_recurrent_kernel"], self["cell_bias"]]
        decoder.cell.set_weights(cell)
        vectors = [v for v in decoder.weights if "attentional_vector" in v.path]
        if vectors:
            for vector, kernel in zip(
                vectors, self.per_mechanism("attention_kernel"), strict=True
            ):
                vector.assign(kernel)
        mechanisms = self.config["mechanisms"]
        for prefix, attention, mechanism in zip(
            self.prefixes, attentions, mechanisms, strict=True
        ):
            names = _weight_names(mechanism)
            variables = {v.name: v for v in attention.weights}
            assert set(variables) == set(names)
            for ours, theirs in names.items():
                array = self.arrays[prefix + theirs]
                variables[ours].assign(array.T if ours == "kernel" else array)


def _score(mechanism):
    if mechanism["score"] == "additive":
        normalize = mechanism["normalize"]
        return ka.AdditiveScore(mechanism["units"], use_bias=normalize, normalize=normalize)
    return ka.BilinearScore(use_scale=mechanism["scale"])


def _weight_names(mechanism):
    if mechanism["score"] == "dot":
        scale = {"scale": "scale"} if mechanism["scale"] else {}
        return {"kernel": "memory_kernel", **scale}
    names = {"query_kernel": "query_kernel", "key_kernel": "memory_kernel", "v": "v"}
    return names | ({"g": "g", "bias": "b"} if mechanism["normalize"] else {})


# Kinds 4 and 5: attention around a cell, teacher-forced.


def test_all_fixtures_are_here():
    assert len(WRAPPERS) == 10
    assert len(BEAMS) == 3


@pytest.mark.parametrize("name", WRAPPERS)
def test_wrapper(name):
    fixture = Fixture(name)
    memory, mask = fixture.memory
    found = fixture.decoder()(
        fixture["inputs"],
        memory,
        memory_mask=mask,
        initial_state=fixture.initial_state,
        return_attention_scores=True,
        return_state=True,
    )
    outputs, weights, states = found
    weights = weights if isinstance(weights, list) else [weights]
    close(outputs, fixture["outputs"])
    for one, expected in zip(
        weights, fixture.per_mechanism("alignment_history"), strict=True
    ):
        close(one, expected)
    last = [fixture[k] for k in ("h_final", "c_final") if k in fixture.arrays]
    last.append(fixture["attentions"][:, -1])
    for one, expected in zip(states, last, strict=True):
        close(one, expected)
    # The flag changes the output only, so that each of the two can be seen.
    for gives_vector, array in ((True, "attentions"), (False, "cell_outputs")):
        decoder = fixture.decoder(output_attention=gives_vector)
        outputs = decoder(
            fixture["inputs"],
            memory,
            memory_mask=mask,
            initial_state=fixture.initial_state,
        )
        close(outputs, fixture[array])
    assert not fixture.left


# Kinds 6 and 7: searches with a decoder and an output layer.


class Speaker:
    """The model of the searches: a decoder between an embedding and an output layer."""

    def __init__(self, fixture):
        self.fixture = fixture
        self.decoder = fixture.decoder()
        memory, mask = fixture.memory
        self.context = self.decoder.prepare_memory(ops.convert_to_tensor(memory), mask)
        states = [ops.convert_to_tensor(x) for x in fixture.initial_state]
        zeros = self.decoder.get_initial_state(len(memory))[len(states) :]
        self.states = [*states, *zeros]
        self.embedding = ops.convert_to_tensor(fixture["embedding"])

    def logits(self, outputs):
        kernel, bias = self.fixture["output_kernel"], self.fixture["output_bias"]
        return ops.matmul(outputs, kernel) + bias

    def step(self, tokens, states, context):
        inputs = ops.take(self.embedding, tokens, axis=0)
        outputs, weights, states = self.decoder.step(inputs, states, context)
        return self.logits(outputs), weights, states

    def beams(self, max_length):
        config = self.fixture.config
        return ka.beam_search(
            self.step,
            self.states,
            self.fixture["start_tokens"],
            config["end_token"],
            max_length=max_length,
            context=self.context,
            width=config["beam_width"],
            length_penalty=config["length_penalty_weight"],
            coverage_penalty=config["coverage_penalty_weight"],
        )


@functools.lru_cache(maxsize=1)
def speaker(name):
    return Speaker(Fixture(name))


@pytest.mark.parametrize("name", BEAMS)
def test_beam_search_finds_the_hypotheses(name):
    model = speaker(name)
    fixture, end = model.fixture, model.fixture.config["end_token"]
    found = model.beams(fixture.config["max_steps"])
    tokens = ops.convert_to_numpy(found.tokens)
    expected = fixture["alt_predicted_ids"].transpose(0, 2, 1)
    steps = expected.shape[-1]
    equal(tokens[..., :steps], expected)
    assert (tokens[..., steps:] == end).all()
    equal(found.lengths, fixture["alt_lengths"])
    close(found.log_probs, fixture["alt_log_probs"])
    equal((tokens == end).any(-1), fixture["alt_finished"])
    if fixture.config["same_hypotheses_if_end_token_always_counted"]:
        equal(tokens[..., :steps], fixture["predicted_ids"].transpose(0, 2, 1))
        equal(found.lengths, fixture["lengths"])
        close(found.log_probs, fixture["log_probs"])
        equal((tokens == end).any(-1), fixture["finished"])


@pytest.mark.parametrize("name", BEAMS)
def test_beam_search_keeps_the_hypotheses_alignments(name):
    model = speaker(name)
    found = model.beams(model.fixture.config["max_steps"])
    alignments = to_numpy(found.alignments)
    expected = model.fixture["alignment_history"]
    steps = expected.shape[2]
    close(alignments[:, :, :steps], expected)
    assert not alignments[:, :, steps:].any()
    if "coverage" in model.fixture.arrays:
        close(alignments.sum(2), model.fixture["coverage"])


@pytest.mark.parametrize("name", [n for n in BEAMS if "cov" not in n])
def test_beam_search_scores_each_step(name):
    """A search of at most t steps ends with the scores of step t."""
    model = speaker(name)
    expected = model.fixture["alt_scores"]
    for t in range(expected.shape[1]):
        close(model.beams(t + 1).scores, expected[:, t])


def test_beam_search_scores_with_coverage():
    """Addons leaves it out where a hypothesis ends in the last step; the rest is equal."""
    model = speaker("k6_beam_lp06_cov02")
    expected = model.fixture["alt_scores"]
    found = model.beams(model.fixture.config["max_steps"])
    early = model.fixture["alt_lengths"] < expected.shape[1]
    assert early.sum() == 5
    close(to_numpy(found.scores)[early], expected[:, -1][early])


def test_beam_search_takes_the_same_tokens_from_the_same_beams():
    """Without penalties the late end token changes nothing, step by step."""
    model = speaker("k6_beam_lp0")
    fixture = model.fixture
    close(fixture["scores"], fixture["alt_scores"])
    before = None
    for t in range(fixture["step_ids"].shape[1]):
        tokens = ops.convert_to_numpy(model.beams(t + 1).tokens)
        equal(tokens[..., t], fixture["step_ids"][:, t])
        if t:
            parents = fixture["parent_ids"][:, t, :, None]
            equal(tokens[..., :t], np.take_along_axis(before, parents, axis=1))
        before = tokens


def test_beam_search_looks_where_each_beam_looked():
    model = speaker("k6_beam_lp0")
    fixture = model.fixture
    for t in range(fixture["step_alignments"].shape[1]):
        found = model.beams(t + 1)
        looked = to_numpy(found.alignments)[:, :, t]
        parents = fixture["parent_ids"][:, t, :, None]
        expected = np.take_along_axis(fixture["step_alignments"][:, t], parents, axis=1)
        running = ops.convert_to_numpy(found.lengths) == t + 1
        assert running.any()
        close(looked[running], expected[running])
        assert not looked[~running].any()


def test_greedy_search():
    fixture = Fixture("k7_greedy")
    model = Speaker(fixture)
    found = ka.greedy_search(
        model.step,
        model.states,
        fixture["start_tokens"],
        fixture.config["end_token"],
        max_length=fixture.config["max_steps"],
        context=model.context,
    )
    expected = fixture["padded_ids"]
    tokens, steps = ops.convert_to_numpy(found.tokens), expected.shape[1]
    equal(tokens[:, :steps], expected)
    assert (tokens[:, steps:] == fixture.config["end_token"]).all()
    equal(found.lengths, fixture["lengths"])
    # What the oracle went on saying after the end shows its logits at those steps.
    spoken = fixture["sample_ids"]
    forced = np.concatenate([fixture["start_tokens"][:, None], spoken[:, :-1]], axis=1)
    memory, mask = fixture.memory
    outputs = model.decoder(
        ops.take(model.embedding, forced, axis=0),
        memory,
        memory_mask=mask,
        initial_state=fixture.initial_state,
    )
    close(model.logits(outputs), fixture["logits"])
    equal(ops.argmax(model.logits(outputs), axis=-1), spoken)
    assert not fixture.left


# Kind 8: the loss of sequences.

AVERAGES = {
    "avg_time_avg_batch": (("batch", "time"), "weights"),
    "avg_time": (("time",), "weights"),
    "avg_batch": (("batch",), "weights"),
    "sum_time_sum_batch": (("batch", "time"), "count"),
    "sum_time": (("time",), "count"),
    "sum_batch": (("batch",), "count"),
    "none": ((), "weights"),
}


@pytest.fixture(scope="module")
def losses():
    with np.load(DATA / "k8_sequence_loss.npz", allow_pickle=False) as stored:
        return {key: stored[key] for key in stored.files}


@pytest.mark.parametrize("weights", ["mask", "frac"])
@pytest.mark.parametrize("option", AVERAGES)
def test_sequence_loss(losses, option, weights):
    average, by = AVERAGES[option]
    found = ka.sequence_crossentropy(
        losses["targets"],
        losses["logits"],
        losses[f"weights_{weights}"],
        average=average,
        by=by,
    )
    expected = losses[f"loss_{weights}_{option}"]
    assert tuple(found.shape) == expected.shape
    close(found, expected)


def test_every_loss_is_compared(losses):
    names = {n for n in losses if n.startswith("loss_")}
    assert names == {f"loss_{w}_{o}" for o in AVERAGES for w in ("mask", "frac")}
