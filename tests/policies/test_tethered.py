"""The tethered policy as a policy: its density, its normalizer, and what it refuses."""

import dataclasses

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st

import tether

BETAS = st.floats(-14, 14).map(np.exp)
SAFE, OPTIMIZED = tether.Gaussian(0.0), tether.Gaussian(1.0)


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 10_000), BETAS, st.sampled_from(["clip", "mix", "budgeted_clip(3)"]))
def test_finite_scores_are_the_family_by_brute_force(seed, beta, family):
    rng = np.random.default_rng(seed)
    tables = rng.dirichlet(np.ones(6), size=(2, 4))
    safe, optimized = (tether.Categorical.from_probabilities(table) for table in tables)
    policy = tether.Tethered(safe, optimized, beta, family=family)
    contexts = np.arange(4)
    clip = np.minimum(tables[1], beta * tables[0])
    psi = clip.sum(axis=1, keepdims=True)
    given_up = (1 - np.minimum(psi / min(beta, 1), 1)) ** 3
    expected = {
        "clip": clip / psi,
        "mix": (tables[0] + beta * tables[1]) / (1 + beta),
        "budgeted_clip(3)": (1 - given_up) * clip / psi + given_up * tables[0],
    }[family]
    assert np.allclose(np.exp(policy.log_prob_all(contexts)), expected, rtol=1e-8, atol=1e-14)
    actions = rng.integers(6, size=4)
    assert np.allclose(np.exp(policy.log_prob(contexts, actions)), expected[contexts, actions])
    if family == "clip":
        assert np.allclose(np.exp(policy.normalizer(contexts).log_psi), psi[:, 0])
        assert policy.normalizer(contexts).exact
        assert (policy.acceptance(contexts) <= 1).all()
    assert (policy.log_prob_with_error(contexts, actions)[1] == 0).all()


def test_a_tethered_policy_can_be_tethered_again():
    rng = np.random.default_rng(0)
    safe, optimized, newer = (tether.Categorical.from_logits(rng.normal(size=5)) for _ in range(3))
    first = tether.Tethered(safe, optimized, 0.5)
    second = tether.Tethered(first, newer, 2.0, family="mix")
    expected = (np.exp(first.log_prob_all(1)) + 2 * np.exp(newer.log_prob_all(1))) / 3
    assert np.allclose(np.exp(second.log_prob_all(1)), expected)
    deployed = tether.Mixture([safe, first], [100, 50])
    assert np.allclose(np.exp(deployed.log_prob_all(1)).sum(), 1)


def test_beta_may_be_a_calibration_and_then_brings_its_family():
    rng = np.random.default_rng(1)
    actions = SAFE.sample(300, rng)
    log = tether.make_log(SAFE, OPTIMIZED, None, actions, actions > 1.5)
    proposals = tether.make_proposals(SAFE, OPTIMIZED, None, 200, rng)
    for family in ("clip", "mix", "budgeted_clip(2)"):
        found = tether.calibrate(log, proposals, alpha=0.2, family=family)
        policy = tether.Tethered(SAFE, OPTIMIZED, found)
        assert policy.family.name == family
        assert policy.log_beta == found.log_beta
    with pytest.raises(ValueError, match="calibrated for 'budgeted_clip"):
        tether.Tethered(SAFE, OPTIMIZED, found, family="clip")


def test_a_marginal_beta_does_not_serve_contexts():
    rng = np.random.default_rng(2)
    actions = SAFE.sample(300, rng)
    log = tether.make_log(SAFE, OPTIMIZED, None, actions, actions > 1.5)
    policy = tether.Tethered(SAFE, OPTIMIZED, tether.calibrate(log, alpha=0.2))
    with pytest.raises(ValueError, match="calibrated on a log without contexts"):
        policy.sample(np.zeros(4), rng)
    with pytest.raises(ValueError, match="calibrated on a log without contexts"):
        policy.log_prob(np.zeros(4), np.zeros(4))
    assert policy.sample(4, rng).shape == (4,)
    proposals = tether.make_proposals(SAFE, OPTIMIZED, None, 200, rng)
    mixed = tether.calibrate(log, proposals, alpha=0.2, family="mix")
    assert tether.Tethered(SAFE, OPTIMIZED, mixed).sample(np.zeros(4), rng).shape == (4,)


def test_frames_and_lists_serve_as_contexts():
    rng = np.random.default_rng(3)
    frame = pd.DataFrame({"a": rng.normal(size=40), "b": rng.normal(size=40)})
    safe, optimized = tether.Gaussian(lambda x: 0 * x["a"]), tether.Gaussian(lambda x: x["a"])
    policy = tether.Tethered(safe, optimized, 0.7)
    actions = policy.sample(frame, rng)
    assert actions.shape == (40,)
    assert policy.log_prob(frame, actions).shape == (40,)
    sparse = scipy.sparse.csr_array(np.eye(6))
    by_column = tether.Gaussian(lambda x: x.argmax(axis=1).ravel().astype(float))
    assert tether.Tethered(by_column, by_column, 1.0).sample(sparse, rng).shape == (6,)
    with pytest.raises(TypeError, match="that list finitely many actions"):
        policy.log_prob_all(frame)
    table = tether.Categorical.from_logits(rng.normal(size=(3, 4)))
    assert tether.Tethered(table, table, 1.0).sample([0, 1, 2, 2], rng).shape == (4,)


