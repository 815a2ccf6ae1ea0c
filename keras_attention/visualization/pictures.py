"""Words shaded by their weights, as pictures."""

from keras_attention.visualization.boxes import Page, pyplot
from keras_attention.visualization.words import document_of, line_of

# The width of a sentence's weight, in letters.
_INDENT = 6


def plot_words(
    tokens,
    weights,
    ax=None,
    *,
    title: str | None = None,
    cmap: str = "Blues",
    values: bool | None = None,
):
    """Plot words as rows of boxes, each shaded by its weight.

    Args:
        tokens: The words, a list of strings.
        weights: One weight per word. More weights than words are accepted if the
            surplus, the padding's weights, is 0.
        ax: The matplotlib `Axes` to fill. `None` makes a figure of the right size.
        title: A line above the words.
        cmap: A matplotlib colour map from light to dark.
        values: Whether to write the weights below the words. `None` means: for up
            to 20 words.

    Returns:
        The `Axes`. `save_plot(ax, "words.png")` writes the picture into a file.

    Raises:
        ValueError: If weights and tokens do not fit each other.
        ImportError: If matplotlib is missing.

    >>> ax = plot_words(["a", "good", "film"], [0.1, 0.7, 0.2])
    >>> [text.get_text() for text in ax.texts[:4]]
    ['a', '0.10', 'good', '0.70']
    """
    line = line_of(tokens, weights)
    values = len(line.tokens) <= 20 if values is None else values
    page = Page([line.tokens], ax, 0, values)
    for box, token, weight, shade in zip(page.boxes[0], *line[:3], strict=True):
        page.draw(box, token, shade, cmap)
        if values:
            page.write_below(box, f"{weight:.2f}")
    note = "" if values else f"darkest: {line.weights.max(initial=0.0):.2f}"
    return page.finish(title, note)


def plot_document(
    sentences,
    word_weights,
    sentence_weights,
    ax=None,
    *,
    title: str | None = None,
    cmap: str = "Blues",
    sentence_cmap: str = "Oranges",
):
    """Plot sentences below each other, with the weights of sentences and words.

    The box in front of a sentence is shaded by the sentence's weight, a word by
    `sqrt(sentence weight) * word weight` (Yang et al. 2016, section 3.4).

    Args:
        sentences: A list of lists of words.
        word_weights: One row of weights per sentence: a list of lists, or an array
            `(sentences, words)` padded with 0.
        sentence_weights: One weight per sentence.
        ax: The matplotlib `Axes` to fill. `None` makes a figure of the right size.
        title: A line above the sentences.
        cmap: The words' colour map, from light to dark.
        sentence_cmap: The sentences' colour map, from light to dark.

    Returns:
        The `Axes`.

    Raises:
        ValueError: If weights and sentences do not fit each other.
        ImportError: If matplotlib is missing.

    >>> ax = plot_document([["Long"], ["So", "good"]], [[1, 0], [0, 1]], [0.2, 0.8])
    >>> len(ax.patches)
    5
    """
    lines = document_of(sentences, word_weights, sentence_weights)
    page = Page([line.tokens for line in lines], ax, _INDENT, False)
    for line, lead, boxes in zip(lines, page.leads, page.boxes, strict=True):
        page.draw(lead, f"{line.weight:.2f}", line.shade, sentence_cmap)
        for box, token, shade in zip(boxes, line.tokens, line.shades, strict=True):
            page.draw(box, token, shade, cmap)
    return page.finish(title, "")


def save_plot(ax, path) -> None:
    """Writes the picture that `ax` belongs to into a file, and closes it.

    Args:
        ax: What a function of this module returned, be it one or a list.
        path: The file's name; its ending chooses the format (`.png`, `.svg`, `.pdf`).

    >>> import tempfile
    >>> ax = plot_words(["good", "film"], [0.8, 0.2])
    >>> save_plot(ax, tempfile.gettempdir() + "/words.png")
    """
    ax = ax[0] if isinstance(ax, list) else ax
    ax.figure.savefig(path, dpi=150, bbox_inches="tight")
    pyplot().close(ax.figure)
