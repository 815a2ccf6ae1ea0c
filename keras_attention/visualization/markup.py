"""Words shaded by their weights, as HTML for a notebook or a page."""

import html
from pathlib import Path

from keras_attention.visualization.words import document_of, line_of

# Blue and orange of a lightness on which black and white letters are read alike; how much
# of it there is says the weight. So it fits a light page and a dark one.
_BLUE, _ORANGE, _MOST = "38, 115, 204", "180, 105, 14", 0.65
_BOX = "border-radius: 0.25em; padding: 0.1em 0.25em; overflow-wrap: anywhere"
# A sentence's further rows begin below its words, not below its weight.
_HANGING = "padding-inline-start: 2.7em; text-indent: -2.7em; margin-top: 0.2em"
_PAGE = """<!DOCTYPE html>
<html>
<head>
<meta charset="utf-8">
<title>Attention</title>
<style>:root {{ color-scheme: light dark; font: 16px sans-serif }}</style>
</head>
<body>{}</body>
</html>
"""


class ShadedText(str):
    """HTML that a notebook shows: a string, to be put into any page.

    Args:
        object: The HTML.

    >>> ShadedText("<p>words</p>")._repr_html_()
    '<p>words</p>'
    """

    __slots__ = ()

    def save_html(self, path) -> None:
        """Writes a whole page with nothing else in it, which loads nothing else."""
        Path(path).write_text(_PAGE.format(self), "utf-8")

    def _repr_html_(self) -> str:
        return str(self)


def words_html(tokens, weights, *, title: str | None = None) -> ShadedText:
    """Words, each shaded by its weight, as HTML: what `shade_words` is for a terminal.

    The darkest shade, on a dark page the brightest, is the largest weight. A weight is
    read where the pointer rests on a word.

    Args:
        tokens: The words, a list of strings.
        weights: One weight per word. More weights than words are accepted if the
            surplus, the padding's weights, is 0.
        title: A line above the words.

    Returns:
        A `ShadedText`: the last line of a notebook cell shows it, and
        `.save_html("words.html")` writes it into a file.

    Raises:
        ValueError: If weights and tokens do not fit each other.

    >>> shaded = words_html(["so", "<good>"], [0.2, 0.8])
    >>> "&lt;good&gt;" in shaded
    True
    """
    line = line_of(tokens, weights)
    return _document(title, [f'<div dir="auto">{_row(line)}</div>'])


def document_html(
    sentences, word_weights, sentence_weights, *, title: str | None = None
) -> ShadedText:
    """Sentences below each other, led by their weights, as HTML.

    Words are shaded as by `shade_document`.

    Args:
        sentences: A list of lists of words.
        word_weights: One row of weights per sentence: a list of lists, or an array
            `(sentences, words)` padded with 0.
        sentence_weights: One weight per sentence.
        title: A line above the sentences.

    Returns:
        A `ShadedText`, as `words_html` does.

    Raises:
        ValueError: If weights and sentences do not fit each other.

    >>> shaded = document_html([["Long"], ["So", "good"]], [[1, 0], [0, 1]], [0.2, 0.8])
    >>> shaded.count("<span"), "0.80" in shaded
    (5, True)
    """
    lines = document_of(sentences, word_weights, sentence_weights)
    rows = []
    for line in lines:
        lead = _shaded(f"{line.weight:.2f}", line.weight, line.shade, _ORANGE)
        rows.append(f'<div dir="auto" style="{_HANGING}">{lead} {_row(line)}</div>')
    return _document(title, rows)


def _document(title, rows) -> ShadedText:
    head = f"<div><b>{html.escape(title)}</b></div>" if title else ""
    style = "line-height: 1.9; max-width: 60em"
    return ShadedText(f'<div style="{style}">{head}{"".join(rows)}</div>')


def _row(line) -> str:
    words = zip(line.tokens, line.weights, line.shades, strict=True)
    return " ".join(_shaded(word, weight, shade, _BLUE) for word, weight, shade in words)


def _shaded(token: str, weight: float, shade: float, color: str) -> str:
    background = f"background: rgba({color}, {_MOST * shade:.3f})"
    return (
        f'<span style="{background}; {_BOX}" title="{weight:.2f}">'
        f"{html.escape(token)}</span>"
    )
