"""The command line: `python -m keras_attention demo`, and the shipped models.

Every figure printed is a percentage unless its name says otherwise.
"""

import argparse
import contextlib
import inspect
import json
import logging
import shlex
import sys
from pathlib import Path

from keras_attention import recipes
from keras_attention.recipes import demo


class Parser(argparse.ArgumentParser):
    """Says what is wrong in one line; how to call a command is what `--help` is for."""

    def error(self, message):
        self.exit(2, f"error: {message} (see {self.prog} --help)\n")


def main(arguments=None) -> int:
    """Runs one command; a user's mistake is one line on standard error and a 2."""
    options = _parser().parse_args(arguments)
    try:
        options.command(options)
    except (ImportError, OSError, ValueError) as error:
        print(f"error: {' '.join(str(error).split())}", file=sys.stderr)
        return 2
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = Parser(prog="python -m keras_attention", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    one = _add(commands, "demo", _demo, "train on real text, save, load, see the weights")
    one.add_argument("--text", default=demo.SAMPLE, help="the text to show weights of")
    one.add_argument("--output", default="demo_output", help="folder for the files")
    one.add_argument(
        "--data",
        default="rotten_tomatoes",
        help="rotten_tomatoes, imdb (needs a network) or FILE.csv (text,label)",
    )
    one = _add(commands, "models", _models, "list the trained models")
    _add_directory(one)

    one = _add(commands, "show", _show, "predict one input and show where it looked")
    one.add_argument("name", help="a name that `models` lists")
    one.add_argument("input", help="what the model reads: `models` has an example of each")
    one.add_argument("--plot", metavar="FILE", help="write a picture too")
    one.add_argument("--html", metavar="FILE", help="write a page too")
    _add_directory(one)

    one = _add(commands, "evaluate", _evaluate, "measure a model on held-out data")
    one.add_argument("name", help="a name that `models` lists")
    one.add_argument("--limit", type=_positive, metavar="N", help="use N examples only")
    one.add_argument("--json", action="store_true", help="print one line of JSON")
    _add_directory(one)
    _add_data(one)

    one = _add(commands, "train", _train, "train a shipped model again")
    one.add_argument("name", help=f"one of: {', '.join(recipes.names())}")
    one.add_argument("--output", default="saved_models", help="folder for the files")
    _add_data(one)
    return parser


def _add(commands, name, command, description):
    parser = commands.add_parser(name, help=description, description=description)
    parser.set_defaults(command=command)
    return parser


def _add_directory(parser):
    parser.add_argument(
        "--directory",
        default="saved_models" if Path("saved_models").is_dir() else None,
        help="folder of the models (default: saved_models here, else the package's)",
    )


def _add_data(parser):
    parser.add_argument(
        "--data", metavar="FOLDER", help="the data's folder, for a model that reads one"
    )


def _data(options, function) -> dict[str, str]:
    """`--data` as an argument of a recipe's function, if it was given."""
    if options.data is None:
        return {}
    if "data" not in inspect.signature(function).parameters:
        raise ValueError(
            f"Expected no --data: {options.name} reads no folder. Received: {options.data}"
        )
    return {"data": options.data}


def _positive(argument: str) -> int:
    if not argument.isdecimal() or int(argument) < 1:
        raise argparse.ArgumentTypeError(f"expected a number above 0, got {argument}")
    return int(argument)


def _demo(options):
    demo.run(options.text, options.output, options.data)


def _models(options):
    directory = Path(options.directory or recipes.SAVED_MODELS)
    if not directory.is_dir():
        raise ValueError(f"Expected a folder of models. Received: {directory}")
    trained = [n for n in recipes.names() if (directory / f"{n}.json").exists()]
    for name in trained:
        description = recipes.describe(name, directory)
        print(f"{name}: {description['model']}")
        print(f"  data: {description['data']}")
        print(f"  held out: {_figures(description['figures'])}")
        if name in recipes.EXAMPLES:
            example = shlex.quote(recipes.EXAMPLES[name])
            print(f"  try: python -m keras_attention show {name} {example}")
    if not trained:
        print(f"No trained models in {directory}")


def _show(options):
    recipe = recipes.get(options.name)
    files = dict(plot=options.plot, html=options.html)
    recipe.show(options.input, **files, directory=options.directory)


def _evaluate(options):
    recipe = recipes.get(options.name)
    # Standard output is for the figures, whatever else a recipe or Keras prints.
    with contextlib.redirect_stdout(sys.stderr):
        figures = recipe.evaluate(
            limit=options.limit,
            directory=options.directory,
            **_data(options, recipe.evaluate),
        )
    print(json.dumps(figures) if options.json else _figures(figures))


def _train(options):
    train = recipes.get(options.name).train
    print(_figures(train(options.output, **_data(options, train))))


def _figures(figures) -> str:
    return ", ".join(
        f"{name.replace('_', ' ')} "
        # Some figures are one for each of several parts, such as tasks.
        + (f"({_figures(value)})" if isinstance(value, dict) else _percent(value))
        for name, value in figures.items()
    )


def _percent(value) -> str:
    # Of small shares the second place tells most.
    return f"{value:.2f}%" if 0 < value < 1 else f"{value:.1f}%"


def _draw_without_display():
    """Pictures go into files. Without matplotlib, a plot says what to install."""
    with contextlib.suppress(ImportError):
        import matplotlib

        matplotlib.use("agg")


if __name__ == "__main__":
    logging.getLogger("tensorflow").setLevel(logging.ERROR)
    _draw_without_display()
    sys.exit(main())
