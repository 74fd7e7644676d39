"""What counts as a policy."""

import numpy as np
import pytest

import tether
from tether.policies import FinitePolicy, as_policy

GOOD = tether.Gaussian(0.0)


def test_anything_with_the_two_methods_is_a_policy():
    assert isinstance(GOOD, tether.Policy)
    assert not isinstance("gpt", tether.Policy)
    assert as_policy("safe", GOOD) is GOOD


def test_a_finite_policy_lists_its_actions():
    assert isinstance(tether.Pool.uniform(3), FinitePolicy)
    assert not isinstance(GOOD, FinitePolicy)


def test_other_objects_are_refused():
    with pytest.raises(TypeError, match="optimized must be a policy"):
        tether.Tethered(GOOD, "gpt", 1.0)
    with pytest.raises(TypeError, match=r"safe must be a policy, not a class: write Gaussian"):
        tether.Tethered(tether.Gaussian, GOOD, 1.0)


def test_a_legacy_random_state_is_refused():
    with pytest.raises(TypeError, match="rng must be a numpy"):
        tether.Tethered(GOOD, GOOD, 0.5).sample(3, np.random.RandomState(0))
