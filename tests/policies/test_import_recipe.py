"""What an import path made is remembered as long as it exists."""

import gc

import pytest

import tether
from tether.policies.import_recipe import Recipe, _recipes, recipe_of


def test_a_policy_is_made_and_its_recipe_remembered():
    policy = tether.policy_from("tether:Gaussian", mean=0.5, scale=2.0)
    assert isinstance(policy, tether.Gaussian)
    assert recipe_of(policy) == Recipe("tether:Gaussian", {"mean": 0.5, "scale": 2.0})
    assert recipe_of(tether.Gaussian(0.5)) is None


def test_nothing_is_kept_of_what_no_longer_exists():
    policy = tether.policy_from("tether:Gaussian", mean=0.5)
    key = id(policy)
    assert key in _recipes
    del policy
    gc.collect()
    assert key not in _recipes


def test_what_cannot_be_made():
    with pytest.raises(TypeError, match="must lead to a function or a class"):
        tether.policy_from("math:pi")
    with pytest.raises(TypeError, match="cannot be remembered"):
        tether.policy_from("builtins:int")
    with pytest.raises(ValueError, match="there is no 'Gauss'"):
        tether.policy_from("tether:Gauss")
