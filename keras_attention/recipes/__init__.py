"""The shipped models: how each was trained, what it reaches, how to look at it.

A recipe is a module with three functions:

* `train(output, ...)` writes the `.keras` files and `NAME.json` into a folder;
* `evaluate(limit=None, directory=None)` returns a dict of figures on held-out data;
* `show(inputs, plot=None, directory=None)` prints a prediction and where it looked.

`NAME.json` describes a trained model: `data`, `figures`, `training` and `command`.
A new recipe is one module and a line in `RECIPES` and in `EXAMPLES`.
"""

import importlib
import json
import time
from pathlib import Path

import keras

from keras_attention.recipes import portable

RECIPES = {
    "reviews": "keras_attention.recipes.reviews",
    "g2p": "keras_attention.recipes.g2p",
    "verses": "keras_attention.recipes.verses",
    "captioner": "keras_attention.recipes.captioner",
    "babi": "keras_attention.recipes.babi",
    "countries": "keras_attention.recipes.countries",
    "addition": "keras_attention.recipes.addition",
    "bags": "keras_attention.recipes.bags",
    "copy": "keras_attention.recipes.copying",
}

# What each of them can be shown.
EXAMPLES = {
    "reviews": "What a wonderful film! I loved it.",
    "g2p": "attention",
    "verses": "en el principio era la palabra",
    "captioner": "0",
    "babi": "Mary went to the garden. John went to the office. Where is Mary?",
    "countries": "what is the capital of Peru",
    "addition": "0.1 0.5* -0.9 0.25* 0.3",
    "bags": "3 1 9 4",
    "copy": "Attention!",
}

# A checkout of the repository has it beside the package.
SAVED_MODELS = Path(__file__).resolve().parents[2] / "saved_models"


def names():
    """The names of all shipped models.

    >>> "reviews" in names()
    True
    """
    return list(RECIPES)


def get(name):
    """The module with `train`, `evaluate` and `show` of a shipped model.

    Raises:
        ValueError: If there is no such model.
    """
    if name not in RECIPES:
        raise ValueError(f"Expected a model's name, one of {names()}. Received: {name!r}")
    return importlib.import_module(RECIPES[name])


def path(file, directory=None):
    """Where a file of a shipped model is.

    Args:
        file: Its name, such as `"reviews.keras"`.
        directory: Another folder than `saved_models`, e.g. what `train` wrote. Without
            one, where the package was installed without that folder, the file may lie
            in the working directory, or in a `saved_models` in, beside or below it.

    Raises:
        FileNotFoundError: If it is not there.
    """
    folders = [Path(directory)] if directory else [SAVED_MODELS, *_folders_around()]
    for folder in folders:
        if (folder / file).exists():
            return folder / file
    raise FileNotFoundError(
        f"Expected the trained model {folders[0] / file}, which comes with a checkout of "
        "the repository. Train it: python -m keras_attention train "
        f"{Path(file).stem.partition('_')[0]} --output {folders[0]}"
    )


def _folders_around():
    """Where a notebook finds a checkout's models, or those that lie next to it."""
    here, name = Path(), SAVED_MODELS.name
    return [here, here / name, here / ".." / name, *sorted(here.glob(f"*/{name}"))]


def describe(name, directory=None):
    """What a trained model was trained on and reaches: the dict in `NAME.json`."""
    return json.loads(path(f"{name}.json", directory).read_text("utf-8"))


def write_description(name, directory, description):
    """Writes `NAME.json` beside the model."""
    file = Path(directory) / f"{name}.json"
    file.write_text(json.dumps(description, indent=2) + "\n", "utf-8")


class Output:
    """The folder that a recipe writes into, and how long the training takes.

    Args:
        name: Of the recipe; its files are `NAME.keras` and `NAME.json`.
        folder: A path.
    """

    def __init__(self, name, folder):
        self.name, self.folder = name, Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        self.start = time.monotonic()

    def save(self, model):
        """Writes the model, and stops the clock."""
        portable.save(model, self.folder / f"{self.name}.keras")
        self.minutes = round((time.monotonic() - self.start) / 60, 1)

    def describe(self, model, data, figures, **settings):
        """Writes what `describe` reads: two texts, the figures, how it was trained."""
        description = {
            "model": model,
            "data": data,
            "figures": figures,
            "training": settings
            | {"minutes": self.minutes, "backend": keras.backend.backend()},
            "command": f"python -m keras_attention train {self.name} --output saved_models",
        }
        write_description(self.name, self.folder, description)


def extremes_first(batches, sizes):
    """The batches, one of the smallest and one of the largest first.

    Keras's trainer for TensorFlow reads off the first two batches which axes vary.

    >>> extremes_first(["b", "c", "a"], [2, 3, 1])
    ['c', 'a', 'b']
    """
    ends = sorted({sizes.index(min(sizes)), sizes.index(max(sizes))}) if sizes else []
    rest = [batch for place, batch in enumerate(batches) if place not in ends]
    return [batches[place] for place in ends] + rest


def without_optimizer(model, shape=(None, None, None)):
    """The same model, not compiled: a file of a third of the size."""
    copy = type(model).from_config(model.get_config())
    copy.build(shape)
    copy.set_weights(model.get_weights())
    return copy
