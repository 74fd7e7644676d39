"""Accept-reject: how many draws it takes, what it records, and that it stops."""

import numpy as np
import pytest
from scipy import stats

import tether
from tether.sampling import DrawLimitError, Envelope, PolicyPair, accept_reject, grid_envelope

SAFE, OPTIMIZED = tether.Gaussian(0.0, 1.0), tether.Gaussian(1.0, 0.8)


class Counting:
    """A policy that counts its calls and their sizes."""

    def __init__(self, policy):
        self.policy, self.drawn, self.scored = policy, [], []

    def sample(self, contexts, rng):
        actions = self.policy.sample(contexts, rng)
        self.drawn.append(len(actions))
        return actions

    def log_prob(self, contexts, actions):
        self.scored.append(len(actions))
        return self.policy.log_prob(contexts, actions)


def deviation(info, predicted):
    """How many standard errors observed acceptance is from the predicted one."""
    return (info.acceptance - predicted) / np.sqrt(predicted * (1 - predicted) / info.draws)


@pytest.mark.parametrize("beta", [1e-6, 0.02, 0.4, 0.99, 1.0, 1.7, 30.0, 1e6])
def test_observed_acceptance_is_the_predicted_one(beta):
    policy = tether.Tethered(SAFE, OPTIMIZED, beta, normalizer_draws=1_000_000)
    _, info = policy.sample_with_info(50_000, np.random.default_rng(2))
    predicted = policy.acceptance(1)[0]
    assert abs(deviation(info, min(predicted, 1 - 1e-9))) < 4 + 1e3 * (predicted > 0.9999)
    assert info.acceptance == pytest.approx(predicted, abs=0.01)
    assert info.actions == 50_000
    assert (info.draws_safe == info.draws) == (beta < 1)
    assert info.scored >= info.draws


def test_observed_acceptance_in_contexts_is_the_harmonic_mean():
    rng = np.random.default_rng(3)
    tables = rng.normal(size=(2, 5, 8))
    safe, optimized = (tether.Categorical.from_logits(table) for table in tables)
    contexts = np.tile(np.arange(5), 10_000)
    policy = tether.Tethered(safe, optimized, 0.8, sampler="safe")
    _, info = policy.sample_with_info(contexts, rng)
    exact = tether.Tethered(safe, optimized, 0.8).acceptance(np.arange(5))
    assert 1 / info.acceptance == pytest.approx((1 / exact).mean(), rel=0.01)


@pytest.mark.parametrize("beta", [0.25, 1.0, 4.0])
def test_acceptance_of_a_mixture_is_linear_in_its_weight(beta):
    pair = PolicyPair(SAFE, OPTIMIZED)
    policy = tether.Tethered(SAFE, OPTIMIZED, beta, normalizer_draws=1_000_000)
    log_psi = policy.normalizer(1).log_psi[0]
    seen = []
    for weight in (0.0, 0.25, 0.5, 0.75, 1.0):
        envelope = Envelope.tight(np.log(beta), weight)
        predicted = np.exp(log_psi) * (weight / beta + 1 - weight)
        assert np.exp(envelope.log_acceptance(log_psi)) == pytest.approx(predicted)
        _, info = accept_reject(pair, 40_000, np.random.default_rng(4), envelope)
        assert abs(deviation(info, predicted)) < 4.5
        seen.append(info.acceptance)
    assert np.diff(seen, 2) == pytest.approx(0, abs=0.02)


def test_proposals_are_made_only_where_an_action_is_missing():
    safe, optimized = Counting(tether.Gaussian(0.0)), Counting(tether.Gaussian(1.5))
    contexts = np.zeros(10_000)
    policy = tether.Tethered(safe, optimized, 0.9)
    _, info = policy.sample_with_info(contexts, np.random.default_rng(5))
    assert info.scored == sum(safe.drawn) == sum(safe.scored) == sum(optimized.scored)
    assert safe.drawn[0] == 10_000
    assert sum(safe.drawn) < 1.5 * info.draws
    assert len(safe.drawn) == info.calls < 20


def test_calls_grow_with_the_logarithm_of_draws_not_with_actions():
    safe, optimized = Counting(tether.Gaussian(0.0)), Counting(tether.Gaussian(7.0))
    policy = tether.Tethered(safe, optimized, 1.0)
    for contexts in (1, np.zeros(1), np.zeros(20)):
        _, info = policy.sample_with_info(contexts, np.random.default_rng(6))
        assert info.draws > 200 * info.actions
        assert info.calls < 30


@pytest.mark.parametrize("contexts", [10, np.zeros(10)])
def test_the_draw_limit_is_an_error_that_states_the_acceptance(contexts):
    policy = tether.Tethered(tether.Gaussian(0.0), tether.Gaussian(40.0), 1.0, max_draws=5_000)
    with pytest.raises(RuntimeError, match=r"acceptance 0\).*max_draws = 5,000"):
        policy.sample(contexts, np.random.default_rng(7))


