"""The message about mismatched actions shows where they differ."""

import numpy as np
import pytest

import tether
from tether.policies.different_actions import different_actions


def message(first, second):
    return different_actions("safe", np.asarray(first), "optimized", np.asarray(second))


def test_actions_that_only_one_policy_has_are_shown_however_late_they_come():
    names = [f"item {k:02d}" for k in range(30)]
    text = message(names, [*names[:29], "other"])
    assert "1 of the 30 of safe are not in the other list: 'item 29'" in text
    assert "1 of the 30 of optimized are not in the other list: 'other'" in text
    assert "'item 00'" not in text


def test_a_shorter_list_is_named():
    assert "1 of the 3 of optimized are not in the other list: 2" in message([0, 1], [0, 1, 2])


def test_many_differences_are_cut():
    assert message(range(9), range(100, 109)).count(", …") == 2


def test_another_order_is_said_with_the_first_place():
    text = message(["a", "b", "c"], ["a", "c", "b"])
    assert "the same 3 in another order; at position 1 safe has 'b' and optimized has 'c'" in text


def test_numbers_and_strings_are_told_apart():
    assert "safe has 0 (int64) where optimized has '0' (<U1)" in message([0, 1], ["0", "1"])


def test_the_policies_are_named():
    first = tether.Categorical.from_probabilities([0.5, 0.5], ["a", "b"])
    second = tether.Categorical.from_probabilities([0.5, 0.5], ["b", "c"])
    with pytest.raises(ValueError, match="policies safe and optimized have different actions"):
        tether.Tethered(first, second, 1.0)
    with pytest.raises(ValueError, match=r"policies policies\[0\] and policies\[1\] have"):
        tether.Mixture([first, second], [1, 1])
