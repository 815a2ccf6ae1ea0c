"""Luong's scores and the additive one side by side, on Spanish to English verses.

    python benchmarks/verses_scores.py [--epochs N] [--longest N]
        [--scores dot,general,concat,additive]

Each trains the model of the recipe `verses` from the same first weights, but for the
score's own, with the same batches; figures are those of `evaluate verses`.
"""

import argparse
import sys
import tempfile
import time
from pathlib import Path

from keras_attention.datasets import verses as data
from keras_attention.recipes import verses

SCORES = ("dot", "general", "concat", "additive")
COLUMNS = {
    "bleu": "BLEU",
    "bleu_beam5": "beam of 5",
    "alignment_accuracy": "alignment",
    "alignment_error_rate": "AER",
}


def measure(parts, score, rounds):
    """The figures of a model trained with one score."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / verses.FILE
        model = verses.learn(parts, file, rounds, score, verbose=0)
    return verses.measure(model, parts[2])


def row(name, values):
    """A line of the table."""
    return f"  {name:10}" + "".join(f"{value:>11}" for value in values)


def main(arguments=None):
    parser = argparse.ArgumentParser(description="Scores side by side on verses.")
    parser.add_argument("--data", metavar="FOLDER", help="folder of the SWORD modules")
    parser.add_argument("--epochs", type=int, help="in one round (default: the recipe's)")
    parser.add_argument("--limit", type=int, help="use N verses of each part only")
    parser.add_argument("--longest", type=int, help="use verses of up to N tokens only")
    parser.add_argument("--scores", default=",".join(SCORES))
    options = parser.parse_args(arguments)
    try:
        loaded = data.load(options.data)
    except (ImportError, OSError) as error:
        sys.exit(str(error))
    parts = [
        [verse for verse in part if verses.fits(verse, options.longest)][: options.limit]
        for part in loaded
    ]
    sizes = f"{len(parts[0]):,} verses to train on, {len(parts[2]):,} to test"
    rounds = ((None, options.epochs),) if options.epochs else verses.ROUNDS
    epochs = sum(number for _, number in rounds)
    print(f"{sizes}, {epochs} epochs; figures in percent")
    print(row("score", COLUMNS.values()))
    for score in options.scores.split(","):
        start = time.monotonic()
        figures = measure(parts, score, rounds)
        values = [f"{figures[name]:.1f}" for name in COLUMNS]
        minutes = (time.monotonic() - start) / 60
        print(row(score, values), f"  {minutes:.0f} minutes", flush=True)
    print(f"A diagonal guess: alignment {figures['alignment_diagonal']:.1f}")


if __name__ == "__main__":
    main()
