"""What samplers cost, record and refuse, and mistakes that are known from published code."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import tether
from tests.fit import chi_square, cumulative, fits
from tether.sampling import (
    DrawLimitError,
    Envelope,
    PolicyPair,
    accept_reject,
    grid_envelope,
    sample_categorical,
)
from tether.sampling.metropolis_hastings import Chains
from tether.sampling.samplers import SAMPLERS, log_softmax

SAFE, OPTIMIZED = tether.Gaussian(0.0, 1.0), tether.Gaussian(1.0, 0.8)
LOGS = st.floats(-20, 20)


@settings(deadline=None)
@given(st.floats(0, 1), LOGS, st.lists(LOGS, min_size=1, max_size=20))
def test_no_draw_exceeds_the_tight_envelope(weight, log_beta, log_ratios):
    envelope = Envelope.tight(log_beta, weight)
    assert envelope.always_valid
    assert (envelope.log_accept_probability(np.array(log_ratios)) <= 1e-9).all()
    assert envelope.log_accept_probability(np.array([log_beta]))[0] == pytest.approx(0, abs=1e-9)
    assert Envelope.auto(log_beta).log_constant <= envelope.log_constant + 1e-9  # accepts the most


@settings(deadline=None)
@given(LOGS, st.lists(LOGS, min_size=1, max_size=30))
def test_the_grid_finds_the_lowest_envelope_by_brute_force(log_beta, log_ratios):
    ratios = np.array(log_ratios)
    found = grid_envelope(ratios, log_beta)
    constants = [
        Envelope(log_beta, float(weight), 0.0).log_importance_weight(ratios).max()
        for weight in np.linspace(0, 1, 129)
    ]
    assert found.log_constant == pytest.approx(min(constants), abs=1e-9)
    assert found.log_accept_probability(ratios).max() <= 1e-9


@pytest.mark.parametrize("contexts", [3000, np.zeros(3000)])
def test_draws_under_a_broken_envelope_are_discarded(contexts):
    """An envelope learned where ratios had a gap, used where they have none."""
    gap = grid_envelope(np.array([-3.0, 3.0]), 0.0)
    assert not gap.always_valid
    policy = tether.Tethered(SAFE, OPTIMIZED, 1.0)
    below, _ = cumulative(lambda x: policy.log_prob(None, x))
    pair, rng = PolicyPair(SAFE, OPTIMIZED), np.random.default_rng(1)
    actions, info = accept_reject(pair, contexts, rng, gap)
    assert info.scored > info.draws
    fits([stats.kstest(actions, below).pvalue])


@pytest.mark.parametrize("beta", [0.02, 0.4, 1.0, 30.0])
@pytest.mark.parametrize("weight", [None, 0.25, 0.75])
def test_acceptance_is_the_predicted_one_and_linear_in_the_weight(beta, weight):
    policy = tether.Tethered(SAFE, OPTIMIZED, beta)
    log_psi = policy.normalizer(1, 6).log_psi[0]  # of more draws, which it remembers
    envelope = Envelope.auto(np.log(beta))
    predicted = policy.acceptance(1)[0]
    if weight is not None:
        envelope = Envelope.tight(np.log(beta), weight)
        predicted = np.exp(log_psi) * (weight / beta + 1 - weight)
    for contexts in (40_000, np.zeros(40_000)):
        _, info = accept_reject(policy._pair, contexts, np.random.default_rng(4), envelope)
        error = np.sqrt(predicted * (1 - predicted) / info.draws)
        assert abs(info.acceptance - predicted) < 4.5 * error + 2e-3 * predicted
        assert info.actions == 40_000


def test_the_limit_of_draws():
    far = tether.Gaussian(lambda x: x)
    for sampler in ("auto", "metropolis"):
        policy = tether.Tethered(SAFE, far, 1.0, max_draws=300, sampler=sampler)
        with pytest.raises(DrawLimitError, match="max_draws"):
            policy.sample(np.array([0.0, 60.0, 0.0, 60.0]), np.random.default_rng(7))
    drawn, there = [], tether.Gaussian(60.0)

    def counted(contexts, rng):
        actions = there.sample(contexts, rng)
        drawn.append(len(actions))
        return actions

    counting = tether.FunctionPolicy(counted, there.log_prob)
    for contexts in (10, np.zeros(20_000)):  # the limit in every context would be 2e9 draws
        with pytest.raises(DrawLimitError, match="max_draws = 100,000"):
            tether.Tethered(SAFE, counting, 1.0).sample(contexts, np.random.default_rng(7))
    assert 0 < sum(drawn) <= 1_200_000


def test_dropping_repeated_states_would_be_biased():
    """Keeping only the states that a chain moved to, a published mistake, gives a wrong density."""
    rng = np.random.default_rng(2)
    pair, envelope = PolicyPair(SAFE, tether.Gaussian(2.5)), Envelope.tight(0.0, 1.0)
    policy = tether.Tethered(pair.safe, pair.optimized, 1.0)
    below, _ = cumulative(lambda x: policy.log_prob(None, x))
    chains = Chains(pair, 4000, rng, envelope)
    chains.advance(200)
    assert stats.kstest(chains.actions, below).pvalue > 1e-3
    moved = []
    for _ in range(20):
        before = chains.actions
        chains.advance(1)
        moved.append(chains.actions[chains.actions != before])
    assert stats.kstest(np.concatenate(moved), below).pvalue < 1e-9


def test_one_generator_gives_distinct_draws_and_the_same_seed_the_same_ones():
    """Re-seeding inside a loop, another published mistake, repeats a few values."""
    for sampler in SAMPLERS:
        policy = tether.Tethered(SAFE, OPTIMIZED, 0.7, sampler=sampler)
        drawn = policy.sample(40_000, np.random.default_rng(3))
        assert len(np.unique(drawn)) == 40_000
        assert np.array_equal(drawn, policy.sample(40_000, np.random.default_rng(3)))
        with pytest.raises(TypeError, match="rng"):
            policy.sample(3, 0)


@pytest.mark.parametrize("contexts", [1500, np.zeros(1500)])
@pytest.mark.parametrize("mean", [4.0, 6.0])
def test_chains_of_policies_far_apart_take_longer_and_still_fit(mean, contexts):
    policy = tether.Tethered(SAFE, tether.Gaussian(mean), 1.0, sampler="metropolis")
    below, _ = cumulative(lambda x: -np.maximum(x**2, (x - mean) ** 2) / 2)
    actions, info = policy.sample_with_info(contexts, np.random.default_rng([7, int(mean)]))
    fits([stats.kstest(actions, below).pvalue])
    assert (info.draws > 100 * info.actions) == (mean == 6)  # the burn-in has 64 steps


def test_draws_from_tables():
    rng, found = np.random.default_rng(0), []
    for size in (2, 7, 300):
        table = log_softmax(rng.normal(size=(2, size)) * 3)
        shifted = np.repeat(table + np.array([[0.0], [-3000.0]]), 5000, axis=0)
        many = sample_categorical(shifted, 10_000, rng).reshape(2, 5000)
        for row, drawn in zip(table, many, strict=True):
            single = sample_categorical(row[None], 5000, rng)
            found += [chi_square(drawn, np.exp(row)), chi_square(single, np.exp(row))]
    fits(found)
    row = np.array([-np.inf, 0.0, -np.inf, 1.0])
    assert set(sample_categorical(np.tile(row, (50, 1)), 50, rng).tolist()) == {1, 3}
    with pytest.raises(ValueError, match="row 1"):
        sample_categorical(np.array([[0.0, 0.0], [-np.inf, -np.inf]]), 2, rng)
