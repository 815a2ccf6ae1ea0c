"""The package's shape, read from its source: imports go down only, and house rules.

Every check takes `{path: source}` and returns complaints, so that the tests below can
feed it bad source and see it complain.
"""

import ast
import graphlib
import importlib
import pkgutil
import re
import sys
from pathlib import PurePosixPath

import keras
import pytest
from conftest import ROOT

import keras_attention

PACKAGE = "keras_attention"
MAX_LINES = 350

# The map of the files in the package's docstring. A file imports files of a lower level
# only; a folder has one level for all its files.
LEVELS = {
    name: int(level)
    for name, level in re.findall(
        r"^ +(\w+) +(\d+)  ", keras_attention.__doc__, re.MULTILINE
    )
}
# The package itself gathers the public names, so only the command line stands above it.
LEVELS["__init__"] = LEVELS["__main__"] - 0.5
EVERYWHERE = sys.stdlib_module_names | {"keras", "numpy", PACKAGE}
BACKENDS = {"tensorflow", "jax", "torch"}


def read_package():
    paths = sorted((ROOT / PACKAGE).rglob("*.py"))
    return {p.relative_to(ROOT).as_posix(): p.read_text() for p in paths}


def module_name(path):
    """keras_attention/scores/__init__.py -> keras_attention.scores"""
    parts = PurePosixPath(path).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def unit(name):
    """What has a level: keras_attention.scores.base -> scores"""
    return [*name.split("."), "__init__"][1]


def imported(path, source, inside_functions=True):
    """The line and full dotted name of everything that a file imports."""
    folder = module_name(path).split(".")
    if not path.endswith("__init__.py"):
        folder = folder[:-1]
    found, nodes = [], [ast.parse(source)]
    while nodes:
        node = nodes.pop()
        if isinstance(node, ast.Import):
            found += [(node.lineno, alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            above = folder[: len(folder) + 1 - node.level] if node.level else []
            base = ".".join(above + [node.module] * bool(node.module))
            found += [(node.lineno, f"{base}.{alias.name}") for alias in node.names]
        is_function = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        if inside_functions or not is_function:
            nodes += ast.iter_child_nodes(node)
    return sorted(found)


def internal_imports(files):
    """Path, line, importing module and imported module, within the package."""
    modules = {module_name(path) for path in files} | {f"{PACKAGE}.{u}" for u in LEVELS}
    for path, source in files.items():
        for line, name in imported(path, source):
            if name.split(".")[0] == PACKAGE:
                while name not in modules and "." in name:
                    name = name.rpartition(".")[0]
                yield path, line, module_name(path), name


def check_levels(files):
    unknown = [path for path in files if unit(module_name(path)) not in LEVELS]
    if unknown:
        where = f"the map in the docstring of {PACKAGE}/__init__.py"
        return [f"{path}: has no level; add it to {where}" for path in unknown]
    return [
        f"{path}:{line}: level {LEVELS[unit(source)]} imports {target}, "
        f"level {LEVELS[unit(target)]}"
        for path, line, source, target in internal_imports(files)
        if unit(source) != unit(target) and LEVELS[unit(source)] <= LEVELS[unit(target)]
    ]


def check_cycles(files):
    graph = {}
    for _, _, source, target in internal_imports(files):
        graph.setdefault(source, set()).add(target)
    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as error:
        return ["import cycle: " + " -> ".join(error.args[1])]
    return []


def check_third_party(files):
    complaints = []
    for path, source in files.items():
        backends = {b for b in BACKENDS if b in PurePosixPath(path).name}
        complaints += [
            f"{path}:{line}: {name} needs a file with its backend's name"
            for line, name in imported(path, source)
            if name.split(".")[0] in BACKENDS - backends
        ]
        complaints += [
            f"{path}:{line}: {name} is an extra, import it where it is used"
            for line, name in imported(path, source, inside_functions=False)
            if name.split(".")[0] not in EVERYWHERE | BACKENDS
        ]
    return complaints


def is_forbidden(node):
    """Private Keras, and what a model needs to load outside Keras's safe mode."""
    words = []
    for field in ("id", "attr", "arg", "name", "module"):
        value = getattr(node, field, None)
        words += value.split(".") if isinstance(value, str) else []
    unsafe = getattr(node, "arg", None) == "safe_mode" and not (
        isinstance(node, ast.keyword) and getattr(node.value, "value", None) is True
    )
    lower = [word.lower().replace("_", "") for word in words]
    private = isinstance(node, ast.Attribute) and ast.unparse(node) == "keras.src"
    return unsafe or private or "Lambda" in words or any("customobject" in w for w in lower)


def check_words(files):
    complaints = []
    for path, source in files.items():
        complaints += [
            f"{path}:{node.lineno}: {ast.unparse(node)} is not used here"
            for node in ast.walk(ast.parse(source))
            if is_forbidden(node)
        ]
        complaints += [
            f"{path}:{line}: {name} is private to Keras"
            for line, name in imported(path, source)
            if f"{name}.".startswith("keras.src.")
        ]
    return complaints


def check_length(files):
    lengths = {path: source.count("\n") for path, source in files.items()}
    return [f"{p}: {n} lines" for p, n in lengths.items() if n > MAX_LINES]


CHECKS = [check_levels, check_cycles, check_third_party, check_words, check_length]


@pytest.mark.parametrize("check", CHECKS)
def test_package_is_clean(check):
    assert check(read_package()) == []


@pytest.mark.parametrize(
    ("check", "path", "source"),
    [
        (
            check_levels,
            "masks.py",
            "from keras_attention.pooling import AttentionPooling",
        ),
        (check_levels, "masks.py", "from keras_attention import config"),
        (check_levels, "masks.py", "from . import config"),
        (check_levels, "masks.py", "def f():\n    import keras_attention.attention"),
        (check_levels, "scores/base.py", "from ..functional import attend"),
        (check_levels, "recipes/demo.py", "from keras_attention import __version__"),
        (check_levels, "brand_new.py", ""),
        (check_third_party, "text.py", "import matplotlib.pyplot as plt"),
        (check_third_party, "text.py", "try:\n    import nltk\nexcept E:\n    pass"),
        (check_third_party, "text.py", "def f():\n    import tensorflow as tf"),
        (check_third_party, "blockwise_tensorflow.py", "import jax"),
        (check_words, "text.py", "from keras.src import backend"),
        (check_words, "text.py", "from keras import src"),
        (check_words, "text.py", "import keras\nkeras.src.ops.dot"),
        (check_words, "text.py", "keras.layers.Lambda(f)"),
        (check_words, "text.py", "from keras.layers import Lambda as L"),
        (check_words, "text.py", "load(path, custom_objects={})"),
        (check_words, "text.py", "keras.saving.CustomObjectScope()"),
        (check_words, "text.py", "def f(custom_objects=None): ..."),
        (check_words, "text.py", "load(path, safe_mode=False)"),
        (check_words, "text.py", "load(path, safe_mode=flag)"),
        (check_length, "text.py", "x = 1\n" * 351),
    ],
)
def test_checks_can_fail(check, path, source):
    assert check({f"{PACKAGE}/{path}": source}) != []


def test_missing_level_says_what_to_do():
    (complaint,) = check_levels({f"{PACKAGE}/brand_new.py": ""})
    assert complaint.startswith("keras_attention/brand_new.py: has no level; add it")


def test_cycle_inside_a_folder_is_seen():
    a, b = f"{PACKAGE}/scores/a.py", f"{PACKAGE}/scores/b.py"
    assert check_cycles({a: "from . import b", b: "def f():\n    from . import a"})
    assert not check_cycles({a: "from . import b", b: ""})


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("__init__.py", "from keras_attention import masks, pooling"),
        ("__main__.py", "from keras_attention import __version__"),
        ("scores/inner.py", "from keras_attention.scores.base import Score"),
        ("scores/inner.py", "from .base import Score"),
        ("models/hierarchical.py", "from keras_attention import text"),
        ("blockwise_tensorflow.py", "import tensorflow as tf"),
        ("text.py", "def f():\n    import matplotlib.pyplot as plt"),
        ("text.py", '"""No custom_objects, no Lambda, no keras.src."""'),
        ("text.py", "sort(key=lambda pair: pair[0])"),
        ("text.py", "load(path, safe_mode=True)"),
        ("text.py", "x = 1\n" * MAX_LINES),
    ],
)
def test_checks_do_not_complain_without_a_reason(path, source, monkeypatch):
    monkeypatch.setitem(LEVELS, "blockwise_tensorflow", 2)
    assert [c for check in CHECKS for c in check({f"{PACKAGE}/{path}": source})] == []


