"""What every test stands on: a backend, a seed, a fresh process."""

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

# Read when Keras and matplotlib are first imported, and by the fresh processes.
os.environ.setdefault("KERAS_BACKEND", "tensorflow")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("MPLBACKEND", "Agg")

import keras
import pytest

ROOT = Path(__file__).parent.parent


def pytest_addoption(parser):
    parser.addoption(
        "--some-pairs",
        action="store_true",
        help="the contract on each score and each normalizer, but not on every pair",
    )


@pytest.fixture(autouse=True)
def same_start():
    """Every test starts from the same random numbers and leaves no policy behind."""
    policy = keras.config.dtype_policy()
    keras.utils.set_random_seed(0)
    yield
    keras.config.set_dtype_policy(policy)


@pytest.fixture(scope="session")
def fresh_process():
    """`fresh_process(code, *arguments)` runs code in a new Python, returns its output.

    The code starts with `keras` and `keras_attention` imported and nothing else of
    the test's; it finds the arguments in `sys.argv[1:]`.
    """

    def run(code, *arguments):
        program = "import sys, keras, keras_attention\n" + textwrap.dedent(code)
        done = subprocess.run(
            [sys.executable, "-c", program, *map(str, arguments)],
            cwd=ROOT,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, f"The fresh process failed:\n{done.stderr}"
        return done.stdout

    return run


def assert_recipe_wrote(name, output, figures, capsys, *options):
    """A recipe's two files, what they say, and what `evaluate` prints of them."""
    from keras_attention import __main__, recipes

    names = sorted(file.name for file in output.iterdir())
    assert names == [f"{name}.json", f"{name}.keras"]
    assert recipes.describe(name, output)["figures"] == figures
    capsys.readouterr()
    command = ["evaluate", name, "--json", "--directory", str(output), *options]
    assert __main__.main(command) == 0
    assert json.loads(capsys.readouterr().out) == figures
