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
    "Nice posters. The plot is a boring mess, the dialogue is awful and the jokes fall "
    "flat. What a waste of two hours!"
)
VERSE = "Entonces Jesús dijo a sus discípulos: Vosotros sois la luz del mundo."
WORD = "neighborhood"
STORY = (
    "Mary got the milk there. John moved to the bedroom. Sandra went back to the kitchen. "
    "Mary travelled to the hallway. Where is the milk?"
)
# One of the captioner's test scenes.
SCENE = Path(__file__).with_name("scene.png")
# 1,600 pixels, which GitHub shows at about half their size.
WIDTH, DPI = 10.0, 160
# Inches: where the left and the right half begin.
LEFT, MIDDLE = 0.2, 5.25


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

    def title(self, left, top, what, said=""):
        """In bold what it is, behind it what the model says."""
        place = left / WIDTH, 1 - top / self.height
        style = dict(size=11, verticalalignment="top", parse_math=False)
        head = self.figure.text(*place, what, weight="bold", color="#1b1b1b", **style)
        end = head.get_window_extent().x1 / self.figure.bbox.width + 0.012
        self.figure.text(end, place[1], said, color="#08519c", **style)


def draw():
    """The whole picture."""
    scene = (recipes.SAVED_MODELS / captioner.FILES["soft"]).exists()
    sheet = Sheet(8.3 if scene else 6.55)
    title, *document = reviews.look(REVIEW)
    sheet.title(LEFT, 0.15, "Words that decide a review", title)
    visualization.plot_document(*document, sheet.axes(LEFT, 0.5, WIDTH - 2 * LEFT, 1.05))

    sheet.title(LEFT, 1.75, "Spanish to English")
    heat_map(sheet, verses.look(VERSE), 1.25, 3.0, 3.3)

    weights, letters, phonemes = g2p.look(WORD)
    sheet.title(MIDDLE, 1.75, "Spelling to sound", "".join(letters))
    heat_map(sheet, (weights, letters, phonemes), MIDDLE + 0.5, 2.45, 3.7)
    title, weights, sentences = babi.look(STORY)
    sheet.title(MIDDLE, 4.85, "A memory in three hops", title)
    ax = sheet.axes(MIDDLE, 5.2, WIDTH - MIDDLE - LEFT, 1.3)
    visualization.plot_hops(weights, sentences, ax)
    if scene:
        caption(sheet, 6.65)
    return sheet.figure


def heat_map(sheet, drawn, left, top, side):
    ax = sheet.axes(left, top, side, side)
    visualization.plot_alignment(*drawn, ax).set_xlabel("")


def caption(sheet, top):
    """A picture, and beside it once more for each word of its caption."""
    image, words, weights = captioner.look(SCENE)
    sheet.title(LEFT, top, "What each word of a caption looks at")
    side = (WIDTH - 2 * LEFT) / (len(words) + 1)
    frames = [
        sheet.axes(LEFT + number * side, top + 0.55, side - 0.08, side - 0.08)
        for number in range(len(words) + 1)
    ]
    frames[0].imshow(image, cmap="gray", vmin=0, vmax=255)
    frames[0].set_axis_off()
    for ax, word, looked in zip(frames[1:], words, weights, strict=True):
        visualization.plot_regions(image, looked, ax, title=word)


if __name__ == "__main__":
    output = sys.argv[1] if len(sys.argv) > 1 else Path(__file__).with_name("gallery.png")
    draw().savefig(output, dpi=DPI)
    print(f"Wrote {output}")