def is_registered(cls):
    name = keras.saving.get_registered_name(cls)
    package = name.partition(">")[0]
    return package == PACKAGE and keras.saving.get_registered_object(name) is cls


def unregistered(classes):
    """Layers and models that `load_model` would not find after our import alone.

    A base class that is not itself public is in no saved model.
    """
    bases = {base for cls in classes for base in cls.__bases__}
    public = set(map(vars(keras_attention).get, keras_attention.__all__))
    saved = [cls for cls in classes if cls in public or cls not in bases]
    layers = [c for c in saved if issubclass(c, keras.Layer) and c.__name__[0] != "_"]
    return [cls for cls in layers if not is_registered(cls)]


def package_classes():
    walk = pkgutil.walk_packages(keras_attention.__path__, f"{PACKAGE}.")
    names = [PACKAGE, *(m.name for m in walk if not m.name.endswith("__main__"))]
    modules = [importlib.import_module(name) for name in names]
    found = {v for m in modules for v in vars(m).values() if isinstance(v, type)}
    return [cls for cls in found if cls.__module__.split(".")[0] == PACKAGE]


def test_every_layer_and_model_is_registered():
    assert any(issubclass(cls, keras.Layer) for cls in package_classes())
    assert unregistered(package_classes()) == []


def test_registration_check_can_fail():
    class Base(keras.Layer):
        pass

    class Forgotten(Base):
        pass

    class _Private(keras.Layer):
        pass

    assert unregistered([Base, Forgotten, _Private, dict]) == [Forgotten]
