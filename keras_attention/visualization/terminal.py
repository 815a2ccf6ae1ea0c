"""Words shaded by their weights, as text for a terminal."""

import os
import shutil
import sys

from keras_attention.visualization.words import Line, cells, document_of, line_of, wrap

# One hue from light to dark, so that it reads the same for every kind of colour
# vision: (background, letters) in xterm's 256 colours. The first is "not shaded".
SHADES = [None, (189, 16), (153, 16), (117, 16), (75, 16), (32, 16), (25, 231)]
# "0.31  ", before each sentence.
_INDENT = 6


def shade_words(
    tokens, weights, *, color: bool | None = None, width: int | None = None
) -> str:
    """Words on one string, each shaded by its weight, for a terminal.

    The darkest shade is the largest weight. Without colours the weight stands
    behind the word, `good(0.61)`; a weight that rounds to 0.00 is left out.

    Args:
        tokens: The words, a list of strings.
        weights: One weight per word. More weights than words are accepted if the
            surplus, the padding's weights, is 0.
        color: Whether to use colours. `None` means: if standard output is a
            terminal and the environment variable `NO_COLOR` is not set.
        width: Columns to wrap at, between words. `None` means the terminal's.

    Returns:
        A string without a line break at its end.

    Raises:
        ValueError: If weights and tokens do not fit each other.

    >>> print(shade_words(["a", "really", "good", "film"], [0, 0.25, 0.61, 0.14]))
    a really(0.25) good(0.61) film(0.14)
    """
    return _shade(line_of(tokens, weights), color, width or _terminal_width())


def shade_document(
    sentences,
    word_weights,
    sentence_weights,
    *,
    color: bool | None = None,
    width: int | None = None,
) -> str:
    """Sentences below each other, led by their weights, for a terminal.

    Words are shaded by `sqrt(sentence weight) * word weight`, so that a word stands
    out if it matters in a sentence that matters (Yang et al. 2016, section 3.4).

    Args:
        sentences: A list of lists of words.
        word_weights: One row of weights per sentence: a list of lists, or an array
            `(sentences, words)` padded with 0.
        sentence_weights: One weight per sentence.
        color: As in `shade_words`.
        width: As in `shade_words`.

    Returns:
        A string without a line break at its end.

    Raises:
        ValueError: If weights and sentences do not fit each other.

    >>> print(shade_document([["Long"], ["So", "good"]], [[1, 0], [0, 1]], [0.2, 0.8]))
    0.20  Long(1.00)
    0.80  So good(1.00)
    """
    width = (width or _terminal_width()) - _INDENT
    lines = []
    for line in document_of(sentences, word_weights, sentence_weights):
        text = _shade(line, color, width).replace("\n", "\n" + " " * _INDENT)
        lines.append((f"{line.weight:.2f}".ljust(_INDENT) + text).rstrip())
    return "\n".join(lines)


def _terminal_width() -> int:
    return shutil.get_terminal_size().columns


def _shade(line: Line, color: bool | None, width: int) -> str:
    if color is None:
        color = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    words, widths = [], []
    for token, weight, shade in zip(*line[:3], strict=True):
        colors = SHADES[round(shade * (len(SHADES) - 1))] if color else None
        word = token
        if colors:
            word = f"\x1b[48;5;{colors[0]}m\x1b[38;5;{colors[1]}m{token}\x1b[0m"
        elif not color and f"{weight:.2f}" != "0.00":
            token = word = f"{token}({weight:.2f})"
        words.append(word)
        widths.append(cells(token))
    rows: dict[int, list[str]] = {}
    for (row, _), word in zip(wrap(widths, width, 1), words, strict=True):
        rows.setdefault(row, []).append(word)
    return "\n".join(" ".join(row) for row in rows.values())
