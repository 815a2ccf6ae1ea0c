"""Made scenes of real photographs: garments at random places, and what a caption says.

Each scene is an 84 x 84 canvas with 2 to 4 pictures of Fashion-MNIST that do not touch
each other, above some clutter: scraps of more such pictures. The caption goes from left to
right, `"a sandal left of a coat above a bag"`: what stands between two garments is how the
first lies from the second. Where every garment lies is known. Scenes to test on are made
of Fashion-MNIST's test pictures only.
"""

import gzip
from pathlib import Path
from typing import NamedTuple

import keras
import numpy as np

GARMENTS = ["t-shirt", "trouser", "pullover", "dress", "coat"]
GARMENTS += ["sandal", "shirt", "sneaker", "bag", "boot"]
WORDS = ["a", "left", "of", "above", "below", *(g.replace("t-", "t") for g in GARMENTS)]

CANVAS, GARMENT, SCRAP = 84, 28, 9
SIZES = (60_000, 500, 2_000)
SEED = 2015
DEBIAN = Path("/usr/share/datasets/fashion-mnist")
FILES = ["train-images-idx3-ubyte.gz", "train-labels-idx1-ubyte.gz"]
FILES += ["t10k-images-idx3-ubyte.gz", "t10k-labels-idx1-ubyte.gz"]


class Scenes(NamedTuple):
    """Pictures, their captions, and where each garment of a caption lies.

    Attributes:
        images: uint8 `(N, 84, 84, 1)`.
        captions: list of strings.
        corners: for each caption, the upper left corners `(row, column)` of its garments,
            in the caption's order: a list of integer arrays `(garments, 2)`.
    """

    images: np.ndarray
    captions: list[str]
    corners: list[np.ndarray]


def load(sizes=SIZES, seed: int = SEED, directory=None) -> tuple[Scenes, Scenes, Scenes]:
    """Makes the scenes.

    Args:
        sizes: How many scenes to train, for choices and to test on.
        seed: An integer. Published figures use the default.
        directory: Where the four files of Fashion-MNIST are. By default those of
            Debian's package `dataset-fashion-mnist`, and else what
            `keras.datasets.fashion_mnist` loads (which needs a network).

    Returns:
        `(train, development, test)`, each `Scenes`.
    """
    (images, labels), test = load_pictures(directory)
    # Choices are made on pictures that nothing was trained on.
    cut = len(images) * 11 // 12
    parts = [(images[:cut], labels[:cut]), (images[cut:], labels[cut:]), test]
    train, development, test = (
        make(pictures, names, size, np.random.default_rng([seed, number]))
        for number, ((pictures, names), size) in enumerate(zip(parts, sizes, strict=True))
    )
    return train, development, test


def load_pictures(directory=None):
    """`(images, labels), (test images, test labels)`, uint8 `(N, 28, 28)` and `(N,)`."""
    directory = Path(directory or DEBIAN)
    if not directory.is_dir():
        return keras.datasets.fashion_mnist.load_data()
    train_images, train_labels, images, labels = (read(directory / f) for f in FILES)
    return (train_images, train_labels), (images, labels)


def read(path) -> np.ndarray:
    """A compressed file of MNIST's format as an array."""
    with gzip.open(path) as file:
        content = file.read()
    axes = content[3]
    shape = np.frombuffer(content, ">i4", axes, 4)
    return np.frombuffer(content, "uint8", offset=4 + 4 * axes).reshape(shape)


def make(images, labels, number: int, generator: np.random.Generator) -> Scenes:
    """Makes scenes of pictures.

    Args:
        images: uint8 `(N, 28, 28)`.
        labels: integers `(N,)`, places in `GARMENTS`.
        number: How many scenes.
        generator: What everything is drawn from.

    Returns:
        `Scenes`.
    """
    canvases = np.zeros((number, CANVAS, CANVAS, 1), "uint8")
    captions, corners = [], []
    for canvas in canvases[..., 0]:
        places = _places(generator)
        chosen = generator.integers(len(images), size=len(places))
        _strew(canvas, images, generator)
        for (row, column), picture in zip(places, chosen, strict=True):
            window = canvas[row : row + GARMENT, column : column + GARMENT]
            np.maximum(window, images[picture], out=window)
        captions.append(caption([GARMENTS[labels[picture]] for picture in chosen], places))
        corners.append(places)
    return Scenes(canvases, captions, corners)


def caption(garments, corners) -> str:
    """The caption of garments in the order of their columns.

    >>> caption(["sandal", "coat", "bag"], [(0, 0), (3, 40), (50, 47)])
    'a sandal left of a coat above a bag'
    """
    words = [f"a {garments[0].replace('-', '')}"]
    for garment, before, after in zip(garments[1:], corners, corners[1:], strict=False):
        down, right = after[0] - before[0], after[1] - before[1]
        relation = "left of" if right > abs(down) else "above" if down > 0 else "below"
        words.append(f"{relation} a {garment.replace('-', '')}")
    return " ".join(words)


def _places(generator, tries: int = 64):
    """Corners from left to right, with a caption that nobody can doubt."""
    number = generator.integers(2, 5)
    same = np.eye(number, dtype=bool)
    while True:
        places = generator.integers(CANVAS - GARMENT + 1, size=(tries, number, 2))
        order = np.argsort(places[..., 1], axis=1)
        places = np.take_along_axis(places, order[..., None], axis=1)
        gaps = np.abs(places[:, :, None] - places[:, None])
        apart = ((gaps >= GARMENT).any(-1) | same).all((1, 2))
        down, right = np.moveaxis(np.abs(np.diff(places, axis=1)), -1, 0)
        clear = ((right >= 4) & (np.abs(right - down) >= 6)).all(1)
        if (apart & clear).any():
            return places[np.argmax(apart & clear)]


def _strew(canvas, images, generator, scraps: int = 6):
    """Puts scraps of pictures on an empty canvas."""
    for _ in range(scraps):
        picture = images[generator.integers(len(images))]
        (row, column), (top, left) = (
            generator.integers(side - SCRAP + 1, size=2) for side in (GARMENT, CANVAS)
        )
        scrap = picture[row : row + SCRAP, column : column + SCRAP]
        canvas[top : top + SCRAP, left : left + SCRAP] = scrap
