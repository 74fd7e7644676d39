"""Independence Metropolis–Hastings: exact after thinning, with diagnostics that hold."""

import numpy as np
import pytest
from scipy import stats

import tether
from tests.fit import chi_square, cumulative, fits
from tether.sampling import Envelope, PolicyPair, metropolis
from tether.sampling.metropolis_hastings import Chains, autocorrelation, diagnose

SAFE, OPTIMIZED = tether.Gaussian(0.0, 1.0), tether.Gaussian(1.0, 0.8)


@pytest.mark.parametrize("beta", [1e-6, 0.3, 1.0, 3.0, 1e6])
def test_thinned_draws_fit_the_density(beta):
    policy = tether.Tethered(SAFE, OPTIMIZED, beta, sampler="metropolis")
    below, _ = cumulative(lambda x: policy.log_prob(None, x))
    found = []
    for seed in range(10):
        actions, info = policy.sample_with_info(3000, np.random.default_rng([seed, int(beta)]))
        assert info.chain.thinning >= 1
        assert info.chain.unsettled == 0
        found.append(stats.kstest(actions, below).pvalue)
    fits(found)


def test_draws_fit_in_contexts():
    rng = np.random.default_rng(1)
    safe, optimized = (
        tether.Categorical.from_logits(table) for table in rng.normal(size=(2, 3, 6))
    )
    contexts = np.repeat(np.arange(3), 2000)
    found = []
    for beta in (0.2, 1.0, 4.0):
        policy = tether.Tethered(safe, optimized, beta, sampler="metropolis")
        actions, info = policy.sample_with_info(contexts, rng)
        stated = np.exp(policy.log_prob_all(np.arange(3)))
        found += [chi_square(actions[contexts == x], stated[x]) for x in range(3)]
        assert info.chain.unsettled < 0.01
        assert info.taken_safe == (len(contexts) if beta < 1 else 0)
    fits(found)


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


def test_diagnostics_of_known_moves():
    moved = np.array([[True, False], [False, False], [False, True], [True, False]])
    chain = diagnose(moved, thinning=2, unsettled=0.0)
    assert chain.acceptance == 3 / 8
    # Runs of 3 and 1 in the first chain, of 2 and 2 in the second.
    assert chain.effective_draws == pytest.approx(64 / 18)
    assert chain.autocorrelation == pytest.approx((1, 4 / 6, 1 / 4, 0))
    assert chain.steps == 8


def test_effective_draws_predict_the_variance_of_an_average():
    """The average of a coin flipped for each envelope varies as effective_draws says."""
    rng = np.random.default_rng(3)
    steps, chains, stay = 400, 3000, 0.8
    moved = rng.random((steps, chains)) > stay
    label = rng.integers(0, 2, size=(steps, chains)).astype(float)
    for t in range(1, steps):
        label[t] = np.where(moved[t], label[t], label[t - 1])
    diagnostics = diagnose(moved, 1, 0.0)
    per_chain = diagnostics.effective_draws / chains
    assert 0.25 / label.mean(axis=0).var() == pytest.approx(per_chain, rel=0.1)
    assert autocorrelation(moved, 5)[1:] == pytest.approx(stay ** np.arange(1, 6), abs=0.01)


def test_acceptance_and_effective_draws_decrease_with_the_distance_of_the_policies():
    rng = np.random.default_rng(4)
    seen = [
        metropolis(PolicyPair(SAFE, tether.Gaussian(mean)), 2000, rng, Envelope.auto(0.0))[1].chain
        for mean in (0.0, 1.0, 2.5)
    ]
    assert seen[0].acceptance == 1
    assert seen[0].acceptance > seen[1].acceptance > seen[2].acceptance
    share = [chain.effective_draws / chain.steps for chain in seen]
    assert share[0] == 1
    assert share[0] > share[1] > share[2]
    assert seen[0].thinning <= seen[1].thinning < seen[2].thinning


@pytest.mark.parametrize("contexts", [50, np.zeros(50)])
def test_chains_that_do_not_settle_are_an_error(contexts):
    policy = tether.Tethered(SAFE, tether.Gaussian(9.0), 1.0, sampler="metropolis", max_draws=2_000)
    with pytest.raises(RuntimeError, match=r"50 of 50 chain.*max_draws = 2,000.*Chains moved"):
        policy.sample(contexts, np.random.default_rng(5))


@pytest.mark.parametrize("mean", [4.0, 6.0])
@pytest.mark.parametrize("contexts", [2500, np.zeros(1500)])
def test_policies_far_apart_take_longer_and_still_fit(mean, contexts):
    policy = tether.Tethered(SAFE, tether.Gaussian(mean), 1.0, sampler="metropolis")
    below, _ = cumulative(lambda x: -np.maximum(x**2, (x - mean) ** 2) / 2)
    actions, info = policy.sample_with_info(contexts, np.random.default_rng([7, int(mean)]))
    fits([stats.kstest(actions, below).pvalue])
    assert (info.chain.unsettled > 0.3) == (mean == 6)
    assert "of their steps" in str(info)
    assert info.scored == info.draws


@pytest.mark.parametrize("contexts", [900, np.zeros(200)])
def test_no_impossible_action_is_returned(contexts):
    """The safe policy draws where the optimized one can act once in two thousand times."""

    def uniform(high):
        return tether.FunctionPolicy(
            lambda n, rng: rng.random(n if isinstance(n, int) else len(n)) * high,
            lambda n, a: np.where((a >= 0) & (a < high), -np.log(high), -np.inf),
        )

    policy = tether.Tethered(uniform(1.0), uniform(5e-4), 0.5, sampler="metropolis")
    actions = policy.sample(contexts, np.random.default_rng(8))
    fits([stats.kstest(actions, "uniform", args=(0, 5e-4)).pvalue])


def test_a_far_context_is_not_hidden_among_others():
    contexts = np.zeros(2000)
    contexts[-100:] = 6.0
    safe, optimized = tether.Gaussian(lambda x: 0 * x), tether.Gaussian(lambda x: x + 0.5)
    policy = tether.Tethered(safe, optimized, 1.0, sampler="metropolis")
    actions, info = policy.sample_with_info(contexts, np.random.default_rng(9))
    assert actions[-100:].mean() == pytest.approx(3.25, abs=0.3)
    assert 0 < info.chain.unsettled < 0.05
    strict = tether.Tethered(safe, optimized, 1.0, sampler="metropolis", max_draws=300)
    with pytest.raises(RuntimeError, match=r"of 2000 chain\(s\) have not forgotten"):
        strict.sample(contexts, np.random.default_rng(9))


def test_many_contexts_run_in_several_groups():
    contexts = np.linspace(0, 1, 100)
    safe, optimized = tether.Gaussian(lambda x: 0 * x), tether.Gaussian(lambda x: x)
    actions, info = metropolis(
        PolicyPair(safe, optimized),
        contexts,
        np.random.default_rng(6),
        Envelope.auto(0.0),
        batch_size=32,
    )
    assert actions.shape == (100,)
    assert info.actions == 100


def test_more_states_than_chains_must_not_be_correlated():
    policy = tether.Tethered(SAFE, tether.Gaussian(4.0), 1.0, sampler="metropolis", max_draws=270)
    with pytest.raises(RuntimeError, match=r"steps apart are still correlated, at max_draws = 270"):
        policy.sample(2500, np.random.default_rng(10))
    assert policy.sample(500, np.random.default_rng(10)).shape == (500,)