def test_it_stops_early_in_many_contexts():
    """The limit in every context would be two billion draws."""
    safe, optimized = Counting(tether.Gaussian(0.0)), Counting(tether.Gaussian(60.0))
    policy = tether.Tethered(safe, optimized, 1.0)
    with pytest.raises(RuntimeError, match=r"20000 of 20000 context.*max_draws = 100,000"):
        policy.sample(np.zeros(20_000), np.random.default_rng(7))
    assert sum(optimized.drawn) <= 200_000
    assert len(optimized.drawn) <= 10


def test_the_error_states_how_many_draws_were_accepted():
    optimized = tether.Gaussian(lambda x: x)
    policy = tether.Tethered(tether.Gaussian(0.0), optimized, 1.0, max_draws=3_000)
    with pytest.raises(RuntimeError, match=r"accepted 9 of .* gave up on 1 of 10 context"):
        policy.sample(np.append(np.zeros(9), 60.0), np.random.default_rng(7))


def test_a_budget_above_max_draws_is_refused():
    pair, envelope = PolicyPair(SAFE, OPTIMIZED), Envelope.auto(0.0)
    with pytest.raises(ValueError, match="budget of 20 draws per action is above max_draws, 10"):
        accept_reject(pair, 3, np.random.default_rng(0), envelope, budget=20, max_draws=10)
    with pytest.raises(ValueError, match=r"budgeted_clip.*more than max_draws"):
        tether.Tethered(SAFE, OPTIMIZED, 1.0, family="budgeted_clip(20)", max_draws=10)


@pytest.mark.parametrize("contexts", [30_000, np.zeros(30_000)])
@pytest.mark.parametrize("beta", [0.3, 2.0])
def test_budget_falls_back_as_often_as_the_family_says(contexts, beta):
    family = tether.BudgetedClip(2)
    policy = tether.Tethered(
        tether.Gaussian(0.0), tether.Gaussian(2.0), beta, family=family, normalizer_draws=100_000
    )
    policy_alone = tether.Tethered(
        tether.Gaussian(0.0), tether.Gaussian(2.0), beta, normalizer_draws=1_000_000
    )
    _, info = policy.sample_with_info(contexts, np.random.default_rng(8))
    log_psi = policy_alone.normalizer(1).log_psi[0]
    expected = np.exp(family.log_averages(np.log(beta), log_psi)[1])
    share = info.fallbacks / info.actions
    assert abs(share - expected) < 4 * np.sqrt(expected * (1 - expected) / 30_000) + 1e-3
    assert info.draws <= 2 * info.actions
    assert info.taken_safe + info.taken_optimized + info.fallbacks == info.actions


def test_text_actions_of_different_lengths():
    """A later batch may hold longer strings than the first: none may be cut."""
    words = np.array(["a", "bb", "a much longer answer"])
    safe = tether.Categorical.from_probabilities([0.98, 0.01, 0.01], actions=words)
    optimized = tether.Categorical.from_probabilities([0.01, 0.01, 0.98], actions=words)
    policy = tether.Tethered(safe, optimized, 5.0, sampler="optimized")
    drawn = policy.sample(np.zeros(500), np.random.default_rng(10))
    assert set(drawn) <= set(words)


def test_draws_under_a_broken_envelope_are_discarded():
    """An envelope learned where ratios had a gap, used where they have none."""
    safe, optimized = tether.Gaussian(0.0), tether.Gaussian(1.0)
    gap = grid_envelope(np.array([-3.0, 3.0]), 0.0)
    assert not gap.always_valid
    for contexts in (3000, np.zeros(3000)):
        actions, info = accept_reject(
            PolicyPair(safe, optimized), contexts, np.random.default_rng(1), gap
        )
        assert info.scored > info.draws
        assert stats.kstest(actions - 0.5, clipped_cumulative).pvalue > 1e-3


def clipped_cumulative(x):
    """The distribution function of min(N(0, 1), N(1, 1)) over its integral, around one half."""
    tail = stats.norm.cdf(-0.5)
    left, right = stats.norm.cdf(x - 0.5), 2 * tail - stats.norm.sf(x + 0.5)
    return np.where(x < 0, left, right) / (2 * tail)


def test_the_error_at_the_draw_limit_lists_the_contexts_without_an_action():
    policy = tether.Tethered(tether.Gaussian(0.0), tether.Gaussian(lambda x: x), 1.0, max_draws=300)
    with pytest.raises(DrawLimitError) as caught:
        policy.sample(np.array([0.0, 60.0, 0.0, 60.0]), np.random.default_rng(7))
    assert caught.value.missing.tolist() == [1, 3]
