"""Words with weights, checked, and how they are laid out in rows."""

import unicodedata
from typing import NamedTuple

import keras
import numpy as np

_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
# Persian words and joined emoji are spelt with these.
_JOINERS = "\N{ZERO WIDTH NON-JOINER}\N{ZERO WIDTH JOINER}"
_HARMLESS = _JOINERS + "\N{NO-BREAK SPACE}"


class Line(NamedTuple):
    """A sentence: its words, their weights and shades, its own weight and shade."""

    tokens: list[str]
    weights: np.ndarray
    shades: np.ndarray
    weight: float = 0.0
    shade: float = 0.0


def line_of(tokens, weights) -> Line:
    """Checks one line; its darkest shade is its largest weight."""
    tokens = printable_list(tokens, "words")
    weights = _array(weights)
    surplus = weights[len(tokens) :]
    if len(weights) < len(tokens) or surplus.any():
        raise ValueError(
            "Expected one weight per word, and weights of 0 behind the last word. "
            f"Received: {len(tokens)} words and {len(weights)} weights, "
            f"{np.count_nonzero(surplus)} of those behind the last word not 0"
        )
    weights = weights[: len(tokens)]
    return Line(tokens, weights, _scaled(weights))


def document_of(sentences, word_weights, sentence_weights) -> list[Line]:
    """Checks a document; sentences and words are scaled over the whole of it."""
    sentences = list(sentences)
    if any(isinstance(sentence, str) for sentence in sentences):
        raise ValueError("Expected a list of lists of words. Received: a string in it")
    weights = _array(sentence_weights)
    surplus = weights[len(sentences) :]
    if not len(sentences) <= min(len(weights), len(word_weights)) or surplus.any():
        raise ValueError(
            "Expected one weight and one row of word weights per sentence, and "
            f"weights of 0 behind the last. Received: {len(sentences)} sentences, "
            f"{len(weights)} weights and {len(word_weights)} rows"
        )
    weights = weights[: len(sentences)]
    lines = [line_of(*pair) for pair in zip(sentences, word_weights, strict=False)]
    both = [weight**0.5 * line.weights for weight, line in zip(weights, lines, strict=True)]
    scaled = _scaled(weights)
    largest = max((shades.max(initial=0.0) for shades in both), default=0.0)
    return [
        Line(line.tokens, line.weights, _scaled(shades, largest), *own)
        for line, shades, *own in zip(lines, both, weights, scaled, strict=True)
    ]


def _array(weights) -> np.ndarray:
    weights = np.asarray(keras.ops.convert_to_numpy(weights), dtype="float64")
    if weights.ndim != 1 or not np.isfinite(weights).all() or (weights < 0).any():
        raise ValueError(
            "Expected weights along one axis, finite and none of them negative. "
            f"Received: shape {weights.shape}, {weights}"
        )
    return weights + 0.0  # A minus zero would be written as "-0.00".


def _scaled(weights: np.ndarray, largest: float | None = None) -> np.ndarray:
    """Weights as shades from 0 to 1."""
    largest = weights.max(initial=0.0) if largest is None else largest
    return weights / (largest or 1.0)


def printable_list(tokens, name: str = "tokens") -> list[str]:
    """Tokens that can be shown; a single string is no list of them."""
    if isinstance(tokens, str):
        raise ValueError(f"Expected a list of {name}. Received: the string {tokens!r}")
    return [printable(token) for token in tokens]


def check_weights(weights: np.ndarray) -> None:
    """Complains of weights that nothing can be shaded by."""
    if not np.isfinite(weights).all() or (weights < 0).any():
        raise ValueError(
            f"Expected weights, finite and none of them negative. Received: {weights}"
        )


def printable(token) -> str:
    """No line breaks, and nothing that a terminal would obey."""
    shown = (c if c.isprintable() or c in _HARMLESS else _REPLACEMENT for c in str(token))
    return "".join(shown)


def cells(token: str) -> int:
    """How many letters wide: Chinese characters take two, marks and joiners none."""
    wide = sum(unicodedata.east_asian_width(c) in "WF" for c in token)
    none = sum(unicodedata.combining(c) > 0 or c in _JOINERS for c in token)
    return len(token) + wide - none


def wrap(widths, limit: float, gap: float) -> list[tuple[int, float]]:
    """The row and the column at which each thing of a given width starts."""
    places, row, column = [], 0, 0.0
    for width in widths:
        if column and column + width > limit:
            row, column = row + 1, 0.0
        places.append((row, column))
        column += width + gap
    return places
