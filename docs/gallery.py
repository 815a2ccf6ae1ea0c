"""The picture at the top of README, out of the shipped models: `make gallery`.

What each model reads stands here; what it says, and where it looked, is its own.
"""

import sys
from pathlib import Path

import matplotlib

matplotlib.use("agg")

from matplotlib import pyplot

from keras_attention import recipes, visualization
from keras_attention.recipes import babi, captioner, g2p, reviews, verses

REVIEW = (
    "The first half is slow and far too long. But the two leads are wonderful, the music "
    "is beautiful, and I loved every minute of the ending. Highly recommended!"
)
VERSE = "Y dijo Dios: Sea la luz; y fue la luz."
WORD = "knowledge"
STORY = (
    "Mary moved to the bathroom. John went to the hallway. Mary travelled to the office. "
    "Daniel went back to the hallway. John moved to the kitchen. Where is Mary?"
)
SCENE = Path(__file__).with_name("scene.png")
# 1,600 pixels, which GitHub shows at about half their size.
WIDTH, DPI = 10.0, 160
MARGIN, TITLE = 0.2, 0.34


class Sheet:
    """A figure on which things stand at places in inches from its upper left corner."""

    def __init__(self, height):
        self.height = height
        self.figure = pyplot.figure(figsize=(WIDTH, height), facecolor="white")

    def axes(self, left, top, width, height):
        place = left / WIDTH, 1 - (top + height) / self.height
        ax = self.figure.add_axes((*place, width / WIDTH, height / self.height))
        ax.set_anchor("NW")
        return ax

    def title(self, left, top, what, said):
        """In bold what it is, behind it what the model says."""
        place = left / WIDTH, 1 - top / self.height
        style = dict(size=11, verticalalignment="top", parse_math=False)
        head = self.figure.text(*place, what, weight="bold", color="#1b1b1b", **style)
        end = head.get_window_extent().x1 / self.figure.bbox.width + 0.012
        self.figure.text(end, place[1], said, color="#08519c", **style)


def draw():
    """The whole picture."""
    scene = SCENE.exists() and (recipes.SAVED_MODELS / captioner.FILES["soft"]).exists()
    sheet = Sheet(8.6 if scene else 6.9)
    top = 0.15
    title, *document = reviews.look(REVIEW)
    sheet.title(MARGIN, top, "Which words make a review good", title)
    visualization.plot_document(*document, sheet.axes(MARGIN, top + TITLE, 9.6, 1.15))
    top += 1.75
    weights, words, said = verses.look(VERSE)
    sheet.title(MARGIN, top, "Spanish to English", " ".join(said))
    heat_map(sheet, (weights, words, said), 1.1, top + 1.0, 3.7)
    middle = 5.3
    weights, letters, phonemes = g2p.look(WORD)
    sheet.title(middle, top, "Spelling to sound", " ".join(phonemes))
    heat_map(sheet, (weights, letters, phonemes), middle + 0.5, top + 0.7, 4.0)
    title, weights, sentences = babi.look(STORY)
    sheet.title(middle, top + 2.9, "Three hops over a story", title)
    ax = sheet.axes(middle, top + 2.9 + TITLE, WIDTH - middle - MARGIN, 1.7)
    visualization.plot_hops(weights, sentences, ax)
    if scene:
        caption(sheet, top + 5.0)
    return sheet.figure


def heat_map(sheet, drawn, left, top, side):
    ax = sheet.axes(left, top, side, side)
    visualization.plot_alignment(*drawn, ax)
    ax.set_xlabel("")


def caption(sheet, top):
    """A picture, and beside it once more for each word of its caption."""
    image, words, weights = captioner.look(SCENE)
    sheet.title(MARGIN, top, "What each word of a caption looked at", " ".join(words))
    side = (WIDTH - 2 * MARGIN) / (len(words) + 1)
    for number, (word, looked) in enumerate(zip(words, weights, strict=True), start=1):
        ax = sheet.axes(MARGIN + number * side, top + 0.6, side - 0.08, side - 0.08)
        visualization.plot_regions(image, looked, ax, title=word)
    ax = sheet.axes(MARGIN, top + 0.6, side - 0.08, side - 0.08)
    ax.imshow(image, cmap="gray", vmin=0, vmax=255)
    ax.set_axis_off()


if __name__ == "__main__":
    output = sys.argv[1] if len(sys.argv) > 1 else Path(__file__).with_name("gallery.png")
    draw().savefig(output, dpi=DPI)
    print(f"Wrote {output}")
