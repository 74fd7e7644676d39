import numpy as np
import pytest

import tether
from tests.fit import chi_square


def test_probabilities_follow_scores_and_temperature():
    scores = np.array([0.0, 1.0, 3.0, -np.inf])
    policy = tether.Pool(scores, temperature=2.0)
    expected = np.exp(scores / 2) / np.exp(scores / 2).sum()
    assert np.allclose(np.exp(policy.log_prob_all(1)[0]), expected)
    drawn = policy.sample(20_000, np.random.default_rng(0))
    assert chi_square(drawn, expected) > 1e-3
    assert 3 not in drawn
    assert np.allclose(policy.log_prob(None, [1, 2]), np.log(expected[[1, 2]]))
    assert np.allclose(policy.sample(np.zeros(7), np.random.default_rng(0)).shape, (7,))


def test_huge_scores_and_tiny_temperatures_stay_finite():
    policy = tether.Pool([1e300, 0.0], temperature=1e-9)
    assert policy.log_prob(1, [0])[0] == 0
    assert np.allclose(tether.Pool.uniform(4).log_prob_all(1), np.log(0.25))


@pytest.mark.parametrize(
    ("scores", "message"),
    [([], "empty"), ([np.nan], "scores"), ([np.inf, 0.0], "scores"), ([-np.inf], "rule out every")],
)
def test_invalid_scores_are_refused(scores, message):
    with pytest.raises(ValueError, match=message):
        tether.Pool(np.array(scores))


@pytest.mark.parametrize(("size", "error"), [(-1, ValueError), (0, ValueError), (2.5, TypeError)])
def test_invalid_sizes_are_refused(size, error):
    with pytest.raises(error, match=f"size must be .*got {size}"):
        tether.Pool.uniform(size)


def test_a_candidate_outside_the_pool_is_refused():
    with pytest.raises(ValueError, match=r"actions\[0\] is .*7"):
        tether.Pool.uniform(3).log_prob(1, [7])
