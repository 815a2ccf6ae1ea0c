"""Words in boxes on matplotlib's axes, wrapped in rows.

Everything across is counted in letters of a monospaced font, everything down in rows.
"""

import numpy as np

from keras_attention import extras
from keras_attention.visualization.words import cells, printable, wrap

# A letter is `_LETTER` ems wide. Heights are in font sizes.
_FONT_SIZE, _LETTER = 11.0, 0.602
_BOX_HEIGHT, _ROW_HEIGHT, _ROW_HEIGHT_WITH_VALUES = 1.5, 1.8, 2.6
# The widths of a figure, of the space between words.
_COLUMNS, _LEAST_COLUMNS, _GAP = 64.0, 24.0, 0.5


class Page:
    """matplotlib `Axes` and the places of words on them, in wrapped rows."""

    def __init__(self, lines, ax, indent: float, values: bool):
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
        """A shaded box with a word in it: the box and the word, to `shade` anew."""
        column, row, width = box
        height = _BOX_HEIGHT / self.row_height
        style = {"edgecolor": "#d0d0d0", "linewidth": 0.5}
        patch = pyplot().Rectangle((column, row), width, height, **style)
        self.ax.add_patch(patch).set_clip_on(False)
        word = self._write(
            (column + width / 2, row + height / 2),
            text,
            size=self.font_size,
            verticalalignment="center_baseline",
        )
        self.shade((patch, word), shade, cmap)
        return patch, word

    @staticmethod
    def shade(drawn, shade: float, cmap: str):
        """Colours a box, and the word in it by what reads better on it."""
        patch, word = drawn
        color = pyplot().get_cmap(cmap)(0.9 * shade) if shade > 0 else (1.0,) * 4
        luminance = np.power(color[:3], 2.2) @ (0.2126, 0.7152, 0.0722)
        patch.set_facecolor(color)
        word.set_color("black" if luminance > 0.18 else "white")

    def write(self, box, text: str, **style):
        """A word without a box, where its box would begin or, centred, in its middle."""
        column, row, width = box
        style = {"size": self.font_size, "horizontalalignment": "left", **style}
        column += width / 2 if style["horizontalalignment"] == "center" else 0
        middle = row + _BOX_HEIGHT / self.row_height / 2
        self._write((column, middle), text, verticalalignment="center_baseline", **style)

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
        style = {"family": family, "horizontalalignment": "center", **style}
        return self.ax.text(*place, text, parse_math=False, **style)

    def finish(self, title: str | None, note: str):
        if title:
            self.ax.set_title(
                printable(title), loc="left", size=_FONT_SIZE, parse_math=False
            )
        self.ax.set_xlabel(note, loc="right", size=8)
        return self.ax


def pyplot():
    """matplotlib's, imported only when something is drawn."""
    return extras.load("matplotlib.pyplot", "matplotlib", "plot")
