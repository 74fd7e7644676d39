"""Every public name is documented: numpydoc sections, every parameter, every return value."""

import importlib
import inspect
import re

import pytest
from numpydoc.validate import validate

ROOMS = ("control", "risk", "policies", "sampling", "monitor", "rounds", "report", "llm", "bo")
REQUIRED = {
    "GL01", "GL02", "GL03", "GL05", "GL06", "GL07", "GL08", "SS02", "SS03", "SS04", "SS05",
    "PR01", "PR02", "PR03", "PR04", "PR05", "PR06", "PR07", "PR08", "PR09", "PR10",
    "RT01", "RT03", "RT04", "RT05", "YD01",
}  # fmt: skip
"""What numpydoc must not find: missing docstrings, parameters and returns, and untidy ones."""


def public_names(package):
    """The exported functions and classes of a package, and the classes' own public members."""
    module = importlib.import_module(package)
    for name in module.__all__:
        found = getattr(module, name)
        if inspect.ismodule(found) or not (inspect.isclass(found) or callable(found)):
            continue
        yield f"{package}.{name}"
        if not inspect.isclass(found):
            continue
        for member in sorted({m for base in found.__mro__ for m in vars(base)}):
            owner = next(base for base in found.__mro__ if member in vars(base))
            if not owner.__module__.startswith("tether.") or member.startswith("_"):
                continue
            attribute = vars(owner)[member]
            described = isinstance(attribute, property | classmethod | staticmethod)
            described |= inspect.isfunction(attribute) or hasattr(attribute, "attrname")
            if described:
                yield f"{package}.{name}.{member}"


def faults(name):
    """What numpydoc finds wrong with one public name."""
    for code, message in validate(name)["errors"]:
        if code not in REQUIRED:
            continue
        if code in ("PR01", "PR02") and re.fullmatch(r".*\{('_\w+'(, )?)+\}.*", message):
            continue  # a private parameter
        yield f"{name}: {code} {message}"


@pytest.mark.parametrize("room", ROOMS)
def test_every_public_name_of_a_room_is_documented(room):
    found = [fault for name in public_names(f"tether.{room}") for fault in faults(name)]
    assert not found, "\n".join(found)


def test_every_public_function_and_class_has_an_example():
    package = importlib.import_module("tether")
    names = [name for name in package.__all__ if not inspect.ismodule(getattr(package, name))]
    lacking = [
        name
        for name in names
        if any(code == "EX01" for code, _ in validate(f"tether.{name}")["errors"])
    ]
    assert not lacking
