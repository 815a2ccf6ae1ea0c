"""README and docstrings say what the code does. (Doctests run by themselves.)"""

import ast
import contextlib
import doctest
import inspect
import io
import itertools
import re
import textwrap

import keras
import pytest
from conftest import ROOT

import keras_attention

FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
DECIMAL = re.compile(r"-?\d+\.\d+(?:e[-+]?\d+)?")


def readme():
    return (ROOT / "README.md").read_text()


def code_blocks(markdown):
    """Line, code and wanted output (or None) of each python block.

    The output is the text block that follows with no other block between.
    """
    fences = [*FENCE.finditer(markdown), None]
    for fence, after in itertools.pairwise(fences):
        if fence[1] == "python":
            line = markdown.count("\n", 0, fence.start(2))
            yield line, fence[2], after[2] if after and after[1] == "text" else None


def run_block(line, code, namespace):
    """What the code prints; its tracebacks name README's lines."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile("\n" * line + code, "README.md", "exec"), namespace)
    return printed.getvalue()


def same_output(wanted, printed):
    """Equal but for spaces, `...`, and decimals beyond those that are written."""
    targets = DECIMAL.findall(wanted)
    if len(targets) == len(DECIMAL.findall(printed)):
        rest = iter(targets)

        def settle(match):
            target = next(rest)
            unit = 10.0 ** -len(target.partition("e")[0].partition(".")[2])
            scale = 10.0 ** int(target.partition("e")[2] or 0)
            near = abs(float(target) - float(match[0])) <= unit * scale
            return target if near else match[0]

        printed = DECIMAL.sub(settle, printed)
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    return doctest.OutputChecker().check_output(wanted, printed, flags)


def test_readme_blocks_run(tmp_path, monkeypatch):
    """In order, as a reader runs them: later blocks may use names of earlier ones."""
    for folder in ("notebooks", "saved_models"):
        (tmp_path / folder).symlink_to(ROOT / folder)
    monkeypatch.chdir(tmp_path)
    namespace, compared = {"__name__": "readme"}, 0
    for line, code, wanted in code_blocks(readme()):
        printed = run_block(line, code, namespace)
        if wanted is not None:
            where = f"README.md, the block at line {line}, prints"
            assert same_output(wanted, printed), f"{where}\n{printed}\nnot\n{wanted}"
            compared += 1
    assert compared, "README.md has no example with its printed output"


def unnamed(names, markdown):
    words = set(re.findall(r"\w+", markdown))
    return [name for name in names if name not in words]


def test_readme_names_every_public_name():
    assert unnamed(keras_attention.__all__, readme()) == []


def listed(module):
    return getattr(module, "__all__", [])


def public_objects():
    """Name -> class or function: the public names, and those of public modules."""
    found = {name: getattr(keras_attention, name) for name in keras_attention.__all__}
    for name, module in list(found.items()):
        if inspect.ismodule(module):
            found |= {f"{name}.{n}": getattr(module, n) for n in listed(module)}
    return {n: o for n, o in found.items() if inspect.isclass(o) or inspect.isroutine(o)}


def test_public_modules_say_what_is_public():
    public = [getattr(keras_attention, name) for name in keras_attention.__all__]
    modules = [thing for thing in public if inspect.ismodule(thing)]
    assert [module.__name__ for module in modules if not listed(module)] == []


def test_the_api_pages_show_every_public_class_and_function():
    pages = "\n".join(page.read_text() for page in (ROOT / "docs" / "api").glob("*.md"))
    shown = set(re.findall(r"^::: keras_attention\.(?:\w+\.)?(\w+)$", pages, re.MULTILINE))
    assert {name.rpartition(".")[2] for name in public_objects()} - shown == set()


def section(doc, title):
    """The indented text under `title:`, or None."""
    found = re.search(rf"^{title}:\n((?:[ \t]+\S.*\n?|\s*\n)+)", doc, re.MULTILINE)
    return found and found[1]


def parameters(function):
    kinds = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    named = inspect.signature(function).parameters.values()
    known = ("self", "name", "dtype")  # the last two mean what they mean in Keras
    return [p.name for p in named if p.kind not in kinds and p.name not in known]


def undocumented(doc, title, names):
    """Parameters that a section leaves out."""
    if not names:
        return []
    text = section(doc, title)
    if text is None:
        return [f"no `{title}:`"]
    words = set(re.findall(r"\w+", text))
    return [f"`{title}:` leaves out {name}" for name in names if name not in words]


def gives_a_value(source):
    returns = [n for n in ast.walk(ast.parse(source)) if isinstance(n, ast.Return)]
    return any(node.value is not None for node in returns)


def missing(thing):
    """What the docstring of a public class or function lacks."""
    doc = inspect.cleandoc(thing.__doc__ or "")
    lines = [*doc.split("\n"), ""]
    source = textwrap.dedent(inspect.getsource(thing))
    found = []
    if not lines[0].endswith(".") or lines[1]:
        found.append("no one-line summary with a full stop")
    if inspect.isclass(thing):
        if getattr(thing.__init__, "__module__", "").startswith("keras_attention"):
            found += undocumented(doc, "Args", parameters(thing.__init__))
        returns = issubclass(thing, keras.Layer) and "call" in vars(thing)
        if returns:
            found += undocumented(doc, "Call arguments", parameters(thing.call))
    else:
        found += undocumented(doc, "Args", parameters(thing))
        returns = gives_a_value(source)
    if returns and section(doc, "Returns") is None:
        found.append("no `Returns:`")
    raises = any(isinstance(node, ast.Raise) for node in ast.walk(ast.parse(source)))
    if raises and "Raises:" not in source:
        found.append("no `Raises:`")
    if ">>>" not in doc:
        found.append("no `>>>` example")
    return found


@pytest.mark.parametrize("name", public_objects())
def test_docstring_is_whole(name):
    assert missing(public_objects()[name]) == []


LINK = re.compile(r"(?:\]\(|src=\"|href=\")(?!https?:|#|data:)([^)\"#\s]+)")


@pytest.mark.parametrize("page", ["README.md", "README.zh.md"])
def test_links_lead_to_files(page):
    targets = LINK.findall((ROOT / page).read_text())
    assert [target for target in targets if not (ROOT / target).exists()] == []


def test_the_chinese_readme_has_the_code_of_the_english_one():
    """Word for word, in its order, with the same outputs."""
    pages = "README.md", "saved_models/README.md", "README.zh.md"
    *there, chinese = (
        [block[1:] for block in code_blocks((ROOT / page).read_text())] for page in pages
    )
    there = [*itertools.chain(*there)]
    assert [block for block in chinese if block not in there] == []
    places = [there.index(block) for block in chinese]
    assert places == sorted(places)
    assert len(places) > 5


def test_the_chinese_readme_has_the_figures_of_the_trained_models():
    rows = re.findall(r"^\| `\w+` \|.*$", (ROOT / "README.zh.md").read_text(), re.MULTILINE)
    figures = re.findall(r"\d+\.\d+", " ".join(rows))
    published = (ROOT / "saved_models" / "README.md").read_text()
    assert [figure for figure in figures if figure not in published] == []
    assert figures


# Each rule above is seen to complain, and to be content.


def test_code_blocks_are_found_and_run():
    markdown = textwrap.dedent("""
        ```python
        x = 1
        ```
        ```bash
        make
        ```
        ```python
        print(x)
        ```
        It prints:
        ```text
        1
        ```
    """)
    first, second = code_blocks(markdown)
    assert first == (2, "x = 1\n", None)
    assert second == (8, "print(x)\n", "1\n")
    assert run_block(*second[:2], {"x": 1}) == "1\n"
    with pytest.raises(ZeroDivisionError) as error:
        run_block(8, "1 / 0", {})
    assert error.traceback[-1].lineno + 1 == 9


@pytest.mark.parametrize(
    ("wanted", "printed", "same"),
    [
        ("0.33 a", "0.3312  a\n", True),
        ("1.2e-03", "1.21e-03", True),
        ("0.33", "0.35", False),
        ("[0.5 ...]", "[0.5 0.25 0.25]", True),
        ("3", "4", False),
        ("(2, 3)", "(2, 4)", False),
        ("", "noise", False),
    ],
)
def test_output_comparison(wanted, printed, same):
    assert same_output(f"{wanted}\n", f"{printed}\n") is same


def test_unnamed_names_are_found():
    assert unnamed(["Attention", "Attend"], "See `Attention`.") == ["Attend"]


def whole(value, axis=-1):
    """Say something.

    Args:
        value: a number.
        axis: the axis.

    Returns:
        The value.

    Raises:
        ValueError: when there is none.

    Example:
        >>> whole(1)
        1
    """
    if value is None:
        raise ValueError(f"Expected a value. Received: {value}, {axis}")
    return value


def bare(value):
    "no summary"
    if value:
        raise ValueError
    return value


class BareLayer(keras.Layer):
    """Say something."""

    def call(self, inputs):
        return inputs


def test_missing_sections_are_found():
    assert missing(whole) == []
    assert missing(bare) == [
        "no one-line summary with a full stop",
        "no `Args:`",
        "no `Returns:`",
        "no `Raises:`",
        "no `>>>` example",
    ]
    assert missing(BareLayer) == [
        "no `Call arguments:`",
        "no `Returns:`",
        "no `>>>` example",
    ]


def test_left_out_arguments_are_found():
    doc = inspect.cleandoc(whole.__doc__)
    assert undocumented(doc, "Args", ["value", "axis"]) == []
    assert undocumented(doc, "Args", ["depth"]) == ["`Args:` leaves out depth"]
