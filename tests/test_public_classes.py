"""What holds for every public class: it says what it is when it is printed."""

import importlib
import inspect

import numpy as np
import pytest

import tether
from tether.rounds import TakenActions

ROOMS = [name for name in tether.__all__ if inspect.ismodule(getattr(tether, name))]


def public_classes():
    found = {}
    for room in ("", *(f".{name}" for name in ROOMS)):
        module = importlib.import_module(f"tether{room}")
        for name in module.__all__:
            value = getattr(module, name)
            if inspect.isclass(value) and not getattr(value, "_is_protocol", False):
                found[f"tether{room}.{name}"] = value
    return found


@pytest.mark.parametrize("name", public_classes())
def test_it_has_a_repr_of_its_own(name):
    assert public_classes()[name].__repr__ is not object.__repr__


def test_there_are_many_of_them():
    assert len(public_classes()) > 100


def test_long_rows_print_in_a_line():
    taken = TakenActions(np.arange(300), np.arange(300.0), 300)
    assert repr(taken) == "TakenActions(300 actions 0.0, 1.0, 2.0, … (300 in all))"
    long = tether.Categorical.from_probabilities(np.full(500, 1 / 500))
    for value in (
        tether.Mixture([tether.Gaussian(0.0)] * 50, np.ones(50)),
        tether.Gaussian(np.zeros(400)),
        tether.Gaussian(np.zeros(400), covariance=np.eye(400)),
        tether.Pool(np.zeros(1000)),
        tether.Log(np.zeros(999), np.zeros(999), np.zeros(999)),
        tether.Claims(np.zeros(999), np.zeros(999), [0, 999]),
        *(long, tether.policies.Picker(long, 3)),
    ):
        assert len(repr(value)) < 500
        assert "\n" not in repr(value)
