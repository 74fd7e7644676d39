"""Optional dependencies: which extra brings which package, and what to say where one is absent."""

from __future__ import annotations

import re
from importlib import import_module, metadata, util
from typing import Any

FOR_DEVELOPMENT = {"bench", "docs", "experiments", "smollm", "test"}
"""Extras that users do not install."""
MODULES = {"scikit-learn": "sklearn", "prometheus-client": "prometheus_client"}
"""Packages whose module has another name."""


def requirements() -> dict[str, dict[str, str]]:
    """The packages of each extra with their oldest versions; under "" what is always needed."""
    found: dict[str, dict[str, str]] = {}
    try:
        listed = metadata.requires("tether") or []
    except metadata.PackageNotFoundError:  # run from its source, without an installation
        listed = []
    for text in listed:
        read = re.match(r"([\w-]+)(?:\[.*?\])?>=([\d.]+)(?:.*extra == ['\"]([\w-]+))?", text)
        if read is not None and read[3] not in FOR_DEVELOPMENT:
            found.setdefault(read[3] or "", {})[read[1]] = read[2]
    return found


def how_to_install(what: str, error: ModuleNotFoundError) -> str | None:
    """What to say where a module is missing: what needs it, and the smallest extra that has it."""
    top = (error.name or "").partition(".")[0]
    extras = requirements()
    having = [each for each in extras if each and top in {MODULES.get(p, p) for p in extras[each]}]
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


def installed_version(package: str) -> str | None:
    """The version of a package; None if its module is not found. Nothing is imported."""
    if util.find_spec(MODULES.get(package, package)) is None:
        return None
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "of unknown version"
