"""Optional dependencies: which extra brings which package, and what to say where one is absent."""

from __future__ import annotations

import re
from importlib import import_module, metadata
from typing import Any

FOR_DEVELOPMENT = {"bench", "docs", "experiments", "smollm", "test"}
"""Extras that users do not install."""


def how_to_install(what: str, error: ModuleNotFoundError) -> str | None:
    """What to say where a module is missing: what needs it, and the smallest extra that has it."""
    top, extras = (error.name or "").partition(".")[0], dict[str, set[str]]()
    for text in metadata.requires("tether") or []:
        read = re.match(r"([\w-]+).*extra == ['\"]([\w-]+)", text)
        if read is not None and read[2] not in FOR_DEVELOPMENT:
            module = read[1].replace("scikit-learn", "sklearn").replace("-", "_")
            extras.setdefault(read[2], set()).add(module)
    having = [each for each, modules in extras.items() if top in modules]
    if not having:
        return None
    extra = min(having, key=lambda each: len(extras[each]))
    return f"{what} needs {top}: pip install 'tether[{extra}]'"


def require(what: str, module: str) -> Any:
    """Import an optional module, or say which extra brings it."""
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        message = how_to_install(what, error)
        if message is None:
            raise
        raise ModuleNotFoundError(message, name=error.name) from error
