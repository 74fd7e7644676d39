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


NUMPY = Package("numpy", "numpy", "1.26")
SCIPY = Package("scipy", "scipy", "1.11")
REQUIRED = (NUMPY, SCIPY)
"""What every installation has."""

_TORCH = Package("torch", "torch", "2.2")
_PYARROW = Package("pyarrow", "pyarrow", "15")
_SKLEARN = Package("scikit-learn", "sklearn", "1.6")
_HTTPX = Package("httpx2", "httpx2", "2")
_API = (Package("openai", "openai", "3"),)
_CLI = (Package("typer", "typer", "0.12"), Package("rich", "rich", "13"), _PYARROW)
_PLOT = (Package("matplotlib", "matplotlib", "3.8"),)
_LEARN = (_SKLEARN,)
_ROUNDS = (Package("sqlalchemy", "sqlalchemy", "2.0"), _PYARROW)
_SCAN = (Package("narwhals", "narwhals", "2"), _PYARROW)

EXTRAS: dict[str, tuple[Package, ...]] = {
    "cli": _CLI,
    "plot": _PLOT,
    "learn": _LEARN,
    "rounds": _ROUNDS,
    "signing": (Package("cryptography", "cryptography", "42"),),
    "torch": (_TORCH, Package("safetensors", "safetensors", "0.4")),
    "skops": (Package("skops", "skops", "0.13"), _SKLEARN),
    "bo": (Package("botorch", "botorch", "0.12"),),
    "llm": (
        _TORCH,
        Package("transformers", "transformers", "4.56"),
        Package("peft", "peft", "0.14"),
        *_API,
    ),
    "api": _API,
    "scan": _SCAN,
    "ray": (*_SCAN, Package("ray", "ray", "2.40")),
    "postgres": (*_ROUNDS, Package("psycopg", "psycopg", "3.2")),
    "serve": (
        *dict.fromkeys((*_CLI, *_ROUNDS)),
        Package("starlette", "starlette", "1"),
        Package("uvicorn", "uvicorn", "0.40"),
        Package("prometheus-client", "prometheus_client", "0.20"),
        _HTTPX,
    ),
    "demo": tuple(dict.fromkeys((*_CLI, *_PLOT, *_LEARN, *_ROUNDS))),
}
"""The packages of each extra that users install; those for development are not listed."""


def extra_of(module: str) -> str | None:
    """The extra that brings a module, the smallest that does; None if no extra does."""
    top = module.partition(".")[0]
    having = [
        name for name, packages in EXTRAS.items() if top in {each.module for each in packages}
    ]
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
