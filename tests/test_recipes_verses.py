"""The recipe of the translating model, and the measures of translations."""

import json
import math
import sys

import keras
import numpy as np
import pytest
from conftest import ROOT

from benchmarks import verses_scores
from keras_attention import recipes
from keras_attention.datasets import verses as data
from keras_attention.models.seq2seq import Seq2Seq
from keras_attention.recipes import translation, verses

WORDS = {"uno": "one", "dos": "two", "tres": "three", "cuatro": "four", ",": ","}
FIGURES = [
    "bleu",
    "bleu_beam5",
    "alignment_accuracy",
    "alignment_diagonal",
    "alignment_error_rate",
]


@pytest.fixture(scope="module")
def parts():
    """Made-up verses, translated word for word."""
    generator = np.random.default_rng(0)

    def verse():
        source = [str(w) for w in generator.choice(list(WORDS), generator.integers(2, 7))]
        pairs = frozenset((place, place) for place in range(len(source)))
        return data.Verse(source, [WORDS[word] for word in source], pairs, pairs)

    return [[verse() for _ in range(count)] for count in (40, 5, 7)]


@pytest.fixture
def installed(parts, monkeypatch):
    monkeypatch.setattr(data, "load", lambda: parts)
    monkeypatch.setattr(data, "load_test", lambda: parts[2])
    create = verses.create
    monkeypatch.setattr(verses, "create", lambda *given: create(*given, 6, 5))


@pytest.fixture(scope="module")
def untrained(tmp_path_factory):
    """The folder of a tiny model that has learnt nothing."""
    keras.utils.set_random_seed(0)
    folder = tmp_path_factory.mktemp("untrained")
    model = verses.create(list(WORDS), list(WORDS.values()), "bilinear", 6, 5)
    model.save(folder / verses.FILE)
    return folder


def test_unknown_words_are_copied():
    weights = np.array([[0.1, 0.9], [0.8, 0.2], [0.3, 0.7]])
    said = translation.copy_unknown(["a", "b"], ["x", "<unknown>", "<unknown>"], weights)
    assert said == ["x", "a", "b"]


def test_bleu_is_the_formula():
    pytest.importorskip("sacrebleu")
    said, right = ["the cat sat on a mat .".split()], ["the cat sat on the mat .".split()]
    # Of 1 to 4 tokens in a row, these stand in the other: 6 of 7, 4 of 6, 2 of 5, 1 of 4.
    expected = 100 * (6 / 7 * 4 / 6 * 2 / 5 * 1 / 4) ** 0.25
    assert translation.bleu(said, right) == pytest.approx(expected, abs=0.01)
    assert translation.bleu(right, right) == 100
    shorter = 100 * math.exp(1 - 7 / 5)
    assert translation.bleu([right[0][:5]], right) == pytest.approx(shorter, abs=0.01)


def test_bleu_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "sacrebleu", None)
    with pytest.raises(ImportError, match=r"keras-attention-layers\[translate\]"):
        translation.bleu([["a"]], [["a"]])


def test_perplexity_is_that_of_the_probabilities():
    model = Seq2Seq(["a"], ["x", "y", "z"], embedding_dim=3, encoder_units=2)
    pairs = model.encode_pairs(["a a", "a"], ["x y", "z"])
    logits = keras.ops.convert_to_numpy(model(pairs[0]))
    logs = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    real = [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1)]
    expected = math.exp(-np.mean([logs[b, t, pairs[1][b, t]] for b, t in real]))
    for size in (1, 2):
        found = translation.perplexity(model, pairs, batch_size=size)
        assert found == pytest.approx(expected, rel=1e-5)


def test_alignment_figures_are_those_worked_by_hand():
    places = [[0, 2, 1, 0], [1]]
    links = [{(0, 0), (1, 1), (2, 1), (2, 2)}, {(0, 0), (0, 1)}]
    sure = [{(0, 0), (1, 1)}, set()]
    # Guesses for words with a link: (0, 0) (1, 2) (2, 1) and (0, 1); three are linked.
    assert translation.alignment_accuracy(places, links) == 75
    # One guess is sure, three are possible, of four guesses and two sure links.
    expected = 100 * (1 - (1 + 3) / (4 + 2))
    assert translation.alignment_error_rate(places, sure, links) == round(expected, 2)
    assert translation.alignment_accuracy([[0]], [set()]) == 0


