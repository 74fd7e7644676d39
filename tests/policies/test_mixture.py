import numpy as np
import pytest
from scipy import stats

import tether
from tests.fit import chi_square


def test_scores_and_draws_follow_the_weighted_average():
    mixture = tether.Mixture([tether.Gaussian(-2.0), tether.Gaussian(3.0, 0.5)], weights=[3, 1])
    grid = np.linspace(-5, 5, 11)
    density = 0.75 * stats.norm(-2).pdf(grid) + 0.25 * stats.norm(3, 0.5).pdf(grid)
    assert np.allclose(np.exp(mixture.log_prob(None, grid)), density)
    drawn = mixture.sample(5000, np.random.default_rng(0))

    def below(x):
        return 0.75 * stats.norm(-2).cdf(x) + 0.25 * stats.norm(3, 0.5).cdf(x)

    assert stats.kstest(drawn, below).pvalue > 1e-3
    with pytest.raises(TypeError, match="finitely many"):
        mixture.log_prob_all(1)


def test_a_mixture_of_finite_policies_is_finite():
    by_row = tether.Categorical.from_probabilities([[0.9, 0.1], [0.5, 0.5]])
    constant = tether.Categorical.from_probabilities([0.2, 0.8])
    mixture = tether.Mixture([by_row, constant], [1, 1])
    expected = np.array([[0.55, 0.45], [0.35, 0.65]])
    assert np.allclose(np.exp(mixture.log_prob_all(np.array([0, 1]))), expected)
    contexts = np.repeat([0, 1], 4000)
    drawn = mixture.sample(contexts, np.random.default_rng(1))
    assert min(chi_square(drawn[contexts == x], expected[x]) for x in (0, 1)) > 1e-3


def test_contexts_may_be_a_list():
    policy = tether.Mixture([tether.Pool.uniform(2), tether.Pool.uniform(2)], [1, 1])
    assert np.allclose(policy.log_prob_all([0, 1]), np.log(0.5))


def test_a_blend_gives_every_safe_action_positive_probability():
    safe = tether.Categorical.from_probabilities([0.5, 0.5])
    certain = tether.Categorical.from_probabilities([1.0, 0.0])
    blend = tether.Mixture.blend(certain, safe, safe_share=0.1)
    assert np.allclose(np.exp(blend.log_prob_all(1)), [[0.95, 0.05]])
    assert np.isfinite(tether.Tethered(safe, blend, 0.01).log_prob_all(1)).all()


def test_invalid_mixtures_are_refused():
    safe = tether.Gaussian(0.0)
    with pytest.raises(ValueError, match="weights has 1 rows but policies has 2"):
        tether.Mixture([safe, safe], [1])
    with pytest.raises(ValueError, match="weights"):
        tether.Mixture([safe, safe], [-1, 2])
    for weights in ([np.inf, 1], [np.nan, 1], [0, 0]):
        with pytest.raises(ValueError, match="weights"):
            tether.Mixture([safe, safe], weights)
    assert tether.Mixture([safe, safe], [1e308, 1e308]).weights.tolist() == [0.5, 0.5]
    for policies in (safe, []):
        with pytest.raises(TypeError, match="policies must be a list"):
            tether.Mixture(policies, [1])
    with pytest.raises(ValueError, match="safe_share"):
        tether.Mixture.blend(safe, safe, safe_share=0)
    with pytest.raises(TypeError, match=r"policies\[1\] must be a policy"):
        tether.Mixture([safe, 3], [1, 1])
    with pytest.raises(ValueError, match=r"different actions: 1 of the 3 of policies\[1\] .*: 2"):
        tether.Mixture([tether.Pool.uniform(2), tether.Pool.uniform(3)], [1, 1])
    uneven = tether.Mixture([safe, tether.Gaussian([0.0, 0.0])], [1, 1])
    with pytest.raises(ValueError, match="different shapes"):
        uneven.sample(50, np.random.default_rng(0))
