"""Shows the `>>>` examples of docstrings as code, which Markdown takes for quotations."""

import re

import griffe

EXAMPLE = re.compile(r"^( *)>>> .*\n(?:\1\S.*\n?)*", re.MULTILINE)


class Doctests(griffe.Extension):
    """Puts a fence around each example, up to its next empty line."""

    def on_object(self, *, obj, **kwargs):
        if obj.docstring and not obj.is_alias:
            obj.docstring.value = EXAMPLE.sub(fence, obj.docstring.value + "\n")


def fence(match):
    indent = match[1]
    return f"{indent}```pycon\n{match[0].rstrip()}\n{indent}```\n"
