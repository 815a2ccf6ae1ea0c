"""docs/papers.md: what it says to write does run, and it leaves no paper out."""

import re

import keras
import numpy as np
import pytest
from conftest import ROOT
from test_docs import code_blocks, run_block, unnamed

import keras_attention

PAGE = (ROOT / "docs" / "papers.md").read_text()
PAPER = re.compile(r"arXiv:\d{4}\.\d{4,5}|doi:10\.[\w./]+\w")


def spellings(markdown):
    """The code in the last cell of each row of the tables."""
    rows = re.findall(r"^\|.*\|$", markdown, re.MULTILINE)
    cells = [row[:-1].rpartition("|")[2] for row in rows if "---" not in row]
    return [code for cell in cells for code in re.findall(r"`([^`]+)`", cell)]


def is_python(code):
    return not code.startswith("python -m")


CODE = list(dict.fromkeys(filter(is_python, spellings(PAGE))))


@pytest.fixture(scope="module")
def names():
    """What the page's own code defines; the rows change nothing in it."""
    keras.utils.set_random_seed(0)
    namespace = {}
    for line, code, _ in code_blocks(PAGE):
        run_block(line, code, namespace)
    return namespace


@pytest.mark.parametrize("code", CODE)
def test_spelling_runs(code, names):
    found = [
        part for part in keras.tree.flatten(eval(code, dict(names))) if part is not None
    ]
    assert found
    for part in found:
        numbers = 0.0 if isinstance(part, str) else keras.ops.convert_to_numpy(part)
        assert np.isfinite(numbers).all()


def test_the_chinese_readme_spells_alike():
    chinese = spellings((ROOT / "README.zh.md").read_text())
    complete = [code for code in chinese if code.count("(") > 1]
    assert complete
    assert set(complete) <= set(CODE)


def papers(source):
    return set(PAPER.findall(" ".join(source.split())))


def test_every_paper_of_the_package_has_a_row():
    sources = (ROOT / "keras_attention").rglob("*.py")
    cited = {paper for path in sources for paper in papers(path.read_text())}
    assert cited - papers(PAGE) == set()


def test_every_score_normalizer_and_model_has_a_row():
    modules = keras_attention.scores, keras_attention.normalizers
    registered = [name for module in modules for name in module.names()]
    models = set(keras_attention.models.__all__) - {"LinearStart", "MeanPooling"}
    names = [name.lower() for name in (*registered, *sorted(models))]
    written = " ".join(CODE).lower().replace("score(", "(")  # LocationScore: location
    assert unnamed(names, written) == []


def test_spellings_are_found():
    table = "| paper | here |\n|---|---|\n| A `b` | `f(x)` or `g(x)` |\ntext `h(x)`\n"
    assert spellings(table) == ["f(x)", "g(x)"]


def test_papers_are_found():
    assert papers("A, 2015\n(arXiv:1409.0473); B (doi:10.1007/BF00992696).") == {
        "arXiv:1409.0473",
        "doi:10.1007/BF00992696",
    }
