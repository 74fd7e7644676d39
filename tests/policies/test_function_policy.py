import numpy as np
import pytest

import tether

GOOD = tether.Gaussian(0.0)


def test_draws_and_scores_are_those_of_the_functions():
    policy = tether.FunctionPolicy(GOOD.sample, GOOD.log_prob, name="wrapped")
    assert policy.name == "wrapped"
    for contexts in (20, np.zeros(20)):
        actions = policy.sample(contexts, np.random.default_rng(0))
        assert np.array_equal(actions, GOOD.sample(contexts, np.random.default_rng(0)))
        assert np.array_equal(policy.log_prob(contexts, actions), GOOD.log_prob(contexts, actions))


def test_arguments_that_are_not_functions_are_refused():
    with pytest.raises(TypeError, match="sample must be a function"):
        tether.FunctionPolicy(3, GOOD.log_prob)
    with pytest.raises(TypeError, match="log_prob must be a function"):
        tether.FunctionPolicy(GOOD.sample, None)
