"""`Seq2Seq` and its searches: what it computes, texts, files, SavedModels."""

import itertools
import subprocess
import sys

import contract
import keras
import numpy as np
import pytest
from contract import to_numpy
from keras import layers, ops

import keras_attention as ka
from keras_attention.models import ImageCaptioner, Seq2Seq
from keras_attention.models.signs import END_ID, START_ID

BACKEND = keras.backend.backend()
tensorflow_only = pytest.mark.skipif(
    BACKEND != "tensorflow", reason="this is TensorFlow's own"
)
SOURCES, TARGETS = ["abca", "dä", "cab"], ["x y", "z", "y y x"]
DECODERS = {
    "gru": lambda: None,
    "lstms": lambda: ka.AttentionDecoder(
        [layers.LSTMCell(9), layers.LSTMCell(8)],
        "general",
        order="luong",
        input_feeding=True,
        attention_units=10,
    ),
}
BEAMS = dict(beam_width=3, length_penalty=0.7, coverage_penalty=0.3)


def small(decoder="gru", encoder_layers=2, **options):
    """An untrained model whose weights are large enough to say different things."""
    model = Seq2Seq(
        "abcdä",
        ["x", "y", "z", "ß"],
        DECODERS[decoder](),
        embedding_dim=5,
        encoder_units=6,
        encoder_layers=encoder_layers,
        source_split="characters",
        **options,
    )
    model.build()
    contract.randomise(model)
    return model


def numbers(found):
    return {name: ops.convert_to_numpy(x) for name, x in found.items()}


def same(found, expected):
    for name, array in numbers(expected).items():
        np.testing.assert_allclose(found[name], array, atol=1e-5, err_msg=name)


@pytest.mark.parametrize("decoder", DECODERS)
@pytest.mark.parametrize("encoder_layers", [1, 2])
def test_teacher_forcing_is_stepping(decoder, encoder_layers):
    model = small(decoder, encoder_layers)
    (source, before), _ = model.encode_pairs(SOURCES, TARGETS)
    forced, looked = model((source, before), return_attention_scores=True)
    memory, mask, states = model.encode(source)
    context = model.decoder.prepare_memory(memory, mask)
    states = model.decoder.complete_states(states, len(source))
    for t in range(before.shape[1]):
        tokens = ops.convert_to_tensor(before[:, t])
        logits, weights, states = model.step(tokens, states, context)
        real = before[:, t] != 0
        assert real.any()
        for one, all_steps in ((logits, forced), (weights, looked)):
            expected = to_numpy(all_steps)[:, t]
            np.testing.assert_allclose(to_numpy(one)[real], expected[real], atol=1e-5)


@pytest.mark.parametrize("decoder", DECODERS)
def test_padding_has_no_influence(decoder):
    model = small(decoder)
    (source, before), _ = model.encode_pairs(SOURCES, TARGETS)
    wider = np.pad(source, [(0, 0), (0, 3)]), np.pad(before, [(0, 0), (0, 2)])
    logits, weights = model((source, before), return_attention_scores=True)
    found, looked = model(wider, return_attention_scores=True)
    steps, places = before.shape[1], source.shape[1]
    real = before != 0
    for one, expected in ((found, logits), (looked[..., :places], weights)):
        one, expected = to_numpy(one)[:, :steps], to_numpy(expected)
        np.testing.assert_allclose(one[real], expected[real], atol=1e-5)
    assert not to_numpy(looked)[..., places:].any()


