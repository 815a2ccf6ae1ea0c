"""Which source token each target token looked at, as a heat map.

Rows are target tokens, columns source tokens: the shape of a decoder's weights.
"""

import os
import sys

import keras
import numpy as np

from keras_attention.visualization.pictures import pyplot
from keras_attention.visualization.terminal import SHADES
from keras_attention.visualization.words import cells, printable

# A column's, so that a hundred hundredths fit.
_WIDTH = 3


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
    weights, sources, targets = _checked(weights, source_tokens, target_tokens)
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
        cmap: A matplotlib colour map from light to dark.

    Returns:
        The `Axes`. `save_plot(ax, "alignment.png")` writes the picture into a file.

    Raises:
        ValueError: If weights and tokens do not fit each other.
        ImportError: If matplotlib is missing.

    >>> ax = plot_alignment([[0.96, 0.04], [0, 1]], ["k", "o"], ["K", "OW"])
    >>> [label.get_text() for label in ax.get_yticklabels()]
    ['K', 'OW']
    """
    weights, sources, targets = _checked(weights, source_tokens, target_tokens)
    if ax is None:
        # Long tokens, such as whole sentences, need room beside the picture and above it.
        lead = max(1.5, 0.6 + 0.1 * max(map(cells, targets), default=0))
        above = max(1.2, 0.7 + 0.1 * max(map(cells, sources), default=0))
        size = lead + 0.35 * len(sources), above + 0.35 * len(targets)
        _, ax = pyplot().subplots(figsize=size, layout="constrained")
    # Letters of words stand upright, longer tokens on their sides.
    turned = 90 if max(map(cells, sources), default=0) > _WIDTH else 0
    style = {"family": ["monospace", "sans-serif"], "parse_math": False}
    ax.imshow(weights, cmap=cmap, vmin=0, vmax=1, aspect="equal")
    ax.set_xticks(range(len(sources)), sources, rotation=turned, **style)
    ax.set_yticks(range(len(targets)), targets, **style)
    ax.tick_params(length=0, labeltop=True, labelbottom=False)
    if title:
        ax.set_title(title, loc="left", parse_math=False)
    return ax


def _checked(weights, source_tokens, target_tokens):
    """Weights without their surplus, and tokens that can be printed."""
    for tokens in (source_tokens, target_tokens):
        if isinstance(tokens, str):
            raise ValueError(f"Expected a list of tokens. Received: the string {tokens!r}")
    sources, targets = ([printable(t) for t in x] for x in (source_tokens, target_tokens))
    weights = np.asarray(keras.ops.convert_to_numpy(weights), "float64")
    kept = weights[: len(targets), : len(sources)] if weights.ndim == 2 else weights
    fits = kept.shape == (len(targets), len(sources))
    if not fits or weights[: len(targets), len(sources) :].any():
        raise ValueError(
            "Expected weights of shape (targets, sources), and 0 behind the last source. "
            f"Received: shape {weights.shape}, {len(targets)} targets and {len(sources)} "
            "sources"
        )
    if not np.isfinite(kept).all() or (kept < 0).any():
        raise ValueError(
            f"Expected weights, finite and none of them negative. Received: {kept}"
        )
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