def test_diagonal_stays_within():
    for source in range(1, 9):
        for target in range(1, 9):
            places = translation.diagonal_places(source, target)
            assert len(places) == target
            assert places == sorted(places)
            assert (places[0], places[-1]) >= (0, 0)
            assert places[-1] < source
    assert translation.diagonal_places(3, 3) == [0, 1, 2]


def test_places_are_those_of_the_largest_weights(untrained, parts):
    model = keras.models.load_model(untrained / verses.FILE)
    pairs = verses.encode(model, parts[2])
    _, weights = model(pairs[0], return_attention_scores=True)
    expected = keras.ops.convert_to_numpy(weights).argmax(-1)
    for size in (2, 100):
        places = translation.attention_places(model, pairs, batch_size=size)
        np.testing.assert_array_equal(places, expected)


def test_training_leaves_a_model_and_its_description(installed, tmp_path):
    pytest.importorskip("sacrebleu")
    figures = verses.train(tmp_path / "out", ((6, 1), (None, 1)), verbose=0)
    names = sorted(file.name for file in (tmp_path / "out").iterdir())
    assert names == ["verses.json", "verses.keras"]
    description = recipes.describe("verses", tmp_path / "out")
    assert description["figures"] == figures
    assert list(figures) == FIGURES
    assert figures["alignment_diagonal"] == 100
    assert "40 to train, 5 for validation, 7 to test (Judges" in description["data"]
    model = keras.models.load_model(tmp_path / "out" / "verses.keras")
    assert not model.compiled
    assert set(model.source_vocabulary) == set(WORDS)
    again = verses.evaluate(directory=tmp_path / "out")
    assert again == figures


def test_evaluation_takes_the_first_verses(installed, untrained, monkeypatch):
    asked = []
    monkeypatch.setattr(verses, "measure", lambda _, part: asked.append(len(part)))
    verses.evaluate(limit=3, directory=untrained)
    verses.evaluate(directory=untrained)
    assert asked == [3, 7]


def test_show_prints_and_plots(untrained, capsys, tmp_path):
    files = dict(plot=tmp_path / "verse.png", html=tmp_path / "verse.html")
    verses.show("¡Dos, TRES!", **files, directory=untrained)
    first, *rows = capsys.readouterr().out.splitlines()
    # Tall heads: as many lines as the longest Spanish word has letters.
    heads = ["t", "d r", "o e", "¡ s , s !"]
    assert [row.split() for row in rows[:4]] == [head.split() for head in heads]
    assert [row.split()[0] for row in rows[4:]] == first.split()
    assert (tmp_path / "verse.png").read_bytes().startswith(b"\x89PNG")
    assert '"tres"' in (tmp_path / "verse.html").read_text("utf-8")


def test_show_refuses_what_has_no_word(untrained):
    with pytest.raises(ValueError, match="text with words"):
        verses.show(" ", directory=untrained)


@pytest.mark.skipif(
    not (ROOT / "saved_models" / verses.FILE).exists(), reason="needs the shipped model"
)
def test_the_shipped_model_translates():
    file = ROOT / "saved_models" / verses.FILE
    assert file.stat().st_size < 5_000_000
    model = keras.models.load_model(file)
    (said,) = model.translate(["Y Jesús le dijo:"], max_length=12)
    assert said.startswith("then jesus answered him ,")
    figures = json.loads(file.with_suffix(".json").read_text())["figures"]
    assert list(figures) == FIGURES
    assert figures["alignment_accuracy"] > figures["alignment_diagonal"]


def test_scores_are_compared(installed, monkeypatch, capsys):
    pytest.importorskip("sacrebleu")
    learn = []
    monkeypatch.setattr(verses, "learn", lambda *given, **_: learn.append(given))
    figures = dict.fromkeys(FIGURES, 12.34)
    monkeypatch.setattr(verses, "measure", lambda model, part: figures)
    long, short = (data.Verse(["v"] * n, ["w"], set(), set()) for n in (4, 3))
    monkeypatch.setattr(data, "load", lambda folder: [[long, short, short, short]] * 3)
    arguments = ["--epochs", "2", "--limit", "2", "--longest", "3"]
    verses_scores.main([*arguments, "--scores", "dot,concat"])
    printed = capsys.readouterr().out.splitlines()
    assert [given[2:] for given in learn] == [
        (((None, 2),), "dot"),
        (((None, 2),), "concat"),
    ]
    assert [given[0][0] for given in learn] == [[short] * 2] * 2
    assert [line.split()[:3] for line in printed[2:4]] == [
        ["dot", "12.3", "12.3"],
        ["concat", "12.3", "12.3"],
    ]
    assert printed[4].endswith("alignment 12.3")