def test_it_learns_to_reverse():
    """`fit` by itself; the figures of its history are those of the texts it then says."""
    words = [
        "".join(word) for n in (1, 2, 3) for word in itertools.product("abc", repeat=n)
    ]
    sides = dict(source_split="characters", target_split="characters", seed=2)
    decoder = ka.AttentionDecoder(layers.GRUCell(32), "general", order="luong")
    model = Seq2Seq("abc", "abc", decoder, 16, 24, **sides)
    model.compile_for_training(keras.optimizers.Adam(0.02))
    pairs = model.encode_pairs(words, [word[::-1] for word in words])
    model.fit(*pairs, epochs=60, batch_size=39, verbose=0)
    figures = model.evaluate(*pairs, verbose=0, return_dict=True)
    said = model.translate(words, max_length=6)
    right = np.mean([one == word[::-1] for one, word in zip(said, words, strict=True)])
    assert figures["sequence_accuracy"] == pytest.approx(right, abs=1e-6)
    assert right > 0.5


@pytest.mark.parametrize("decoder", DECODERS)
def test_scheduled_sampling(decoder, tmp_path):
    """Rate 0 is teacher forcing, rate 1 follows the model; `fit` draws, inference never."""
    model = small(decoder, sampling_rate=0.5, seed=3)
    pairs, after = model.encode_pairs(SOURCES, TARGETS)
    forced, real = to_numpy(model(pairs)), pairs[1] != 0
    model.sampling.assign(0.0)
    found = to_numpy(model(pairs, training=True))
    np.testing.assert_allclose(found[real], forced[real], atol=1e-5)
    # A model sure of what it says draws what greedy search finds.
    kernel, bias = model.classifier.get_weights()
    silent = np.isin(np.arange(len(bias)), [0, START_ID])
    model.classifier.set_weights([1e3 * kernel, 1e3 * bias - 1e5 * silent])
    free = model.generate(pairs[0], max_length=pairs[1].shape[1])
    model.sampling.assign(1.0)
    found = to_numpy(model(pairs, training=True)).argmax(-1)
    written = np.arange(found.shape[1]) < free["lengths"]
    np.testing.assert_array_equal(found[written], free["tokens"][:, 0][written])
    model.classifier.set_weights([kernel, bias])
    model.sampling.assign(0.5)
    model.compile_for_training("adam")
    drawn = [to_numpy(model(pairs, training=True)) for _ in range(2)]
    assert np.abs(drawn[0] - drawn[1])[real].max() > 1e-2
    np.testing.assert_allclose(to_numpy(model(pairs)), forced, atol=1e-5)
    model.fit(pairs, after, verbose=0)
    model.save(tmp_path / "m.keras")
    loaded = keras.models.load_model(tmp_path / "m.keras")
    assert loaded.sampling_rate == float(loaded.sampling.value) == 0.5
    np.testing.assert_allclose(to_numpy(loaded(pairs)), to_numpy(model(pairs)), atol=1e-5)


def by_hand(model, source, function, max_length, **options):
    memory, mask, states = model.encode(source)

    def step(*state):
        logits, *others = model.step(*state)
        silent = np.isin(np.arange(logits.shape[-1]), [0, START_ID])
        return ops.where(silent, -np.inf, logits), *others

    found = function(
        step,
        model.decoder.complete_states(states, len(source)),
        np.full(len(source), START_ID),
        END_ID,
        max_length=max_length,
        context=model.decoder.prepare_memory(memory, mask),
        **options,
    )
    return found._asdict()


@pytest.mark.parametrize("options", [{}, BEAMS, {"sampling": True, "seed": 0}], ids=str)
def test_no_search_says_padding_or_a_start(options):
    model = small()
    kernel, bias = model.classifier.get_weights()
    bias[[0, START_ID]] += 50
    model.classifier.set_weights([kernel, bias])
    tokens = model.generate(model.encode_sources(SOURCES), max_length=6, **options)[
        "tokens"
    ]
    assert not np.isin(tokens, [0, START_ID]).any()