def test_many_contexts_are_scored_in_parts():
    rng = np.random.default_rng(4)
    tables = rng.normal(size=(2, 5, 40))
    safe, optimized = (tether.Categorical.from_logits(table) for table in tables)
    policy = tether.Tethered(safe, optimized, 0.6)
    contexts = rng.integers(5, size=8000)
    actions, info = policy.sample_with_info(contexts, rng)
    assert info.calls > 1
    expected = policy.log_prob_all(np.arange(5))[contexts, actions]
    assert np.allclose(policy.log_prob(contexts, actions), expected)
    assert policy.normalizer(contexts).log_psi.shape == (8000,)
    # Pools ignore contexts, but must give each of them its action.
    pool = tether.Tethered(tether.Pool.uniform(5), tether.Pool(np.arange(5.0)), 0.5)
    assert pool.sample(np.zeros(9), rng).shape == (9,)
    assert pool.log_prob(np.zeros(9), np.zeros(9, dtype=int)).shape == (9,)


@pytest.mark.parametrize("family", ["clip", "mix", "budgeted_clip(2)"])
@pytest.mark.parametrize("log_beta", [-900.0, 900.0])
@pytest.mark.filterwarnings("ignore:this policy is of a calibration that is not useful")
def test_likelihoods_and_betas_that_no_float_can_hold(family, log_beta):
    """Answers with a likelihood of e^-900, and a calibrated beta as far from one as that."""
    answers = np.array([-900.0, -2000.0, -1500.0])
    safe = tether.FunctionPolicy(lambda n, rng: rng.integers(3, size=n), lambda n, a: answers[a])
    optimized = tether.FunctionPolicy(
        lambda n, rng: rng.integers(3, size=n), lambda n, a: answers[a] + np.array([3, 0, -4])[a]
    )
    log = tether.make_log(safe, optimized, None, [0, 1, 2, 0], [0, 0, 1, 0])
    found = tether.calibrate(log, alpha=0.9)
    found = dataclasses.replace(found, log_beta=log_beta, family=family)
    policy = tether.Tethered(safe, optimized, found)
    actions, info = policy.sample_with_info(300, np.random.default_rng(6))
    assert set(actions.tolist()) == {0, 1, 2}
    assert info.acceptance == 1
    assert (info.draws_safe == 300) == (log_beta < 0)


class Geometric(tether.Family):
    """safe^(1−t)·optimized^t with t = β/(1+β), over its integral: a family of the user's own."""

    name = "geometric"

    def log_kernel(self, log_safe, log_optimized, log_beta):
        share = 1 / (1 + np.exp(-log_beta))
        return (1 - share) * log_safe + share * log_optimized


def test_beta_may_be_a_whole_number_that_no_float_can_hold():
    assert tether.Tethered(SAFE, OPTIMIZED, 10**400).log_beta == pytest.approx(400 * np.log(10))


def test_a_family_of_ones_own_works_over_finitely_many_actions():
    rng = np.random.default_rng(5)
    safe, optimized = (tether.Categorical.from_logits(rng.normal(size=6)) for _ in range(2))
    policy = tether.Tethered(safe, optimized, 1.0, family=Geometric())
    expected = np.exp((safe.log_prob_all(1) + optimized.log_prob_all(1)) / 2)
    assert np.allclose(np.exp(policy.log_prob_all(1)), expected / expected.sum())
    assert policy.sample(10, rng).shape == (10,)
    with pytest.raises(TypeError, match="no sampler beyond finitely many"):
        tether.Tethered(SAFE, OPTIMIZED, 1.0, family=Geometric()).sample(10, rng)


def test_whole_numbers_may_be_floats():
    assert tether.Tethered(SAFE, OPTIMIZED, 1.0, max_draws=1e6).max_draws == 1_000_000


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"beta": -1.0}, ValueError, "beta must be at least 0"),
        ({"beta": np.nan}, ValueError, "beta must be at least 0"),
        ({"beta": "1"}, TypeError, "beta must be a number"),
        ({"beta": 1.0, "family": "clap"}, ValueError, "family must be"),
        ({"beta": 1.0, "sampler": "gibbs"}, ValueError, "sampler must be one of 'auto'"),
        ({"beta": 1.0, "sampler": "safe", "family": "mix"}, ValueError, "is for clip"),
        ({"beta": 1.0, "max_draws": 0}, ValueError, "max_draws must be at least 1"),
        ({"beta": 1.0, "max_draws": 0.5}, TypeError, "max_draws must be an integer, got 0.5"),
        ({"beta": 1.0, "seed": -1}, ValueError, "seed must be at least 0"),
        ({"beta": 1.0, "normalizer_draws": "8"}, TypeError, "normalizer_draws must be an integer"),
        ({"beta": 1.0, "normalizer_draws": 2.5}, TypeError, "normalizer_draws must be an integer"),
        ({"beta": 1.0, "normalizer_draws": 1}, ValueError, "normalizer_draws"),
        ({"beta": 1.0, "outside": "maybe"}, ValueError, "outside must be one of"),
        ({"beta": np.inf, "family": "token_clip(0.01)"}, TypeError, "TokenTether"),
        ({"beta": 0.0, "family": "token_mix"}, TypeError, "TokenTether"),
    ],
)
def test_impossible_options_are_refused(options, error, message):
    with pytest.raises(error, match=message):
        tether.Tethered(SAFE, OPTIMIZED, **options)


@pytest.mark.parametrize(
    ("contexts", "error"),
    [
        (0, ValueError),
        (True, TypeError),
        (np.array(3.0), TypeError),
        ([], ValueError),
        (None, TypeError),
        ([[1, 2], [3]], ValueError),
    ],
)
def test_impossible_contexts_are_refused(contexts, error):
    with pytest.raises(error, match="contexts"):
        tether.Tethered(SAFE, OPTIMIZED, 1.0).sample(contexts, np.random.default_rng(0))
