"""The extensions with which the site is built, as modules."""

import importlib
import sys
from pathlib import Path

import pytest

EXTENSIONS = Path(__file__).parents[2] / "docs" / "_extensions"


@pytest.fixture
def extension(monkeypatch):
    """Return a function that imports an extension by name, and forget it afterwards."""
    monkeypatch.syspath_prepend(EXTENSIONS)
    imported = []

    def load(name):
        imported.append(name)
        return importlib.import_module(name)

    yield load
    for name in imported:
        sys.modules.pop(name, None)