@pytest.mark.parametrize("decoder", DECODERS)
def test_generate_is_the_search(decoder):
    model = small(decoder)
    source = model.encode_sources(SOURCES)
    greedy = by_hand(model, source, ka.greedy_search, 6)
    greedy = {name: ops.expand_dims(x, 1) for name, x in greedy.items()}
    same(model.generate(source, max_length=6), greedy)
    width, *rest = BEAMS.values()
    penalties = dict(zip(list(BEAMS)[1:], rest, strict=True))
    beams = by_hand(model, source, ka.beam_search, 6, width=width, **penalties)
    # In batches of two and one, with padding of sources.
    wider = np.pad(source, [(0, 0), (0, 3)])
    found = model.generate(wider, max_length=6, batch_size=2, **BEAMS)
    places = source.shape[1]
    assert not found["alignments"][..., places:].any()
    found["alignments"] = found["alignments"][..., :places]
    same(found, beams)


def test_generate_draws():
    model = small()
    source = model.encode_sources(SOURCES * 9)
    options = dict(max_length=6, sampling=True, temperature=1.5)
    found = model.generate(source, seed=4, **options)
    seed = keras.random.SeedGenerator(4)
    drawn = by_hand(model, source, ka.sample, 6, seed=seed, temperature=1.5)
    same(found, {name: ops.expand_dims(x, 1) for name, x in drawn.items()})
    same(model.generate(source, seed=4, **options), found)
    free = [model.generate(source, **options)["tokens"] for _ in range(2)]
    assert (free[0] != free[1]).any()
    assert (free[0] != found["tokens"]).any()
    said = model.translate(SOURCES, sampling=True, seed=1, max_length=6)
    assert said == model.translate(SOURCES, sampling=True, seed=1, max_length=6)
    with pytest.raises(ValueError, match=r"beam_width=1 for sampling.*beam_width=2"):
        model.generate(source, 2, sampling=True)


@pytest.mark.skipif(BACKEND == "torch", reason="XLA is TensorFlow's and JAX's compiler")
@pytest.mark.parametrize("options", [{}, BEAMS], ids=["greedy", "beams"])
def test_a_compiled_search_is_the_plain_one(options):
    model = small()
    source = model.encode_sources(SOURCES)
    expected = model.generate(source, max_length=5, **options)
    searcher = model.searcher(max_length=5, min_length=0, **options)
    searcher.compile(jit_compile=True)
    same(searcher.predict(source, verbose=0), expected)


@pytest.mark.parametrize("decoder", DECODERS)
def test_a_file_translates_in_a_fresh_process(decoder, tmp_path, fresh_process):
    model = small(decoder, dropout=0.25, target_split="words", seed=3)
    model.save(tmp_path / "m.keras")
    printed = fresh_process(
        """
        model = keras.models.load_model(sys.argv[1])
        options = {"max_length": 6, "min_length": 2}
        texts = ["abca", "d\\xe4", "cab"]
        print(ascii(model.translate(texts, **options)))
        print(ascii(model.translate(texts, sampling=True, seed=1, **options)))
        print(ascii(model.translate(["abca", "d\\xe4"], beam_width=3, **options)))
        print(model.dropout, model.encoder_layers, model.seed)
        """,
        tmp_path / "m.keras",
    )
    options = {"max_length": 6, "min_length": 2}
    greedy = ascii(model.translate(SOURCES, **options))
    drawn = model.translate(SOURCES, sampling=True, seed=1, **options)
    beams = ascii(model.translate(SOURCES[:2], beam_width=3, **options))
    assert printed.splitlines() == [greedy, ascii(drawn), beams, "0.25 2 3"]
    assert len(set(drawn)) == 3


SERVE = """
import sys
sys.modules["keras"] = sys.modules["keras_attention"] = None  # not to be imported
import numpy, tensorflow as tf
folder, *names = sys.argv[1:]
source = numpy.load(folder + "/source.npy")
for name in names:
    served = tf.saved_model.load(folder + "/" + name)
    found = {key: y.numpy() for key, y in served.serve(source).items()}
    found["again"] = served.serve(source)["tokens"].numpy()
    found["first"] = served.serve(source[:1])["tokens"].numpy()
    numpy.savez(folder + "/" + name + ".npz", **found)
"""


