"""Which sentences each hop of a memory looked at."""

import keras
import numpy as np

from keras_attention.visualization.boxes import Page
from keras_attention.visualization.words import check_weights, printable_list

# The width of a hop's column and of the box in it, in letters.
_HOP, _BOX = 6.6, 6.0


def plot_hops(
    weights, sentences, ax=None, *, title: str | None = None, cmap: str = "Blues"
):
    """Plots sentences below each other, before each of them its weight in every hop.

    Args:
        weights: `(hops, sentences)`: those of one story of a `MemoryNetwork` or a
            `KeyValueMemory`. Surplus columns, the padding's, are left out if they are 0.
        sentences: A list of strings.
        ax: The matplotlib `Axes` to fill. `None` makes a figure of the right size.
        title: A line above the sentences, such as the question and its answer.
        cmap: A matplotlib colour map from light to dark; the darkest is the largest weight.

    Returns:
        The `Axes`.

    Raises:
        ValueError: If weights and sentences do not fit each other.
        ImportError: If matplotlib is missing.

    >>> story = ["Mary ran home.", "John sat."]
    >>> ax = plot_hops([[0.1, 0.9], [1, 0]], story, title="Where is Mary?")
    >>> [text.get_text() for text in ax.texts[:5]]
    ['hop 1', 'hop 2', '0.10', '1.00', 'Mary']
    """
    weights, sentences = _checked(weights, sentences)
    hops = len(weights)
    # The first row is for the hops' names.
    words = [[], *(sentence.split() for sentence in sentences)]
    page = Page(words, ax, hops * _HOP + 1.0, False)
    for hop in range(hops):
        page.write((hop * _HOP, 0, _BOX), f"hop {hop + 1}", horizontalalignment="center")
    largest = weights.max(initial=0.0) or 1.0
    rows = zip(page.leads[1:], page.boxes[1:], words[1:], weights.T, strict=True)
    for (_, top, _), boxes, tokens, looked in rows:
        for hop, weight in enumerate(looked):
            text = f"{weight:.2f}" if weight >= 0.005 else ""
            page.draw((hop * _HOP, top, _BOX), text, weight / largest, cmap)
        for box, token in zip(boxes, tokens, strict=True):
            page.write(box, token)
    return page.finish(title, "")


def _checked(weights, sentences):
    sentences = printable_list(sentences, "sentences")
    weights = np.asarray(keras.ops.convert_to_numpy(weights), "float64")
    number = len(sentences)
    fits = weights.ndim == 2 and weights.shape[1] >= number and len(weights)
    if not fits or weights[:, number:].any():
        raise ValueError(
            "Expected weights (hops, sentences), and 0 behind the last sentence. "
            f"Received: shape {weights.shape} and {number} sentences"
        )
    check_weights(weights[:, :number])
    return weights[:, :number], sentences
