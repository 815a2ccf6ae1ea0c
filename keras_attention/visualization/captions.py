"""Where in a picture each word of its caption looked."""

import keras
import numpy as np

from keras_attention.visualization.pictures import pyplot
from keras_attention.visualization.words import printable

# Pictures side by side at most.
_COLUMNS = 6


def plot_captions(image, words, weights, *, title: str | None = None):
    """Plots the picture once per word, bright where the word looked.

    Args:
        image: `(height, width)` or `(height, width, channels)` with 1 or 3 channels;
            integers from 0 to 255, or floats from 0 to 1.
        words: The words of the caption, a list of strings.
        weights: `(words, H, W)`. They are drawn smoothly upsampled to the picture's size;
            the brightest spot is a word's own largest weight.
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
    image, words, weights = _checked(image, words, weights)
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
    height, width = image.shape[:2]
    looks = [None, *weights]
    extent = (0, width, height, 0)
    for ax, word, looked in zip(axes, ["", *words], looks, strict=False):
        ax.imshow(image, cmap="gray", extent=extent)
        ax.set_title(word, size=10, parse_math=False)
        if looked is not None:
            shade = upsample(looked / (looked.max() or 1.0), (height, width))
            ax.imshow(
                shade, cmap="hot", alpha=0.6, vmin=0, vmax=1, extent=(0, width, height, 0)
            )
    if title:
        figure.suptitle(title, parse_math=False)
    return axes[:number]


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


def _checked(image, words, weights):
    if isinstance(words, str):
        raise ValueError(f"Expected a list of words. Received: the string {words!r}")
    image = np.asarray(keras.ops.convert_to_numpy(image))
    weights = np.asarray(keras.ops.convert_to_numpy(weights), "float64")
    if image.ndim == 3 and image.shape[-1] == 1:
        image = image[..., 0]
    fits = image.ndim == 2 or (image.ndim == 3 and image.shape[-1] in (3, 4))
    if not fits or weights.ndim != 3 or len(weights) != len(words):
        raise ValueError(
            "Expected one picture (height, width, channels), and weights (words, H, W). "
            f"Received: a picture of shape {image.shape}, {len(words)} words and weights "
            f"of shape {weights.shape}"
        )
    if not np.isfinite(weights).all() or (weights < 0).any():
        raise ValueError(
            f"Expected weights, finite and none of them negative. Received: {weights}"
        )
    return image, [printable(word) for word in words], weights
