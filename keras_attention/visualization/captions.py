"""Where in a picture attention looked: once, or for each word of a caption."""

import keras
import numpy as np

from keras_attention.visualization.boxes import pyplot
from keras_attention.visualization.words import check_weights, printable, printable_list

# Pictures side by side at most.
_COLUMNS = 6


def plot_regions(
    image, weights, ax=None, *, title: str | None = None, cmap: str = "afmhot"
):
    """Plots a picture, bright where the weights are.

    Args:
        image: `(height, width)` or `(height, width, channels)` with 1, 3 or 4 channels;
            integers from 0 to 255, or floats from 0 to 1.
        weights: `(H, W)`, one for each region. They are drawn smoothly upsampled to the
            picture's size; the brightest spot is the largest weight.
        ax: The matplotlib `Axes` to fill. `None` makes a figure of the right size.
        title: A line above the picture.
        cmap: A matplotlib colour map from dark to bright.

    Returns:
        The `Axes`.

    Raises:
        ValueError: If picture and weights do not fit each other.
        ImportError: If matplotlib is missing.

    >>> ax = plot_regions(np.zeros((8, 12)), np.eye(2), title="a bag")
    >>> [drawn.get_array().shape for drawn in ax.images]
    [(8, 12), (8, 12)]
    """
    image = _picture(image)
    weights = np.asarray(keras.ops.convert_to_numpy(weights), "float64")
    if weights.ndim != 2 or not weights.size:
        raise ValueError(f"Expected weights (H, W). Received: shape {weights.shape}")
    check_weights(weights)
    if ax is None:
        height, width = image.shape[:2]
        size = 4.0 * width / max(width, height), 4.0 * height / max(width, height) + 0.4
        _, ax = pyplot().subplots(figsize=size, layout="constrained")
    _draw(ax, image, printable(title or ""))
    shade = upsample(weights / (weights.max() or 1.0), image.shape[:2])
    ax.imshow(shade, cmap=cmap, alpha=0.6, vmin=0, vmax=1, extent=ax.images[0].get_extent())
    return ax


def plot_captions(image, words, weights, *, title: str | None = None):
    """Plots the picture once per word, bright where the word looked.

    Args:
        image: As for `plot_regions`.
        words: The words of the caption, a list of strings.
        weights: `(words, H, W)`, each drawn as by `plot_regions`.
        title: A line above it all.

    Returns:
        A list of matplotlib `Axes`, one with the picture alone and one for each word.
        `save_plot(axes[0], "caption.png")` writes them all into a file.

    Raises:
        ValueError: If pictures, words and weights do not fit each other.
        ImportError: If matplotlib is missing.

    >>> axes = plot_captions(np.zeros((8, 12)), ["a", "bag"], np.ones((2, 2, 3)) / 6)
    >>> [ax.get_title() for ax in axes]
    ['', 'a', 'bag']
    """
    words = printable_list(words, "words")
    image = _picture(image)
    weights = np.asarray(keras.ops.convert_to_numpy(weights), "float64")
    if weights.ndim != 3 or len(weights) != len(words):
        raise ValueError(
            f"Expected weights (words, H, W). Received: {len(words)} words and weights of "
            f"shape {weights.shape}"
        )
    check_weights(weights)
    number = len(words) + 1
    columns = min(number, _COLUMNS)
    rows = -(-number // columns)
    figure, grid = pyplot().subplots(
        rows, columns, figsize=(1.7 * columns, 2.0 * rows), squeeze=False
    )
    figure.set_layout_engine("constrained")
    axes = list(grid.flat)
    for ax in axes:
        ax.set_axis_off()
    _draw(axes[0], image, "")
    for ax, word, looked in zip(axes[1:], words, weights, strict=False):
        plot_regions(image, looked, ax, title=word)
    if title:
        figure.suptitle(printable(title), parse_math=False)
    return axes[:number]


def _draw(ax, image, title: str):
    height, width = image.shape[:2]
    ax.set_axis_off()
    scale = dict(cmap="gray", vmin=0, vmax=255 if image.dtype.kind in "iu" else 1)
    ax.imshow(image, extent=(0, width, height, 0), **scale)
    ax.set_title(title, size=10, parse_math=False)


def upsample(weights, shape):
    """Weights `(H, W)` at the size of a picture, linear between the regions' centres.

    >>> upsample(np.array([[0.0, 1.0]]), (1, 4)).tolist()
    [[0.0, 0.25, 0.75, 1.0]]
    """
    for axis, size in enumerate(shape):
        known = weights.shape[axis]
        places = (np.arange(size) + 0.5) * known / size - 0.5
        places = np.clip(places, 0, known - 1)
        low = np.floor(places).astype(int)
        high = np.minimum(low + 1, known - 1)
        share = np.expand_dims(places - low, 1 - axis)
        low, high = (np.take(weights, i, axis=axis) for i in (low, high))
        weights = (1 - share) * low + share * high
    return weights


def _picture(image):
    image = np.asarray(keras.ops.convert_to_numpy(image))
    if image.ndim == 3 and image.shape[-1] == 1:
        image = image[..., 0]
    if image.ndim != 2 and not (image.ndim == 3 and image.shape[-1] in (3, 4)):
        raise ValueError(
            "Expected one picture (height, width, channels) with 1, 3 or 4 channels. "
            f"Received: a picture of shape {image.shape}"
        )
    if image.dtype.kind == "f" and image.max(initial=0.0) > 1.01:
        raise ValueError(
            "Expected a picture of integers from 0 to 255, or of floats from 0 to 1. "
            f"Received: floats up to {image.max()}"
        )
    return image if image.dtype.kind in "iu" else np.clip(image, 0, 1)
