"""The optional dependencies: which extra brings which package, and what to say where one is absent.

The table says the same as `pyproject.toml`, which an installed package does not have; a test
compares them. It is kept here so that errors and `tether doctor` can name the extra to install.
"""

from __future__ import annotations

from importlib import import_module, util
from typing import Any, NamedTuple


class Package(NamedTuple):
    """A package on PyPI: its name there, the module that it brings, and the oldest version."""

    name: str
    module: str
    oldest: str


def _packages(text: str) -> tuple[Package, ...]:
    pairs = (each.split(">=") for each in text.split())
    return tuple(Package(name, MODULES.get(name, name), oldest) for name, oldest in pairs)


MODULES = {"scikit-learn": "sklearn", "prometheus-client": "prometheus_client"}
"""Packages whose module has another name."""
REQUIRED = _packages("numpy>=1.26 scipy>=1.11")
"""What every installation has."""
_CLI, _RUNS = "typer>=0.12 rich>=13 pyarrow>=15", "sqlalchemy>=2.0 pyarrow>=15"
_SCAN, _LEARN, _PLOT = "narwhals>=2 pyarrow>=15", "scikit-learn>=1.6", "matplotlib>=3.8"
EXTRAS = {
    name: tuple(dict.fromkeys(_packages(text)))
    for name, text in {
        "cli": _CLI,
        "plot": _PLOT,
        "learn": _LEARN,
        "runs": _RUNS,
        "signing": "cryptography>=42",
        "torch": "torch>=2.2 safetensors>=0.4",
        "skops": f"skops>=0.13 {_LEARN}",
        "bo": "botorch>=0.12",
        "llm": "torch>=2.2 transformers>=4.56 peft>=0.14 openai>=3",
        "api": "openai>=3",
        "scan": _SCAN,
        "ray": f"{_SCAN} ray>=2.40",
        "postgres": f"{_RUNS} psycopg>=3.2",
        "serve": f"{_CLI} {_RUNS} starlette>=1 uvicorn>=0.54 prometheus-client>=0.20 httpx2>=2 "
        "msgspec>=0.19 stamina>=24.2",
        "demo": f"{_CLI} {_PLOT} {_LEARN} {_RUNS}",
    }.items()
}
"""The packages of each extra that users install; those for development are not listed."""


def extra_of(module: str) -> str | None:
    """The extra that brings a module, the smallest that does; None if no extra does."""
    top = module.partition(".")[0]
    having = [name for name, packages in EXTRAS.items() if top in {p.module for p in packages}]
    return min(having, key=lambda name: len(EXTRAS[name]), default=None)


def how_to_install(what: str, error: ModuleNotFoundError, extra: str | None = None) -> str | None:
    """What to say where a module is missing: what needs it, and the extra that brings it."""
    if error.name is None or (extra := extra or extra_of(error.name)) is None:
        return None
    return f"{what} needs {error.name.partition('.')[0]}: pip install 'tether[{extra}]'"


def require(what: str, module: str) -> Any:
    """Import an optional module, or say which extra brings it."""
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        message = how_to_install(what, error)
        if message is None:
            raise
        raise ModuleNotFoundError(message, name=error.name) from error


def require_extra(what: str, extra: str) -> None:
    """Raise unless every package of an extra is installed; nothing is imported."""
    for package in EXTRAS[extra]:
        if not is_installed(package.module):
            raise ModuleNotFoundError(
                f"{what} needs {package.module}: pip install 'tether[{extra}]'", name=package.module
            )


def is_installed(module: str) -> bool:
    """Whether a module can be found; nothing is imported."""
    try:
        return util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False
