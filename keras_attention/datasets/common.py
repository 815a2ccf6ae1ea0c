"""What several loaders need."""

import random
from pathlib import Path

from keras_attention import extras


def shuffled_places(count: int, seed: int) -> list[int]:
    """The numbers below `count` in an order that is the same everywhere and for ever.

    >>> shuffled_places(5, seed=0)
    [3, 2, 4, 1, 0]
    """
    # Python promises that these numbers never change; for a shuffle nobody does.
    generator = random.Random(seed)
    drawn = [generator.random() for _ in range(count)]
    return sorted(range(count), key=drawn.__getitem__)


def package_data(module: str, package: str, extra: str) -> Path:
    """The folder `data` of an installed package; for the arguments see `extras.load`."""
    file = extras.load(module, package, extra).__file__
    return Path(str(file)).parent / "data"
