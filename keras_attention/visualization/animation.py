"""Decoding as a moving picture: one output token after another."""

from keras_attention import extras
from keras_attention.visualization import alignment
from keras_attention.visualization.boxes import Page, pyplot

_NOW, _LINE = "#b45309", "#d0d0d0"


def animate_decoding(
    weights,
    source_tokens,
    target_tokens,
    ax=None,
    *,
    title: str | None = None,
    cmap: str = "Blues",
    interval: int = 700,
):
    """Shows where each target token looked, one after another.

    Above stand the sources, shaded by the weights of the newest target; below the targets
    so far.

    Args:
        weights: `(targets, sources)`; see `plot_alignment`.
        source_tokens: A list of strings.
        target_tokens: A list of strings, one at least.
        ax: The matplotlib `Axes` to fill. `None` makes a figure of the right size, of which
            a notebook shows no picture by itself.
        title: A line above it all.
        cmap: A matplotlib colour map from light to dark; the darkest is the largest weight
            of all targets.
        interval: Milliseconds for each token.

    Returns:
        A matplotlib `Animation`: `.save("decoding.gif", "pillow")` writes a file, and
        `IPython.display.HTML(animation.to_jshtml())` plays it in a notebook.

    Raises:
        ValueError: If weights and tokens do not fit each other, or there is no target.
        ImportError: If matplotlib is missing.

    >>> import tempfile
    >>> animation = animate_decoding([[0.9, 0.1], [0, 1]], ["k", "o"], ["K", "OW"])
    >>> animation.save(tempfile.gettempdir() + "/decoding.gif", "pillow")
    """
    weights, sources, targets = alignment.checked(weights, source_tokens, target_tokens)
    if not targets:
        raise ValueError("Expected one target at least. Received: none")
    animation = extras.load("matplotlib.animation", "matplotlib", "plot")
    page = Page([sources, [], targets], ax, 0, False)
    above, _, below = page.boxes
    looked_at = [page.draw(*pair, 0.0, cmap) for pair in zip(above, sources, strict=True)]
    said = [page.draw(*pair, 0.0, cmap) for pair in zip(below, targets, strict=True)]
    largest = weights.max(initial=0.0) or 1.0

    def show(step):
        for drawn, weight in zip(looked_at, weights[step], strict=True):
            page.shade(drawn, weight / largest, cmap)
        for number, (patch, word) in enumerate(said):
            patch.set(visible=number <= step, zorder=1 + (number == step))
            patch.set(edgecolor=_NOW if number == step else _LINE)
            patch.set_linewidth(2.0 if number == step else 0.5)
            word.set_visible(number <= step)
        return [artist for drawn in (*looked_at, *said) for artist in drawn]

    page.finish(title, f"darkest: {largest:.2f}")
    if ax is None:
        # Else a notebook shows the picture as it stands, beside what is played.
        pyplot().close(page.ax.figure)
    steps = range(len(targets))
    # At its end it stays for two tokens more.
    frames = [*steps, steps[-1], steps[-1]]
    return animation.FuncAnimation(page.ax.figure, show, frames, interval=interval)
