"""Warnings have categories that can be filtered, and the package gives no others."""

import ast
import warnings
from pathlib import Path

import numpy as np
import pytest

import tether
from tether._core import words as warning_categories

SOURCE = Path(tether.__file__).parent
CATEGORIES = {
    name for name in vars(warning_categories) if name.endswith("Warning") and name != "UserWarning"
}


WARNING_CALLS = {"warnings.warn", "warn_user"}


def test_all_categories_are_public_and_have_one_base():
    assert set(tether.__all__) >= CATEGORIES
    for name in CATEGORIES:
        assert issubclass(getattr(tether, name), tether.TetherWarning)
    assert issubclass(tether.TetherWarning, UserWarning)


def test_every_warning_in_the_source_has_one_of_them():
    calls = 0
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func) in WARNING_CALLS:
                calls += 1
                named = ast.unparse(node.args[1]) in CATEGORIES
                assert named or path.name == "words.py", f"{path}:{node.lineno}"
    assert calls >= 4


def test_they_can_be_silenced_and_raised_by_category():
    shortlist = tether.Shortlist(
        lambda contexts, rng: rng.normal(size=len(contexts)), lambda contexts, c: c / 4, size=4
    )
    contexts, rng = np.zeros(400), np.random.default_rng(0)
    losses = np.zeros(400)
    with pytest.warns(tether.AssumptionWarning, match="score higher"):
        shortlist.make_log(contexts, np.full(400, 9.0), losses, rng)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", tether.TetherWarning)
        shortlist.make_log(contexts, np.full(400, 9.0), losses, rng)
