"""Words shaded by their weights, as pictures.

Everything across is counted in letters of a monospaced font, everything down in rows.
"""

import numpy as np

from keras_attention import extras
from keras_attention.visualization.words import cells, document_of, line_of, wrap

# A letter is `_LETTER` ems wide. Heights are in font sizes.
_FONT_SIZE, _LETTER = 11.0, 0.602
_BOX_HEIGHT, _ROW_HEIGHT, _ROW_HEIGHT_WITH_VALUES = 1.5, 1.8, 2.6
# The widths of a figure, of the space between words, of a sentence's weight.
_COLUMNS, _LEAST_COLUMNS, _GAP, _INDENT = 64.0, 24.0, 0.5, 6


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
    page = _Page([line.tokens], ax, 0, values)
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
    page = _Page([line.tokens for line in lines], ax, _INDENT, False)
    for line, lead, boxes in zip(lines, page.leads, page.boxes, strict=True):
        page.draw(lead, f"{line.weight:.2f}", line.shade, sentence_cmap)
        for box, token, shade in zip(boxes, line.tokens, line.shades, strict=True):
            page.draw(box, token, shade, cmap)
    return page.finish(title, "")


def save_plot(ax, path) -> None:
    """Writes the picture that `ax` belongs to into a file, and closes it.

    Args:
        ax: What a function of this module returned.
        path: The file's name; its ending chooses the format (`.png`, `.svg`, `.pdf`).

    >>> import tempfile
    >>> ax = plot_words(["good", "film"], [0.8, 0.2])
    >>> save_plot(ax, tempfile.gettempdir() + "/words.png")
    """
    ax.figure.savefig(path, dpi=150, bbox_inches="tight")
    pyplot().close(ax.figure)


class _Page:
    """matplotlib `Axes` and the places of words on them, in wrapped rows."""

    def __init__(self, lines, ax, indent: int, values: bool):
        self.row_height = _ROW_HEIGHT_WITH_VALUES if values else _ROW_HEIGHT
        self.indent = indent
        least = 4 if values else 0
        self.widths = [[max(cells(token), least) + 0.8 for token in line] for line in lines]
        self.longest = max((w for line in self.widths for w in line), default=0.0)
        self.ax = self._new_axes() if ax is None else self._fit(ax)
        self.ax.set(xticks=[], yticks=[], facecolor="none")
        self.ax.spines[:].set_visible(False)

    def _place(self, columns: float):
        """Puts a sentence's own box (`leads`) and its words' into rows."""
        self.leads, self.boxes, self.rows = [], [], 0
        for widths in self.widths:
            top = self.rows
            places = wrap(widths, columns - self.indent, _GAP)
            self.leads.append((0.0, top, self.indent - 1.0))
            self.boxes.append(
                [
                    (self.indent + start, top + row, width)
                    for (row, start), width in zip(places, widths, strict=True)
                ]
            )
            self.rows = top + 1 + (places[-1][0] if places else 0)

    def _new_axes(self):
        """A figure in which the words have their natural size."""
        widest = max((sum(w) + _GAP * len(w) for w in self.widths), default=0.0)
        least = max(self.longest, _LEAST_COLUMNS)
        columns = self.indent + max(least, min(widest, _COLUMNS))
        self._place(columns)
        self.font_size = _FONT_SIZE
        width = columns * _LETTER * _FONT_SIZE / 72
        height = max(self.rows, 1) * self.row_height * _FONT_SIZE / 72
        # Inches on the left and right, below and above: room for a title and a note.
        side, below, above = 0.15, 0.3, 0.4
        whole = np.array([width + 2 * side, height + below + above])
        place = np.array([[side, below], [width, height]]) / whole
        ax = pyplot().figure(figsize=whole).add_axes(place.ravel())
        ax.set(xlim=(0, columns), ylim=(max(self.rows, 1), 0))
        return ax

    def _fit(self, ax):
        """The largest font with which the words fit the `Axes` there are."""
        box = ax.get_window_extent()
        width, height = (72 * side / ax.figure.dpi for side in (box.width, box.height))
        for self.font_size in np.arange(12.0, 3.0, -0.5):
            columns = width / (_LETTER * self.font_size)
            rows = height / (self.row_height * self.font_size)
            self._place(columns)
            if self.rows <= rows and self.indent + self.longest <= columns:
                break
        ax.set(xlim=(0, columns), ylim=(rows, 0))
        return ax

    def draw(self, box, text: str, shade: float, cmap: str):
        """A shaded box with a word in it, in the colour that reads better on it."""
        column, row, width = box
        height = _BOX_HEIGHT / self.row_height
        color = pyplot().get_cmap(cmap)(0.9 * shade) if shade > 0 else (1.0,) * 4
        style = {"facecolor": color, "edgecolor": "#d0d0d0", "linewidth": 0.5}
        patch = pyplot().Rectangle((column, row), width, height, **style)
        self.ax.add_patch(patch).set_clip_on(False)
        luminance = np.power(color[:3], 2.2) @ (0.2126, 0.7152, 0.0722)
        self._write(
            (column + width / 2, row + height / 2),
            text,
            size=self.font_size,
            color="black" if luminance > 0.18 else "white",
            verticalalignment="center_baseline",
        )

    def write_below(self, box, text: str):
        column, row, width = box
        self._write(
            (column + width / 2, row + (_BOX_HEIGHT + 0.1) / self.row_height),
            text,
            size=0.75 * self.font_size,
            verticalalignment="top",
        )

    def _write(self, place, text: str, **style):
        # The second family is for characters that the first has not got.
        family = ["monospace", "sans-serif"]
        style |= {"family": family, "horizontalalignment": "center"}
        self.ax.text(*place, text, parse_math=False, **style)

    def finish(self, title: str | None, note: str):
        if title:
            self.ax.set_title(title, loc="left", size=_FONT_SIZE, parse_math=False)
        self.ax.set_xlabel(note, loc="right", size=8)
        return self.ax


def pyplot():
    """matplotlib's, imported only when something is drawn."""
    return extras.load("matplotlib.pyplot", "matplotlib", "plot")
