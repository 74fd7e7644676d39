"""Import paths: "package.module:name" says where a function or a class is found."""

from __future__ import annotations

import re
from collections.abc import Callable
from importlib import import_module
from types import ModuleType
from typing import Any

IMPORT_PATH = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*(\.[^\W\d]\w*)*")
"""What an import path looks like: dotted names on both sides of a colon."""
MAX_IMPORT_PATH_LENGTH = 1_000
"""Characters of the longest import path."""


def import_path(path: Any, accept: Callable[[str, Any], bool] | None = None) -> Any:
    """Import what a path names; this executes the module.

    With `accept`, every object on the way must be accepted by it, given the path and the object.
    """
    module_name, names = split_import_path(path)
    try:
        found: Any = import_module(module_name)
    except ImportError as error:
        raise ValueError(f"import path {path!r}: cannot import {module_name}: {error}") from error
    for name in names:
        if not hasattr(found, name):
            raise ValueError(f"import path {path!r}: there is no {name!r} in {module_name}")
        found = getattr(found, name)
        if isinstance(found, ModuleType):
            raise ValueError(f"import path {path!r} leads through the module {found.__name__!r}")
        if accept is not None and not accept(path, found):
            origin = getattr(found, "__module__", None)
            raise ValueError(
                f"import path {path!r} leads to {found!r}, which is defined in {origin!r} and not "
                f"allowed"
            )
    return found


def split_import_path(path: Any) -> tuple[str, list[str]]:
    """The name of the module, and the names that lead from it to the object."""
    if (
        not isinstance(path, str)
        or len(path) > MAX_IMPORT_PATH_LENGTH
        or not IMPORT_PATH.fullmatch(path)
    ):
        shown = repr(path) if len(repr(path)) < MAX_IMPORT_PATH_LENGTH else f"{repr(path)[:80]}…"
        raise ValueError(f"an import path is text like 'package.module:function', got {shown}")
    module_name, _, names = path.partition(":")
    if "__" in names:
        raise ValueError(f"import path {path!r} has a name with two underscores")
    return module_name, names.split(".")


def import_path_of(value: Any) -> str | None:
    """The path under which a function or class is found again; None if there is no such path."""
    module = getattr(value, "__module__", None)
    path = f"{module}:{getattr(value, '__qualname__', None)}"
    if module in (None, "__main__") or "<" in path:
        return None
    try:
        found = import_path(path)
    except ValueError:
        return None
    return path if found is value or found == value else None
