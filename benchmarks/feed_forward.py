"""Adding and multiplying two marked numbers: attention and mean pooling beside the paper's.

    python benchmarks/feed_forward.py [--lengths N ...] [--tasks NAME ...]
        [--poolings NAME ...] [--rates N ...] [--epochs N] [--variable]

Raffel and Ellis, 2015, arXiv:1512.08756; the tasks are those of `recipes.addition`. An
epoch is 1,000 batches of 100; the task is solved when the errors of all 1,000 test
sequences are under .04. Printed is the number of epochs to solve it, at the best of the
learning rates, which do not fall.

With --variable the lengths are from 50 to the largest of --lengths in every batch; the
share of such test sequences with an error under .04 is printed after --epochs epochs, in
which the first of the rates falls to 0.
"""

import argparse
import time

import keras

from keras_attention.models.feed_forward import POOLINGS
from keras_attention.recipes import addition as recipe

# Epochs to solve at T0 = 50, 100, 500, 1000, 5000, 10000; in text: never, and its accuracy.
LENGTHS = (50, 100, 500, 1000, 5000, 10000)
PAPER = {
    ("addition", "attention"): ("1", "1", "1", "1", "2", "3"),
    ("addition", "mean"): ("1", "1", "1", "2", "8", "17"),
    ("multiplication", "attention"): ("1", "2", "4", "2", "15", "6"),
    ("multiplication", "mean"): ("2", "2", "8", "33", "89.8%", "80.8%"),
}
RATES = (0.003, 0.001, 0.01, 0.0003)


def train(task, pooling, lengths, rate, epochs, steps, until_solved=True):
    """Trains one model: the epochs it took, or `None`, and its last test errors."""
    keras.utils.set_random_seed(0)
    model = recipe.create(pooling)
    recipe.compile_model(model, rate)
    batches = recipe.Batches(steps, 0, task, *lengths)
    for epoch in range(1, epochs + 1):
        model.fit(batches, epochs=1, shuffle=False, verbose=0)
        errors = recipe.errors_of(model, task, lengths)
        if until_solved and errors.max() < recipe.SOLVED:
            return epoch, errors
    return None, errors


def solve(task, pooling, length, epochs, steps, rates=RATES):
    """The fewest epochs over the learning rates, as text, or the best accuracy."""
    best, share, found_at = epochs + 1, 0.0, None
    for rate in rates:
        # No rate needs longer than the best one so far.
        limit = min(epochs, best - 1)
        if limit == 0:
            break
        lengths = recipe.range_of(length)
        epoch, errors = train(task, pooling, lengths, rate, limit, steps)
        share = max(share, float((errors < recipe.SOLVED).mean()))
        if epoch is not None:
            best, found_at = epoch, rate
    if found_at is None:
        return f"{100 * share:.1f}% after {epochs}"
    return f"{best} (rate {found_at})"


def share_of_mixed(task, pooling, lengths, rate, epochs, steps):
    """The share of right answers in percent, at a rate that falls to 0."""
    falling = keras.optimizers.schedules.CosineDecay(rate, epochs * steps)
    _, errors = train(task, pooling, lengths, falling, epochs, steps, until_solved=False)
    return 100 * float((errors < recipe.SOLVED).mean())


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--lengths", type=int, nargs="+", default=list(LENGTHS[:4]))
    tasks = ["addition", "multiplication"]
    parser.add_argument("--tasks", nargs="+", choices=tasks, default=tasks)
    parser.add_argument("--poolings", nargs="+", choices=POOLINGS, default=POOLINGS)
    parser.add_argument("--rates", type=float, nargs="+", default=RATES)
    parser.add_argument("--epochs", type=int, default=10, help="give up after so many")
    parser.add_argument("--steps", type=int, default=1_000, help="batches an epoch")
    parser.add_argument("--variable", action="store_true")
    options = parser.parse_args(arguments)
    for task in options.tasks:
        for pooling in options.poolings:
            if options.variable:
                start = time.monotonic()
                lengths = (50, max(options.lengths))
                limits = options.epochs, options.steps
                share = share_of_mixed(task, pooling, lengths, options.rates[0], *limits)
                ours = f"{share:.1f}% within .04"
                _report(task, pooling, f"{lengths[0]} to {lengths[1]}", ours, "", start)
                continue
            for length in options.lengths:
                start = time.monotonic()
                limits = options.epochs, options.steps, options.rates
                ours = solve(task, pooling, length, *limits)
                published = dict(zip(LENGTHS, PAPER[task, pooling], strict=True))
                known = f", paper {published[length]}" if length in published else ""
                _report(task, pooling, f"T0 = {length}", ours, known, start)


def _report(task, pooling, length, ours, known, start):
    seconds = time.monotonic() - start
    line = f"{task}, {pooling}, {length}: ours {ours}{known} ({seconds:.0f} s)"
    print(line, flush=True)


if __name__ == "__main__":
    main()
