"""Photographs with captions, as Flickr8k and COCO come: a folder and a file of captions.

A part of the data is `Captioned`: the pictures' files, and all captions of each. Neither
data set is part of the package; both have their own conditions of use.
"""

import json
from pathlib import Path
from typing import NamedTuple

import keras
import numpy as np

from keras_attention import text


class Captioned(NamedTuple):
    """Pictures and what is said about them.

    Attributes:
        files: paths of the pictures.
        captions: for each picture, the list of its captions: lower-case words and blanks.
    """

    files: list[Path]
    captions: list[list[str]]


def load_flickr8k(captions, images, names=None) -> Captioned:
    """Loads Flickr8k, or what has its form.

    Args:
        captions: `Flickr8k.token.txt`: on each line `NAME.jpg#NUMBER`, a tab, a caption.
        images: The folder of the pictures.
        names: A file with the names of a part's pictures, one on each line, such as
            `Flickr_8k.trainImages.txt`. `None` for all.

    Returns:
        `Captioned`, in the order of `names`, or of the captions. Pictures that are not in
        the folder are left out (one of Flickr8k's is missing).

    Raises:
        ValueError: For a line of another form, or if no picture is left.
    """
    listed: dict[str, list[str]] = {}
    for number, line in enumerate(_lines(captions), start=1):
        head, tab, caption = line.partition("\t")
        name, sign, _ = head.rpartition("#")
        if not tab or not sign:
            raise ValueError(
                f"Expected `NAME.jpg#NUMBER<tab>CAPTION` on line {number} of {captions}. "
                f"Received: {line!r}"
            )
        listed.setdefault(name, []).append(_plain(caption))
    wanted = list(listed) if names is None else list(_lines(names))
    return _existing([(name, listed[name]) for name in wanted if name in listed], images)


def load_coco(captions, images) -> Captioned:
    """Loads a part of COCO, or what has its form.

    Args:
        captions: `captions_train2017.json` or the like: `images` with `id` and
            `file_name`, `annotations` with `image_id` and `caption`.
        images: The folder of the pictures, `train2017` or the like.

    Returns:
        `Captioned`, in the file's order. Pictures without a caption, or not in the folder,
        are left out.

    Raises:
        ValueError: If the file is of another form, or no picture is left.
    """
    content = json.loads(Path(captions).read_text("utf-8"))
    try:
        names = {entry["id"]: entry["file_name"] for entry in content["images"]}
        listed: dict[int, list[str]] = {number: [] for number in names}
        for entry in content["annotations"]:
            listed[entry["image_id"]].append(_plain(entry["caption"]))
    except (KeyError, TypeError) as error:
        raise ValueError(
            "Expected `images` with `id` and `file_name`, and `annotations` with "
            f"`image_id` and `caption`, in {captions}. Received: none for {error}"
        ) from error
    return _existing([(names[n], found) for n, found in listed.items() if found], images)


def vocabulary_of(data: Captioned, size: int = 10_000) -> list[str]:
    """The most frequent words of the captions.

    >>> vocabulary_of(Captioned([], [["a dog", "a wet dog"]]), 2)
    ['a', 'dog']
    """
    words = [caption.split() for several in data.captions for caption in several]
    return text.build_vocabulary(words, size)


class Batches(keras.utils.PyDataset):
    """Batches for `ImageCaptioner.fit`, whose pictures are read when they are needed.

    Each caption is an example; all captions are padded to the longest one.

    Args:
        model: An `ImageCaptioner`.
        data: `Captioned`.
        size: `(height, width)` that pictures are resized to.
        batch_size: Captions in a batch.
        seed: Integer to draw other batches in every epoch; `None` for the data's order.
    """

    def __init__(self, model, data, size, batch_size=64, seed=None):
        super().__init__()
        self.files = [f for f, c in zip(*data, strict=True) for _ in c]
        captions = [caption for several in data.captions for caption in several]
        (_, self.before), self.after = model.encode_pairs(self.files, captions)
        self.size = size
        self.batch_size = batch_size
        self.order = np.arange(len(self.files))
        self.generator = None if seed is None else np.random.default_rng(seed)
        self.on_epoch_end()

    def __len__(self):
        return -(-len(self.files) // self.batch_size)

    def __getitem__(self, index):
        rows = self.order[index * self.batch_size :][: self.batch_size]
        images = read_images([self.files[row] for row in rows], self.size)
        return (images, self.before[rows]), self.after[rows]

    def on_epoch_end(self):
        if self.generator is not None:
            self.generator.shuffle(self.order)


def read_images(files, size) -> np.ndarray:
    """Pictures of files: uint8 `(N, height, width, 3)`; needs Pillow."""
    load = keras.utils.load_img
    return np.stack([np.asarray(load(file, target_size=size), "uint8") for file in files])


def _existing(pairs, images) -> Captioned:
    found = [(Path(images) / name, several) for name, several in pairs]
    found = [(file, several) for file, several in found if file.is_file()]
    if not found:
        raise ValueError(
            f"Expected pictures with captions in {images}. Received: captions of "
            f"{len(pairs)} pictures, none of which is there"
        )
    files, captions = zip(*found, strict=True)
    return Captioned(list(files), list(captions))


def _plain(caption: str) -> str:
    return " ".join(text.tokenize(caption))


def _lines(path):
    content = Path(path).read_text("utf-8").splitlines()
    return (line.strip() for line in content if line.strip())
