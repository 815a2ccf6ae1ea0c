"""Shaded words, in the terminal and as pictures."""

import re
import sys

import keras
import numpy as np
import pytest

from keras_attention import visualization
from keras_attention.visualization import (
    plot_document,
    plot_words,
    shade_document,
    shade_words,
)
from keras_attention.visualization.terminal import SHADES

pyplot = pytest.importorskip("matplotlib.pyplot")

ESCAPE = re.compile(r"\x1b\[[0-9;]*m")
SHADED = re.compile(r"\x1b\[48;5;(\d+)m\x1b\[38;5;(\d+)m(.*?)\x1b\[0m")
FIVE = ["a", "truly", "moving", "film", "!"]
WEIGHTS = [0.02, 0.25, 0.6, 0.1, 0.03]
LONG = [f"word{i}" for i in range(60)]


@pytest.fixture(autouse=True)
def close_figures():
    yield
    pyplot.close("all")


def long_weights(n=60):
    weights = np.random.default_rng(0).dirichlet(np.full(n, 0.3))
    return weights / weights.sum()


def luminance(color):
    """Of one of xterm's 216 colours, as WCAG 2 defines it."""
    steps = np.array([0, 95, 135, 175, 215, 255]) / 255
    rgb = steps[[(color - 16) // 36, (color - 16) // 6 % 6, (color - 16) % 6]]
    linear = np.where(rgb <= 0.03928, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    return linear @ [0.2126, 0.7152, 0.0722]


# The terminal


def test_plain_text_has_weights_behind_words():
    text = shade_words(FIVE, [0.001, 0.25, 0.6, 0.1, 0.049], color=False)
    assert text == "a truly(0.25) moving(0.60) film(0.10) !(0.05)"


def test_colors_follow_weights():
    text = shade_words(FIVE, WEIGHTS, color=True)
    assert ESCAPE.sub("", text) == "a truly moving film !"
    shades = [shade and shade[0] for shade in SHADES]
    found = {word: shades.index(int(back)) for back, _, word in SHADED.findall(text)}
    assert found["moving"] == len(SHADES) - 1
    assert found["moving"] > found["truly"] > found["film"] > 0
    assert "a" not in found


def test_shades_get_darker_and_can_be_read():
    backgrounds = [luminance(back) for back, _ in SHADES[1:]]
    assert backgrounds == sorted(backgrounds, reverse=True)
    for back, front in SHADES[1:]:
        low, high = sorted([luminance(back), luminance(front)])
        assert (high + 0.05) / (low + 0.05) >= 4.5


@pytest.mark.parametrize("color", [True, False])
def test_wraps_between_words(color):
    lines = shade_words(LONG, long_weights(), color=color, width=40).split("\n")
    plain = [ESCAPE.sub("", line) for line in lines]
    assert max(map(len, plain)) <= 40
    assert re.sub(r"\([\d.]+\)", "", " ".join(plain)).split() == LONG


def test_wrapping_counts_wide_characters_twice():
    assert shade_words(["电影"] * 4, [0] * 4, width=9) == "电影 电影\n电影 电影"


def test_a_word_longer_than_the_line_stands_alone():
    assert shade_words(["a", "x" * 30, "b"], [0, 0, 0], width=10) == (
        "a\n" + "x" * 30 + "\nb"
    )


def test_color_needs_a_terminal(monkeypatch):
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    assert "\x1b[" in shade_words(FIVE, WEIGHTS)
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[" not in shade_words(FIVE, WEIGHTS)
    monkeypatch.delenv("NO_COLOR")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: False, raising=False)
    assert "\x1b[" not in shade_words(FIVE, WEIGHTS)


def test_tokens_cannot_command_the_terminal():
    text = shade_words(["\x1b[31mred", "two\nlines", "a\tb"], [0, 0, 0], color=False)
    assert "\x1b" not in text
    assert "\n" not in text
    assert "\t" not in text


def test_document_in_the_terminal():
    text = shade_document(
        [["It", "rained"], [], ["Great", "!"]],
        np.array([[0.5, 0.5, 0], [0, 0, 0], [0.9, 0.1, 0]]),
        [0.2, 0, 0.8],
        color=False,
    )
    assert text == "0.20  It(0.50) rained(0.50)\n0.00\n0.80  Great(0.90) !(0.10)"


def test_document_shades_words_by_both_weights():
    text = shade_document([["x"], ["y"]], [[1], [1]], [0.04, 0.96], color=True)
    (light, _, x), (dark, _, y) = SHADED.findall(text)
    assert (x, y) == ("x", "y")
    assert luminance(int(light)) > luminance(int(dark))


def test_document_wraps_behind_the_sentence_weights():
    lines = shade_document([LONG[:20]], [[0] * 20], [1], width=40).split("\n")
    assert lines[0].startswith("1.00  word0")
    assert all(line.startswith("      word") for line in lines[1:])
    assert max(map(len, lines)) <= 40


def test_nothing_to_show():
    assert shade_words([], []) == ""
    assert shade_document([], [], []) == ""
    assert shade_words(["a", "b"], [0, 0], color=True) == "a b"


# What is accepted


def test_weights_of_padding_are_left_out():
    assert shade_words(["a"], [1.0, 0.0, 0.0]) == "a(1.00)"
    assert shade_document([["a"]], [[1, 0], [0, 0]], [1, 0]) == "1.00  a(1.00)"


def test_weights_of_a_layer_are_accepted():
    weights = keras.ops.convert_to_tensor(WEIGHTS, "float16")
    assert "moving(0.60)" in shade_words(FIVE, weights)


@pytest.mark.parametrize(
    ("tokens", "weights", "message"),
    [
        (["a", "b"], [1.0], "2 words and 1 weights"),
        (["a"], [0.5, 0.5], "behind the last word"),
        (["a"], [[1.0]], r"along one axis.*\(1, 1\)"),
        (["a"], [np.nan], "finite"),
        (["a"], [np.inf], "finite"),
        (["a"], [-0.1], "negative"),
        ("ab", [0.5, 0.5], "list of words"),
    ],
)
@pytest.mark.parametrize("function", [shade_words, plot_words])
def test_weights_that_do_not_fit(function, tokens, weights, message):
    with pytest.raises(ValueError, match=f"(?s){message}"):
        function(tokens, weights)


@pytest.mark.parametrize(
    ("sentences", "words", "weights", "message"),
    [
        ([["a"], ["b"]], [[1], [1]], [1.0], "2 sentences, 1 weights and 2 rows"),
        ([["a"], ["b"]], [[1]], [0.5, 0.5], "2 sentences, 2 weights and 1 rows"),
        ([["a"]], [[1], [1]], [0.5, 0.5], "weights of 0 behind the last"),
        ([["a", "b"]], [[1]], [1.0], "2 words and 1 weights"),
        (["ab"], [[1, 1]], [1.0], "list of lists"),
    ],
)
@pytest.mark.parametrize("function", [shade_document, plot_document])
def test_documents_that_do_not_fit(function, sentences, words, weights, message):
    with pytest.raises(ValueError, match=message):
        function(sentences, words, weights)


# Pictures


def boxes(ax):
    """Every box on `ax` in pixels."""
    ax.figure.canvas.draw()
    return [patch.get_window_extent() for patch in ax.patches]


def overlap(one, other):
    return (
        min(one.x1, other.x1) - max(one.x0, other.x0) > 0.1
        and min(one.y1, other.y1) - max(one.y0, other.y0) > 0.1
    )


def assert_readable(ax, words):
    """Every word stands in its box, no boxes overlap, and the letters stand out."""
    found = boxes(ax)
    placed = [text for text in ax.texts if text.get_text() in words]
    assert [text.get_text() for text in placed] == words
    assert not any(
        overlap(one, other) for i, one in enumerate(found) for other in found[:i]
    )
    for text in placed:
        extent = text.get_window_extent()
        inside = [box for box in found if overlap(box, extent)]
        assert len(inside) == 1
        assert inside[0].x0 < extent.x0
        assert extent.x1 < inside[0].x1
        assert text.get_fontsize() >= 6
        assert ax.figure.bbox.contains(extent.x0, extent.y0)
        assert ax.figure.bbox.contains(extent.x1, extent.y1)


@pytest.mark.parametrize(("words", "weights"), [(FIVE, WEIGHTS), (LONG, long_weights())])
@pytest.mark.parametrize("values", [True, False])
def test_picture_is_readable(words, weights, values):
    ax = plot_words(words, weights, values=values)
    assert_readable(ax, words)


@pytest.mark.parametrize("size", [(4, 4), (8, 4), (12, 3)])
def test_picture_fits_axes_that_are_there(size):
    figure, (left, right) = pyplot.subplots(1, 2, figsize=size)
    assert plot_words(FIVE, WEIGHTS, ax=left) is left
    assert plot_words(LONG[:40], long_weights(40), ax=right) is right
    assert_readable(left, FIVE)
    assert_readable(right, LONG[:40])
    assert len(pyplot.get_fignums()) == 1
    assert figure.axes == [left, right]


def test_darkest_box_is_the_largest_weight():
    ax = plot_words(FIVE, WEIGHTS, title="positive, 93%")
    brightness = [sum(patch.get_facecolor()[:3]) for patch in ax.patches]
    assert np.argsort(brightness).tolist() == np.argsort(WEIGHTS)[::-1].tolist()
    letters = {text.get_text(): text.get_color() for text in ax.texts}
    assert letters["moving"] == "white"
    assert letters["a"] == "black"
    assert "0.60" in letters
    assert ax.get_title("left") == "positive, 93%"


def test_dollars_are_not_mathematics():
    ax = plot_words(["$a", "b$", "_{"], [1, 0, 0], title="$5 and $6")
    ax.figure.canvas.draw()
    assert [text.get_parse_math() for text in [*ax.texts, ax.title]] == [
        *[False] * 6,
        True,
    ]


def test_document_picture():
    sentences = [LONG[:25], FIVE, [], ["A", "remarkably" * 4]]
    weights = np.zeros((4, 30))
    for row, sentence in zip(weights, sentences, strict=True):
        row[: len(sentence)] = 1 / max(len(sentence), 1)
    ax = plot_document(sentences, weights, [0.1, 0.6, 0, 0.3], title="A review")
    words = [word for sentence in sentences for word in sentence]
    assert_readable(ax, words)
    assert len(ax.patches) == len(words) + len(sentences)
    leads = [text.get_text() for text in ax.texts if text.get_text() not in words]
    assert leads == ["0.10", "0.60", "0.00", "0.30"]


def test_empty_pictures():
    for ax in [plot_words([], []), plot_document([], [], [])]:
        ax.figure.canvas.draw()
        assert len(ax.patches) == 0


def test_save_plot_writes_and_closes(tmp_path):
    ax = plot_words(FIVE, WEIGHTS)
    visualization.save_plot(ax, tmp_path / "words.png")
    assert (tmp_path / "words.png").read_bytes().startswith(b"\x89PNG")
    assert pyplot.get_fignums() == []


def test_missing_matplotlib_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(ImportError, match=r"keras-attention-layers\[plot\]"):
        plot_words(FIVE, WEIGHTS)


def test_terminal_works_without_matplotlib(fresh_process):
    program = """
        import importlib
        sys.modules["matplotlib"] = None
        names = [n for n in sys.modules if n.startswith("keras_attention.visual")]
        for name in names:
            del sys.modules[name]
        visualization = importlib.import_module("keras_attention.visualization")
        print(visualization.shade_words(["good"], [1]))
    """
    assert fresh_process(program) == "good(1.00)\n"
