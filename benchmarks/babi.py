"""bAbI, 1k setting: memory networks of one and of three hops beside the paper's errors.

    python benchmarks/babi.py [--data FOLDER] [--restarts N] [--columns NAME ...]

Three columns, each with the paper's own beside it: a network of three hops for each task,
one of three hops for all tasks together, and one of a single hop for all together. Each is
trained from several starts; `best` is the one with the lowest training error, which is
what the paper reports (of 10), `mean` the average over all of them.

With KERAS_BACKEND=jax all starts are trained at once, see `together.py`.
"""

import argparse
import json
import statistics
import time
from pathlib import Path

import keras
import numpy as np

from keras_attention.recipes import babi as recipe

if keras.backend.backend() == "jax":
    from together import fit_restarts
else:
    from keras_attention.recipes.babi import fit_restarts

# Sukhbaatar et al., 2015, arXiv:1503.08895, table 1: errors in percent of tasks 1 to 20,
# with position encoding and linear start, the two of three hops with random noise as well.
# The joint columns are also in the README of the repository ssamot/distnet, as accuracies.
PAPER = {
    "three hops": "0.1 8.2 41.8 4.4 13.7 7.9 20.3 11.7 13.6 9.7 "
    "0.7 0.0 0.3 0.9 0.0 0.4 51.0 10.5 81.4 0.0",
    "three hops, joint": "0.0 11.4 21.9 13.4 14.4 2.8 18.3 9.3 1.9 6.5 "
    "0.3 0.1 0.2 6.9 0.0 2.7 40.4 9.4 88.0 0.0",
    "one hop, joint": "0.8 62.0 76.9 22.8 11.0 7.2 15.9 13.2 5.1 10.6 "
    "8.4 0.4 6.3 36.9 46.4 47.4 44.4 9.6 90.7 0.0",
}
SETTINGS = {
    "three hops": {"hops": 3},
    "three hops, joint": {"hops": 3, "embedding_dim": 50},
    "one hop, joint": {"hops": 1, "embedding_dim": 50, "noise": 0.0},
}


def paper(column):
    """The paper's errors of a column by task."""
    return dict(enumerate(map(float, PAPER[column].split()), start=1))


def run(column, parts, restarts, epochs, report):
    """`{task: {"best": error, "mean": error}}` of one column."""
    groups = [parts] if "joint" in column else [{task: parts[task]} for task in parts]
    found = {}
    for group in groups:
        start = time.monotonic()
        found |= train_group(group, restarts, epochs, SETTINGS[column])
        seconds = time.monotonic() - start
        report(f"{column}, {', '.join(map(str, group))}: {seconds:.0f} s")
    return found


def train_group(group, restarts, epochs, settings):
    """Trains one network on some tasks from several starts; the test errors by task."""
    training = [question for train, _ in group.values() for question in train]
    tests = [question for _, test in group.values() for question in test]
    model = recipe.create(recipe.vocabulary_of(training + tests), **settings)
    stories, questions = recipe.encode(model, tests)[0]
    targets = model.encode_answers([question.answer for question in tests])
    task_of = np.repeat(list(group), [len(test) for _, test in group.values()])
    runs = []

    def measure(model):
        said = model.predict((stories, questions), 250, verbose=0).argmax(axis=-1)
        wrong = said != targets
        runs.append({task: 100 * wrong[task_of == task].mean() for task in group})

    errors = fit_restarts(model, training, range(restarts), epochs, after_each=measure)
    best = runs[int(np.argmin(errors))]
    return {
        task: {
            "best": round(float(best[task]), 2),
            "mean": round(statistics.fmean(float(one[task]) for one in runs), 2),
        }
        for task in group
    }


def table(results, restarts):
    """The errors as lines of text, with means over the tasks that there are."""
    columns = list(results)
    heads = [f"{column:^24}" for column in columns]
    lines = [
        f"errors in percent; best and mean of {restarts} starts; the paper's best of 10",
        "task " + " ".join(heads),
        "     " + " ".join(f"{'best':>8}{'mean':>8}{'paper':>8}" for _ in columns),
    ]
    rows = {
        column: [
            (task, ours["best"], ours["mean"], paper(column)[task])
            for task, ours in results[column].items()
        ]
        for column in columns
    }
    for number, (task, *_) in enumerate(rows[columns[0]]):
        cells = [rows[column][number][1:] for column in columns]
        lines.append(f"{task:>4} " + " ".join(_row(cell) for cell in cells))
    means = [
        tuple(map(statistics.fmean, list(zip(*rows[column], strict=True))[1:]))
        for column in columns
    ]
    lines.append("mean " + " ".join(map(_row, means)))
    return lines


def _row(cell):
    return "".join(f"{error:8.1f}" for error in cell)


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", metavar="FOLDER", help="the tasks' files")
    parser.add_argument("--restarts", type=int, default=10)
    parser.add_argument("--epochs", type=int, default=recipe.EPOCHS)
    parser.add_argument("--limit", type=int, help="so many questions a task only")
    parser.add_argument("--columns", nargs="+", choices=PAPER, default=list(PAPER))
    parser.add_argument("--output", metavar="FILE", help="results as JSON, kept up to date")
    options = parser.parse_args(arguments)
    print(f"backend {keras.backend.backend()}", flush=True)
    parts = recipe.load(options.data, options.limit)
    results = {}
    for column in options.columns:
        results[column] = run(
            column,
            parts,
            options.restarts,
            options.epochs,
            lambda line: print(line, flush=True),
        )
        print(*table(results, options.restarts), sep="\n", flush=True)
        if options.output:
            Path(options.output).write_text(json.dumps(results, indent=1), "utf-8")


if __name__ == "__main__":
    main()
