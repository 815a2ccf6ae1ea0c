"""Several heat maps side by side: heads, hops or layers."""

import keras
import numpy as np

from keras_attention.visualization import alignment
from keras_attention.visualization.boxes import pyplot

# Inches that a figure may be wide, and heat maps side by side.
_WIDTH, _COLUMNS = 20.0, 4


def plot_heads(
    weights,
    source_tokens,
    target_tokens=None,
    *,
    title: str | None = None,
    cmap: str = "Blues",
):
    """Plots a heat map for each head, all on one scale.

    Args:
        weights: `(heads, targets, sources)`, or a dict of `(targets, sources)` by name,
            such as layers or hops. Surplus rows and columns, the padding's, are left out
            if the columns are 0.
        source_tokens: A list of strings.
        target_tokens: A list of strings. `None` means the sources themselves.
        title: A line above it all.
        cmap: A matplotlib colour map from light to dark; the darkest is the largest weight
            of all heads.

    Returns:
        A list of matplotlib `Axes`, one for each head. `save_plot(axes[0], "heads.png")`
        writes them all into a file.

    Raises:
        ValueError: If weights and tokens do not fit each other.
        ImportError: If matplotlib is missing.

    >>> axes = plot_heads(np.stack([np.eye(2), np.ones((2, 2)) / 2]), ["a", "b"])
    >>> [ax.get_title("left") for ax in axes]
    ['head 1', 'head 2']
    """
    targets = source_tokens if target_tokens is None else target_tokens
    by_name = weights if isinstance(weights, dict) else _named(weights)
    if not by_name:
        raise ValueError("Expected weights of one head at least. Received: none")
    maps = [alignment.checked(head, source_tokens, targets) for head in by_name.values()]
    largest = max(head.max(initial=0.0) for head, _, _ in maps)
    width, height = alignment.size(*maps[0][1:])
    side = alignment.cell_side(*maps[0][1:])
    columns = min(len(maps), _COLUMNS, max(1, int(_WIDTH // width)))
    rows = -(-len(maps) // columns)
    columns = -(-len(maps) // rows)  # Rows of about the same length.
    figure, grid = pyplot().subplots(
        rows,
        columns,
        figsize=(width * columns, height * rows),
        squeeze=False,
        layout="constrained",
    )
    axes = list(grid.flat)
    for ax, name, (head, sources, targets) in zip(axes, by_name, maps, strict=False):
        alignment.draw(ax, head, sources, targets, largest, side, cmap, str(name))
    for ax in axes[len(maps) :]:
        ax.set_axis_off()
    if title:
        figure.suptitle(title, x=0.01, horizontalalignment="left", parse_math=False)
    figure.supxlabel(f"darkest: {largest:.2f}", x=0.99, size=8, horizontalalignment="right")
    return axes[: len(maps)]


def _named(weights):
    weights = np.asarray(keras.ops.convert_to_numpy(weights), "float64")
    if weights.ndim != 3:
        raise ValueError(
            "Expected weights (heads, targets, sources), or a dict of (targets, sources). "
            f"Received: shape {weights.shape}"
        )
    return {f"head {number}": head for number, head in enumerate(weights, start=1)}
