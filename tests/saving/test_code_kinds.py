"""Functions, methods and objects of the user: by import path, or by their own two methods."""

from functools import partial

import numpy as np
import pytest

import tether
from tests.saving import parts
from tests.saving.round_trip import HERE, round_trip
from tether.saving import CannotSaveError, policy_from_bytes, policy_to_bytes

CONTEXTS = np.array([0.1, 0.2, 0.9])


def test_what_policy_from_made_is_made_again():
    policy = tether.policy_from(f"{HERE}:shifted", by=np.float64(0.5), scale=2.0)
    loaded = round_trip(policy, CONTEXTS)
    assert policy_to_bytes(loaded) == policy_to_bytes(policy)
    round_trip(tether.Tethered(tether.Gaussian(0.0), policy, 0.5), CONTEXTS)


def test_arguments_may_be_arrays_and_policies():
    inner = tether.Gaussian(1.0)
    round_trip(
        tether.policy_from(
            "tether:Mixture", policies=[inner, inner], weights=np.array([0.25, 0.75])
        ),
        allow_imports=["tether"],
    )


def test_a_copy_is_another_object():
    from copy import deepcopy

    policy = deepcopy(tether.policy_from(f"{HERE}:Stranger"))
    with pytest.raises(CannotSaveError, match=r"parts\.Stranger, which is not known"):
        policy_to_bytes(policy)


def test_an_object_with_its_own_two_methods():
    own = parts.Own(tether.Gaussian(0.3), np.arange(3.0), {"z": [1, (2, None)], "a": -np.inf})
    loaded = round_trip(own)
    assert list(loaded.order) == ["z", "a"]  # the order is kept
    assert loaded.order == own.order
    assert not loaded.table.flags.writeable


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        (parts.Unfinished(1, 2, 3), "must return a dictionary, got"),
        (parts.Own(1, np.array([{}]), 3), r"policy\.saved\.table is an array of object"),
        (parts.Own(1, 2, {1: 2}), "keys that are not text"),
        (parts.Own(1, 2, {1}), r"policy\.saved\.order is a builtins\.set"),
        (parts.Own(1, 2, b"x"), r"policy\.saved\.order is a builtins\.bytes"),
        (parts.Own(1, np.ma.masked_array([1.0]), 2), "MaskedArray"),
    ],
)
def test_what_an_object_may_not_contain(policy, message):
    with pytest.raises(CannotSaveError, match=message):
        policy_to_bytes(policy)


def test_an_object_that_contains_itself():
    own = parts.Own(1, 2, 3)
    own.policy = own
    with pytest.raises(CannotSaveError, match=r"policy\.saved\.policy contains itself"):
        policy_to_bytes(own)


def test_a_class_that_cannot_be_found():
    class Local(parts.Own):
        pass

    with pytest.raises(CannotSaveError, match="is not found at any import path"):
        policy_to_bytes(Local(1, 2, 3))


def test_functions_with_arguments():
    shortlist = tether.Shortlist(parts.draw, partial(parts.score, slope=2.0), size=3)
    round_trip(shortlist.tethered(2.0))


def test_methods_of_objects():
    gaussian = tether.Gaussian(0.0)
    round_trip(tether.FunctionPolicy(gaussian.sample, gaussian.log_prob))


def test_a_function_that_fails_when_the_file_is_loaded(monkeypatch):
    data = policy_to_bytes(tether.policy_from(f"{HERE}:Stranger"))
    monkeypatch.setattr(parts, "Stranger", parts.fails)
    with pytest.raises(ValueError, match=r"object 0 of the file \(made\): the server is down"):
        policy_from_bytes(data, allow_imports=True)
    monkeypatch.setattr(parts, "Stranger", 3)
    with pytest.raises(ValueError, match="leads to 3, which is not a function"):
        policy_from_bytes(data, allow_imports=True)
    monkeypatch.delattr(parts, "Stranger")
    with pytest.raises(ValueError, match="there is no 'Stranger'"):
        policy_from_bytes(data, allow_imports=True)


def test_a_class_that_no_longer_loads(monkeypatch):
    data = policy_to_bytes(parts.Own(tether.Gaussian(0.0), np.zeros(1), 0))
    monkeypatch.setattr(parts.Own, "tether_load", lambda saved: 3)
    with pytest.raises(ValueError, match=r"tether_load of .* returned 3"):
        policy_from_bytes(data, allow_imports=[HERE])
    monkeypatch.delattr(parts.Own, "tether_load")
    with pytest.raises(ValueError, match="does not lead to a class with tether_load"):
        policy_from_bytes(data, allow_imports=[HERE])
    with pytest.raises(CannotSaveError, match="has no tether_load"):
        policy_to_bytes(parts.Own(1, 2, 3))
