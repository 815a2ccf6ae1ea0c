"""Multi30k: captions of pictures in German and English, the raw lines of task 1.

For research and education only, by its licence; no part of it is in this package.
"""

import gzip
from pathlib import Path

import keras

Part = tuple[list[str], list[str]]

ORIGIN = "https://raw.githubusercontent.com/multi30k/dataset/master/data/task1/raw"
PARTS = ("train", "val", "test_2016_flickr")
LANGUAGES = ("de", "en")


def load(folder: str | Path | None = None) -> tuple[Part, Part, Part]:
    """Loads the captions, split as published.

    Args:
        folder: Where files such as `train.de` or `train.de.gz` are. `None` downloads them
            (needs a network) into Keras's own folder.

    Returns:
        `(train, validation, test)`: 29,000, 1,014 and 1,000 captions, each part a pair of
        lists of strings, German and English.

    Raises:
        FileNotFoundError: If a file is missing in the folder.
        ValueError: If two languages of a part differ in their number of lines.
    """
    train, validation, test = (_part(name, folder) for name in PARTS)
    return train, validation, test


def _part(name, folder) -> Part:
    files = [f"{name}.{language}" for language in LANGUAGES]
    german, english = (_lines(_find(file, folder)) for file in files)
    if len(german) != len(english):
        raise ValueError(
            f"Expected as many lines in {files[0]} as in {files[1]}. "
            f"Received: {len(german)} and {len(english)}"
        )
    return german, english


def _find(file: str, folder) -> Path:
    if folder is None:
        packed = f"{file}.gz"
        found = keras.utils.get_file(
            packed, f"{ORIGIN}/{packed}", cache_subdir="datasets/multi30k"
        )
        return Path(found)
    for path in (Path(folder) / file, Path(folder) / f"{file}.gz"):
        if path.exists():
            return path
    raise FileNotFoundError(f"Expected {file} or {file}.gz in a folder. Received: {folder}")


def _lines(path: Path) -> list[str]:
    """The lines, not split at the other signs that Python takes for line breaks."""
    packed = path.suffix == ".gz"
    content = gzip.decompress(path.read_bytes()) if packed else path.read_bytes()
    return content.decode("utf-8").removesuffix("\n").split("\n")
