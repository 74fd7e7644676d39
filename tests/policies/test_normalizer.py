"""The normalizing constant of a tethered policy: exact, estimated, and how far off it is."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm

import tether
from tests.policies.test_tethered import Geometric
from tether.control.families import find_family
from tether.policies import Normalizer
from tether.policies.normalizer import exact_normalizer

SAFE, OPTIMIZED = tether.Gaussian(0.0), tether.Gaussian(1.0)


@pytest.mark.parametrize("beta", [0.2, 0.6, 1.0, 2.0, 4.0])
def test_the_estimated_normalizer_is_as_good_as_it_says(beta):
    """Over many seeds the estimate is off by about its standard error."""
    cut = np.log(beta) + 0.5  # where the ratio of N(1, 1) to N(0, 1) is beta
    exact = np.log(norm.cdf(cut - 1) + beta * norm.sf(cut))
    off, off_in_contexts = [], []
    for seed in range(60):
        policy = tether.Tethered(SAFE, OPTIMIZED, beta, normalizer_draws=500, seed=seed)
        for contexts, list_ in ((1, off), (np.zeros(1), off_in_contexts)):
            found = policy.normalizer(contexts)
            assert not found.exact
            list_.append((found.log_psi[0] - exact) / found.standard_error[0])
    for each in (off, off_in_contexts):
        assert abs(np.mean(each)) < 0.5
        assert 0.7 < np.std(each) < 1.4


@pytest.mark.parametrize("beta", [1e-6, 0.02, 50.0, 1e6])
def test_the_normalizer_is_at_most_one_and_known_where_little_is_cut(beta):
    """Where ψ is nearly min(β, 1) the estimate is close to it, never past it, and never certain."""
    cut = np.log(beta) + 0.5
    exact = np.log(norm.cdf(cut - 1) + beta * norm.sf(cut))
    for seed in range(40):
        policy = tether.Tethered(SAFE, OPTIMIZED, beta, normalizer_draws=500, seed=seed)
        for contexts in (1, np.zeros(1)):
            found = policy.normalizer(contexts)
            assert found.log_psi[0] <= min(np.log(beta), 0)
            assert abs(found.log_psi[0] - exact) < 3 * found.standard_error[0] < 0.02


@pytest.mark.parametrize(("mean", "draws"), [(5.0, 256), (6.0, 256), (8.0, 65_536), (40.0, 256)])
def test_few_draws_that_count_are_said_to_be_few(mean, draws):
    """Far apart, a handful of draws makes the estimate, and their own spread is no measure."""
    exact = np.log(2 * norm.sf(mean / 2))
    off = []
    for seed in range(8 if draws > 1000 else 100):
        policy = tether.Tethered(
            SAFE, tether.Gaussian(mean), 1.0, normalizer_draws=draws, seed=seed
        )
        found = policy.normalizer(1)
        off.append((found.log_psi[0] - exact) / found.standard_error[0])
        assert not found.exact
    assert np.mean(np.abs(off) > 2) <= 0.1
    scores, error = policy.log_prob_with_error(2, np.array([mean / 2, np.inf]))
    assert scores[1] == -np.inf
    assert error[1] == 0
    assert (error[0] == np.inf) == (found.standard_error[0] == np.inf)
    assert found.standard_error[0] > 0.3


def test_rare_actions_that_no_draw_met_are_allowed_for():
    """One in a thousand optimized actions is far away, and most sets of draws have none of them."""
    optimized = tether.Mixture([SAFE, tether.Gaussian(30.0)], [0.999, 0.001])
    for seed in range(20):
        policy = tether.Tethered(SAFE, optimized, 1.0, normalizer_draws=256, seed=seed)
        found = policy.normalizer(1)
        assert abs(found.log_psi[0] - np.log(0.999)) < 2 * found.standard_error[0]


def test_scores_are_the_same_at_every_call_and_remembered():
    policy = tether.Tethered(SAFE, OPTIMIZED, 0.5)
    actions = np.linspace(-1, 1, 5)
    assert policy.normalizer(3) is policy.normalizer(7)
    contexts = np.zeros(5)
    assert np.array_equal(policy.log_prob(contexts, actions), policy.log_prob(contexts, actions))
    assert isinstance(policy.normalizer(contexts), Normalizer)
    assert len(policy.normalizer(contexts).log_psi) == 5
    assert repr(policy) == "Tethered(beta=0.5, family='clip')"


def test_a_context_has_one_score_whatever_its_place_and_however_often_it_is_asked():
    rng = np.random.default_rng(7)
    drawn = []

    def sample(contexts, rng):
        drawn.append(len(contexts))
        return rng.normal(size=len(contexts))

    safe = tether.FunctionPolicy(sample, lambda x, a: SAFE.log_prob(len(x), a))
    policy = tether.Tethered(safe, tether.Gaussian(lambda x: x), 0.5)
    contexts = rng.normal(size=30)
    once = policy.normalizer(contexts).log_psi
    assert drawn == [30 * 256]
    order = rng.permutation(30).repeat(3)
    assert np.array_equal(policy.normalizer(contexts[order]).log_psi, once[order])
    assert drawn == [30 * 256] * 2
    frame = pd.DataFrame({"x": contexts, "y": "some text"})
    framed = tether.Tethered(SAFE, tether.Gaussian(lambda x: x["x"].to_numpy()), 0.5)
    once = framed.normalizer(frame).log_psi
    assert np.array_equal(framed.normalizer(frame.iloc[order]).log_psi, once[order])


def test_the_normalizer_of_a_family_of_ones_own_is_estimated():
    """The geometric middle of N(0, 1) and N(m, 1) has an integral of e^(-m²/8)."""
    policy = tether.Tethered(SAFE, OPTIMIZED, 1.0, family=Geometric(), normalizer_draws=5_000)
    found = policy.normalizer(1)
    assert abs(found.log_psi[0] + 1 / 8) < 4 * found.standard_error[0] < 0.1
    far = tether.Tethered(SAFE, tether.Gaussian(12.0), 1.0, family=Geometric(), normalizer_draws=50)
    assert far.normalizer(1).standard_error[0] == np.inf


@pytest.mark.parametrize("family", ["clip", "budgeted_clip(4)"])
@pytest.mark.parametrize("actions", [3, 17])
def test_the_normalizer_of_a_row_of_a_table_does_not_depend_on_other_rows(family, actions):
    tables = np.log(np.random.default_rng(0).dirichlet(np.ones(actions), size=(2, 200)))
    found = exact_normalizer(*tables, find_family(family), 0.3).log_psi
    for rows in (1, 2, 7):
        parts = [
            exact_normalizer(*tables[:, start : start + rows], find_family(family), 0.3).log_psi
            for start in range(0, 200, rows)
        ]
        np.testing.assert_array_equal(np.concatenate(parts), found)
