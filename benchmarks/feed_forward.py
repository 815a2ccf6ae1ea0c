"""Adding and multiplying two marked numbers: attention and mean pooling beside the paper's.

    python benchmarks/feed_forward.py [--lengths N ...] [--tasks NAME ...]
        [--poolings NAME ...] [--rates N ...] [--epochs N] [--variable]

Raffel and Ellis, 2015, arXiv:1512.08756. A step is a number and a mark, 1 at the two steps
whose numbers are asked for, else 0, -1 at the first and last step; the first of the two is
one of the first ten steps, the other one of the first half. A sequence has T0 to 1.1 T0
steps. Sums are of numbers from -1 to 1 and scaled, 0.5 + (a + b) / 4; products are of
numbers from 0 to 1 (Hochreiter and Schmidhuber, 1997). An epoch is 1,000 batches of 100;
the task is solved when the errors of all 1,000 test sequences are under .04. Printed is the
number of epochs to solve it, at the best of the learning rates.

With --variable the lengths are from 50 to the largest of --lengths in every batch, and the
share of test sequences with an error under .04 is printed after one epoch.
"""

import argparse
import time

import keras
import numpy as np

from keras_attention.models import FeedForwardAttention
from keras_attention.models.feed_forward import POOLINGS

# Epochs to solve at T0 = 50, 100, 500, 1000, 5000, 10000; in text: never, and its accuracy.
LENGTHS = (50, 100, 500, 1000, 5000, 10000)
PAPER = {
    ("addition", "attention"): ("1", "1", "1", "1", "2", "3"),
    ("addition", "mean"): ("1", "1", "1", "2", "8", "17"),
    ("multiplication", "attention"): ("1", "2", "4", "2", "15", "6"),
    ("multiplication", "mean"): ("2", "2", "8", "33", "89.8%", "80.8%"),
}
RATES = (0.003, 0.001, 0.01, 0.0003)
BATCH, TESTED, SOLVED = 100, 1_000, 0.04


def sequences(generator, task, number, shortest, longest):
    """`((steps (B, T, 2), mask (B, T)), targets (B, 1))`."""
    lengths = generator.integers(shortest, longest + 1, number)
    low = -1.0 if task == "addition" else 0.0
    values = generator.uniform(low, 1.0, (number, longest))
    marks = np.zeros((number, longest))
    rows = np.arange(number)
    marks[:, 0] = marks[rows, lengths - 1] = -1
    first = generator.integers(0, 10, number)
    # The second is drawn from one place fewer, and moved on past the first.
    second = generator.integers(0, lengths // 2 - 1)
    second += second >= first
    marks[rows, first] = marks[rows, second] = 1
    a, b = values[rows, first], values[rows, second]
    targets = 0.5 + (a + b) / 4 if task == "addition" else a * b
    steps = np.stack([values, marks], axis=-1).astype("float32")
    mask = np.arange(longest) < lengths[:, None]
    return (steps, mask), targets[:, None].astype("float32")


class Batches(keras.utils.PyDataset):
    """Fresh sequences for each of `number` batches."""

    def __init__(self, number, seed, *what):
        super().__init__()
        self.number, self.what = number, what
        self.generator = np.random.default_rng(seed)

    def __len__(self):
        return self.number

    def __getitem__(self, index):
        task, shortest, longest = self.what
        return sequences(self.generator, task, BATCH, shortest, longest)


def errors_of(model, task, shortest, longest):
    """The error of each test sequence."""
    test, targets = sequences(np.random.default_rng(1), task, TESTED, shortest, longest)
    return np.abs(model.predict(test, BATCH, verbose=0) - targets)


def train(task, pooling, shortest, longest, rate, epochs, steps, until_solved=True):
    """Trains one model: the epochs it took, or `None`, and its last test errors."""
    keras.utils.set_random_seed(0)
    model = FeedForwardAttention(100, pooling=pooling)
    jit = keras.backend.backend() == "jax"
    model.compile(keras.optimizers.Adam(rate), "mse", jit_compile=jit)
    batches = Batches(steps, 0, task, shortest, longest)
    for epoch in range(1, epochs + 1):
        model.fit(batches, epochs=1, shuffle=False, verbose=0)
        errors = errors_of(model, task, shortest, longest)
        if until_solved and errors.max() < SOLVED:
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
        epoch, errors = train(
            task, pooling, length, round(1.1 * length), rate, limit, steps
        )
        share = max(share, float((errors < SOLVED).mean()))
        if epoch is not None:
            best, found_at = epoch, rate
    if found_at is None:
        return f"{100 * share:.1f}% after {epochs}"
    return f"{best} (rate {found_at})"


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
                longest, start = max(options.lengths), time.monotonic()
                _, errors = train(
                    task, pooling, 50, longest, 0.001, 1, options.steps, False
                )
                ours = f"{100 * float((errors < SOLVED).mean()):.1f}% within .04"
                _report(task, pooling, f"50 to {longest}", ours, "", start)
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
