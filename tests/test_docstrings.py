"""Every public name is documented: numpydoc sections, every parameter, every return value."""

import importlib
import inspect
import re

import pytest
from numpydoc.validate import validate

ROOMS = (
    "control",
    "planning",
    "risk",
    "policies",
    "sampling",
    "saving",
    "monitor",
    "release",
    "rounds",
    "report",
    "llm",
    "bo",
    "service",
)
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
        exported = getattr(module, name)
        if inspect.ismodule(exported) or not (inspect.isclass(exported) or callable(exported)):
            continue
        yield f"{package}.{name}"
        if inspect.isclass(exported):
            yield from (f"{package}.{name}.{member}" for member in public_members(exported))


def public_members(exported):
    """The public methods and properties of a class; those that override a documented one are not.

    What a method of a base class promises is documented there, once.
    """
    for member in sorted({name for base in exported.__mro__ for name in vars(base)}):
        owners = [
            base
            for base in exported.__mro__
            if member in vars(base) and base.__module__.startswith("tether.")
        ]
        if member.startswith("_") or not owners or not is_described(vars(owners[0])[member]):
            continue
        if any(is_documented(base, member) for base in owners[1:]):
            continue
        yield member


def is_described(attribute):
    """Whether an attribute is a method or a property."""
    return (
        isinstance(attribute, property | classmethod | staticmethod)
        or inspect.isfunction(attribute)
        or hasattr(attribute, "attrname")  # a cached property
    )


def is_documented(base, member):
    """Whether a base class, if it is public, describes a member that derived classes override."""
    attribute = vars(base)[member]
    is_public = not base.__name__.startswith("_")
    return is_public and is_described(attribute) and bool(inspect.getdoc(attribute))


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


def test_every_top_level_name_is_documented():
    found = [fault for name in public_names("tether") for fault in faults(name)]
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


class _Base:
    def hidden(self):
        """Say nothing about the return value."""
        return 1


class Base(_Base):
    def shown(self, number):
        """Return a number.

        Parameters
        ----------
        number : int
            The number.
        """

    def silent(self):
        pass


class Derived(Base):
    def hidden(self):
        """Override a method of a private base class."""
        return 1

    def shown(self, number):
        """Override a documented method."""

    def silent(self):
        """Override a method without a docstring."""


@pytest.mark.parametrize("made", [_Base, Base, Derived])
def test_a_member_that_overrides_a_documented_one_need_not_repeat_it(made, monkeypatch):
    for base in (_Base, Base, Derived):
        monkeypatch.setattr(base, "__module__", "tether.somewhere")
    expected = {"_Base": ["hidden"], "Base": ["hidden", "shown", "silent"]}
    assert list(public_members(made)) == expected.get(made.__name__, ["hidden", "silent"])
