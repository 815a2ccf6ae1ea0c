"""Packages that only some users need: imported when used, and named when missing."""

import importlib
from types import ModuleType


def load(module: str, package: str, extra: str) -> ModuleType:
    """Imports a module of an optional package.

    Args:
        module: Its dotted name.
        package: The package's name on PyPI.
        extra: The extra of this distribution that brings it.

    Raises:
        ImportError: If it is missing; says how to install it.

    >>> load("json", "json", "none").dumps([1])
    '[1]'
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ImportError(
            f"This needs the package {package}: pip install {package}, or "
            f'pip install "keras-attention-layers[{extra}]"'
        ) from error
