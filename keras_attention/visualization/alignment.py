"""Which source token each target token looked at, as a heat map.

Rows are target tokens, columns source tokens: the shape of a decoder's weights.
"""

import os
import sys

import keras
import numpy as np

from keras_attention.visualization.boxes import pyplot
from keras_attention.visualization.terminal import SHADES
from keras_attention.visualization.words import (
    cells,
    check_weights,
    printable,
    printable_list,
)

# A column's, so that a hundred hundredths fit.
_WIDTH = 3
# Of a picture: a letter's width in ems, the least inches of a cell, and the inches that
# cells are made smaller to fit into.
_LETTER, _LEAST_SIDE, _SPAN = 0.602, 0.13, 8.0


def shade_alignment(
    weights, source_tokens, target_tokens, *, color: bool | None = None
) -> str:
    """A heat map for a terminal: target tokens below each other, sources across.

    A cell is shaded by its weight, the darkest shade is the largest weight. Without
    colours a cell is the weight in hundredths; those that round to 0 are left out.
    Source tokens of more than three letters make all of them stand on end.

    Args:
        weights: `(targets, sources)`. Surplus rows and columns, the padding's, are left
            out if the columns are 0.
        source_tokens: A list of strings.
        target_tokens: A list of strings.
        color: Whether to use colours. `None` means: if standard output is a
            terminal and the environment variable `NO_COLOR` is not set.

    Returns:
        A string without a line break at its end.

    Raises:
        ValueError: If weights and tokens do not fit each other.

    >>> print(shade_alignment([[0.96, 0.04], [0, 1]], ["k", "o"], ["K", "OW"]))
         k   o
    K   96   4
    OW     100
    """
    weights, sources, targets = checked(weights, source_tokens, target_tokens)
    if color is None:
        color = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    lead = max(map(cells, targets), default=0)
    lines = [" " * lead + _joined(heads) for heads in _heads(sources)]
    largest = weights.max(initial=0.0) or 1.0
    for target, row in zip(targets, weights, strict=True):
        shades = (_cell(weight, largest, color) for weight in row)
        lines.append(target + " " * (lead - cells(target)) + _joined(shades))
    return "\n".join(lines)


def plot_alignment(
    weights,
    source_tokens,
    target_tokens,
    ax=None,
    *,
    title: str | None = None,
    cmap: str = "Blues",
):
    """Plot a heat map: target tokens downwards, source tokens across.

    Args:
        weights: `(targets, sources)`; see `shade_alignment`.
        source_tokens: A list of strings.
        target_tokens: A list of strings.
        ax: The matplotlib `Axes` to fill. `None` makes a figure of the right size.
        title: A line above the picture.
        cmap: A matplotlib colour map from light to dark; the darkest is the largest weight.

    Returns:
        The `Axes`. `save_plot(ax, "alignment.png")` writes the picture into a file.

    Raises:
        ValueError: If weights and tokens do not fit each other.
        ImportError: If matplotlib is missing.

    >>> ax = plot_alignment([[0.96, 0.04], [0, 1]], ["k", "o"], ["K", "OW"])
    >>> [label.get_text() for label in ax.get_yticklabels()]
    ['K', 'OW']
    """
    weights, sources, targets = checked(weights, source_tokens, target_tokens)
    side = cell_side(sources, targets)
    if ax is None:
        _, ax = pyplot().subplots(figsize=size(sources, targets), layout="constrained")
    else:
        box, number = ax.get_window_extent(), (len(sources) or 1, len(targets) or 1)
        room = min(box.width / number[0], box.height / number[1])
        side = min(side, room / ax.figure.dpi)
    largest = weights.max(initial=0.0)
    ax.set_xlabel(f"darkest: {largest:.2f}", loc="right", size=8)
    return draw(ax, weights, sources, targets, largest, side, cmap, title)


def size(sources, targets) -> tuple[float, float]:
    """Inches of a figure in which the tokens beside a heat map can be read."""
    side = cell_side(sources, targets)
    letter = _LETTER * _font_size(side) / 72
    # Long tokens, such as whole sentences, need room beside the picture and above it.
    lead = max(1.0, 0.6 + letter * max(map(cells, targets), default=0))
    longest = max(map(cells, sources), default=0)
    above = 0.8 + letter * (longest if _turned(longest, side) else 1)
    return lead + side * len(sources), above + side * len(targets)


def draw(ax, weights, sources, targets, largest, side, cmap, title):
    """Fills `Axes` with a heat map, in letters that fit cells of `side` inches."""
    longest = max(map(cells, sources), default=0)
    # Letters of words stand upright, longer tokens on their sides.
    turned = 90 if _turned(longest, side) else 0
    style = {"family": ["monospace", "sans-serif"], "parse_math": False}
    style["size"] = _font_size(side)
    ax.imshow(weights, cmap=cmap, vmin=0, vmax=largest or 1.0, aspect="equal")
    ax.set_xticks(range(len(sources)), sources, rotation=turned, **style)
    ax.set_yticks(range(len(targets)), targets, **style)
    ax.tick_params(length=0, labeltop=True, labelbottom=False)
    if title:
        ax.set_title(printable(title), loc="left", size=11, pad=9, parse_math=False)
    return ax


def cell_side(sources, targets) -> float:
    """Inches of a cell: less of them where there are many."""
    number = max(len(sources), len(targets), 1)
    return min(0.35, max(_LEAST_SIDE, _SPAN / number))


def _font_size(side: float) -> float:
    return min(10.0, 0.75 * 72 * side)


def _turned(longest: int, side: float) -> bool:
    return longest * _LETTER * _font_size(side) > 0.95 * 72 * side


def checked(weights, source_tokens, target_tokens):
    """Weights without their surplus, and tokens that can be printed."""
    sources, targets = printable_list(source_tokens), printable_list(target_tokens)
    weights = np.asarray(keras.ops.convert_to_numpy(weights), "float64")
    kept = weights[: len(targets), : len(sources)] if weights.ndim == 2 else weights
    fits = kept.shape == (len(targets), len(sources))
    if not fits or weights[: len(targets), len(sources) :].any():
        raise ValueError(
            "Expected weights of shape (targets, sources), and 0 behind the last source. "
            f"Received: shape {weights.shape}, {len(targets)} targets and {len(sources)} "
            "sources"
        )
    check_weights(kept)
    return kept, sources, targets


def _heads(sources):
    """Lines of heads: tokens as they are, or from top to bottom if one is too long."""
    if max(map(cells, sources), default=0) <= _WIDTH:
        return [map(_right, sources)]
    height = max(map(len, sources))
    letters = [" " * (height - len(source)) + source for source in sources]
    return [map(_right, row) for row in zip(*letters, strict=True)]


def _cell(weight: float, largest: float, color: bool) -> str:
    if not color:
        hundredths = round(100 * weight)
        return f"{hundredths or '':>{_WIDTH}}"
    colors = SHADES[round(weight / largest * (len(SHADES) - 1))]
    return f"\x1b[48;5;{colors[0]}m{'':{_WIDTH}}\x1b[0m" if colors else " " * _WIDTH


def _right(token: str) -> str:
    return " " * (_WIDTH - cells(token)) + token


def _joined(parts) -> str:
    return "".join(f" {part}" for part in parts).rstrip()