def served(searchers, source, folder):
    """What SavedModels of searches find, where neither Keras nor this package is."""
    for name, searcher in searchers.items():
        searcher.export(folder / name, verbose=False)
    np.save(folder / "source.npy", source)
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", SERVE, str(folder), *searchers],
        cwd=folder,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return {name: dict(np.load(folder / f"{name}.npz")) for name in searchers}


@tensorflow_only
def test_case_13_searches_served_where_this_package_is_not(tmp_path):
    """Exported before any call; for other numbers and lengths of sources."""
    model = small()
    source = model.encode_sources(SOURCES)
    greedy, beams = {"max_length": 6, "min_length": 1}, {"max_length": 6, **BEAMS}
    drawn = {"max_length": 6, "sampling": True, "top_k": 6}
    searchers = {
        "greedy": model.searcher(**greedy),
        "beams": model.searcher(**beams),
        "drawn": model.searcher(**drawn),
    }
    wide = np.pad(np.tile(source, (7, 1)), [(0, 0), (0, 2)])
    found = served(searchers, wide, tmp_path)
    places = source.shape[1]
    for name, options in (("greedy", greedy), ("beams", beams)):
        one = found[name]
        np.testing.assert_array_equal(one.pop("again"), one["tokens"])
        np.testing.assert_array_equal(one.pop("first"), one["tokens"][:1])
        one["alignments"] = one["alignments"][..., :places]
        same({key: y[:3] for key, y in one.items()}, model.generate(source, **options))
    one = found["drawn"]
    assert (one["again"] != one["tokens"]).any()
    before = np.insert(one["tokens"][:, 0, :-1], 0, START_ID, axis=1)
    logits = to_numpy(model((wide, before))).copy()
    logits[..., [0, START_ID]] = -np.inf  # which no search says
    log_probs = to_numpy(ops.log_softmax(logits))
    log_probs = np.take_along_axis(log_probs, one["tokens"][:, 0, :, None], -1)[..., 0]
    written = np.arange(6) < one["lengths"]
    said = (log_probs * written).sum(1)
    np.testing.assert_allclose(said, one["log_probs"][:, 0], atol=1e-4)


@tensorflow_only
def test_a_captioners_search_is_served(tmp_path):
    model = ImageCaptioner(["a", "red", "square"], image_shape=(24, 36, 3), units=16)
    model.build()
    images = np.random.default_rng(0).integers(0, 256, (2, 24, 36, 3)).astype("float32")
    found = served({"beams": model.searcher(2, 5)}, images, tmp_path)["beams"]
    del found["again"], found["first"]
    same(found, model.generate(images, 2, 5))


@tensorflow_only
def test_one_graph_for_all_lengths(monkeypatch):
    model, traces = small(), []
    step = model.step

    def counted(*arguments):
        traces.append(arguments)
        return step(*arguments)

    monkeypatch.setattr(model, "step", counted)
    for length in range(1, 8):
        model.generate(np.full((3, length), 4), max_length=5)
    assert len(traces) <= 6  # twice in a search: its first step tells sizes


def test_what_does_not_fit_is_refused():
    with pytest.raises(ValueError, match=r"split of.*'letters'"):
        Seq2Seq("ab", "ab", source_split="letters")
    dropping = ka.AttentionDecoder(layers.GRUCell(4, recurrent_dropout=0.5))
    with pytest.raises(ValueError, match=r"without dropout.*recurrent_dropout=0\.5"):
        Seq2Seq("ab", "ab", dropping, sampling_rate=0.1)
    model = small()
    with pytest.raises(ValueError, match="3 sources and 2 targets"):
        model.encode_pairs(SOURCES, TARGETS[:2])
    with pytest.raises(ValueError, match=r"list of texts\. Received: 'abc'"):
        model.translate("abc")
    with pytest.raises(ValueError, match="beam_width"):
        model.translate(["abc"], beam_width=0)
