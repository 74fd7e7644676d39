import numpy as np
import pytest

import tether
from tether.policies.estimated_policy import EstimatedPolicy, approximation_of

EXACT = tether.Gaussian(0.0)


def estimated(sentence="approximate: …", error=1.5):
    return EstimatedPolicy(
        "optimized",
        lambda contexts, rng: rng.normal(size=contexts),
        lambda contexts, actions: np.asarray(actions) / 2,
        sentence,
        error,
    )


def test_it_draws_with_the_sampler_and_scores_with_the_ratio():
    policy = estimated()
    assert isinstance(policy, tether.Policy)
    drawn = policy.sample(5, np.random.default_rng(3))
    assert np.array_equal(drawn, np.random.default_rng(3).normal(size=5))
    assert policy.log_prob(2, [1.0, 4.0]).tolist() == [0.5, 2.0]
    with pytest.raises(TypeError, match="rng must be"):
        policy.sample(5, 0)


def test_what_is_approximate_is_found_inside_other_policies():
    policy = estimated()
    assert approximation_of(EXACT, EXACT) == (None, 1.0)
    for made in (
        policy,
        tether.Mixture([EXACT, policy], [1, 1]),
        tether.Tethered(EXACT, policy, 0.5),
        tether.Mixture([EXACT, tether.Tethered(EXACT, policy, 0.5)], [1, 1]),
    ):
        assert approximation_of(EXACT, made) == ("approximate: …", 1.5)
    assert approximation_of(estimated(error=2.0), policy) == ("approximate: …", 2.0)
