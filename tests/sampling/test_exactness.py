"""Every sampler draws from the density that log_prob states, over seeds and betas."""

import zlib

import numpy as np
import pytest
from scipy import stats

import tether
from tests.control.worlds import Geometric
from tests.fit import chi_square, cumulative, fits, score_error
from tests.scale import scaled
from tether.sampling.samplers import SAMPLERS

BETAS = (1e-6, 0.3, 1.0, 3.0, 1e6, np.inf)
SEEDS = range(scaled(4))
SAFE, OPTIMIZED = tether.Gaussian(0.0, 1.0), tether.Gaussian(1.0, 0.8)


def generator(policy, seed):
    """A stream of its own for every beta and seed, so that p-values are independent."""
    return np.random.default_rng([seed, zlib.crc32(repr(policy).encode())])


def line(beta, **options):
    """P-values of draws from the Gaussian world on a line; log_prob must integrate to 1."""
    policy = tether.Tethered(SAFE, OPTIMIZED, beta, **options)
    below, mass = cumulative(lambda x: policy.log_prob(None, x))
    assert abs(mass - 1) < 5 * policy.normalizer(1).standard_error[0] + 1e-6
    draws = [policy.sample(1500, generator(policy, seed)) for seed in SEEDS]
    return [stats.kstest(actions, below).pvalue for actions in draws]


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_clip_on_a_line(sampler):
    betas = {"safe": (0.01, 1, 20), "optimized": (0.05, 1)}.get(sampler, BETAS)
    fits(np.concatenate([line(beta, sampler=sampler) for beta in betas]))


@pytest.mark.parametrize("family", ["mix", "budgeted_clip(1)", "budgeted_clip(3)"])
def test_other_families_on_a_line(family):
    fits(np.concatenate([line(beta, family=family) for beta in BETAS]))


@pytest.mark.parametrize("family", ["clip", "mix", "budgeted_clip(2)"])
def test_lines_in_contexts(family):
    """Each context has its own normalizer, so each is tested by itself."""
    safe = tether.Gaussian(lambda x: 0.0 * x, 1.0)
    optimized = tether.Gaussian(lambda x: x, lambda x: 0.5 + 0.2 * x)
    contexts = np.repeat([0.5, 1.0, 2.5], 600)
    found = []
    for beta in BETAS:
        policy = tether.Tethered(safe, optimized, beta, family=family)
        actions = policy.sample(contexts, generator(policy, 7))
        for x in np.unique(contexts):
            there = tether.Gaussian(x, 0.5 + 0.2 * x)
            alone = tether.Tethered(tether.Gaussian(0.0), there, beta, family=family)
            below, _ = cumulative(lambda a, alone=alone: alone.log_prob(None, a))
            found.append(stats.kstest(actions[contexts == x], below).pvalue)
            tried = np.linspace(-2, 3, 7)
            x = np.full(7, x)
            off = np.abs(policy.log_prob(x, tried) - alone.log_prob(7, tried))
            error = np.hypot(score_error(policy, x, tried), score_error(alone, 7, tried))
            assert (off <= 5 * error + 1e-9).all()
    fits(found)


@pytest.mark.parametrize("hidden", [False, True])
@pytest.mark.parametrize("family", ["clip", "mix", "budgeted_clip(3)"])
def test_categories_in_contexts(family, hidden):
    """Tables are the oracle; hiding that actions are finite takes the path of the samplers."""
    rng = np.random.default_rng(6)
    pair = [tether.Categorical.from_logits(table) for table in rng.normal(size=(2, 4, 7))]
    contexts = np.repeat(np.arange(4), 700)
    found = []
    for beta in BETAS:
        stated = np.exp(tether.Tethered(*pair, beta, family=family).log_prob_all(np.arange(4)))
        assert np.allclose(stated.sum(axis=1), 1, atol=1e-12)
        drawn = pair
        if hidden:
            drawn = [tether.FunctionPolicy(each.sample, each.log_prob) for each in pair]
        policy = tether.Tethered(*drawn, beta, family=family)
        for seed in SEEDS:
            actions = policy.sample(contexts, generator(policy, seed))
            found += [chi_square(actions[contexts == x], stated[x]) for x in range(4)]
    fits(found)


@pytest.mark.parametrize("family", ["clip", "mix", "budgeted_clip"])
def test_the_ends_are_the_policies_themselves(family):
    for beta, same in ((0.0, SAFE), (np.inf, OPTIMIZED)):
        policy = tether.Tethered(SAFE, OPTIMIZED, beta, family=family)
        drawn = policy.sample(50, np.random.default_rng(1))
        assert np.array_equal(drawn, same.sample(50, np.random.default_rng(1)))
        assert np.array_equal(policy.log_prob(50, drawn), same.log_prob(50, drawn))


@pytest.mark.parametrize("sampler", ["grid", "overlap", "adaptive"])
def test_mixture_proposals_learn_no_envelope_from_unlike_contexts(sampler):
    """In 4,096 contexts ratios are 1/2 or 3, and in the one after them any number at all."""

    def world(p, mean, scale):
        last = tether.Gaussian(mean, scale)

        def sample(contexts, rng):
            of_two = rng.random(len(contexts)) + (rng.random(len(contexts)) >= p)
            return np.where(contexts == 0, of_two, last.sample(len(contexts), rng))

        def log_prob(contexts, actions):
            of_two = np.log([p, 1 - p])[(actions >= 1).astype(int)]
            return np.where(contexts == 0, of_two, last.log_prob(len(contexts), actions))

        return tether.FunctionPolicy(sample, log_prob)

    rng = np.random.default_rng(11)
    policy = tether.Tethered(world(0.8, 0.0, 1.0), world(0.4, 1.0, 0.8), 1.0, sampler=sampler)
    contexts = np.append(np.zeros(4096), 1.0)
    drawn = [policy.sample(contexts, rng)[-1] for _ in range(scaled(300))]
    alone = tether.Tethered(SAFE, OPTIMIZED, 1.0)
    below, _ = cumulative(lambda x: alone.log_prob(None, x))
    fits([stats.kstest(drawn, below).pvalue])


def test_a_family_of_the_users_own_by_its_acceptance():
    class Accepting(Geometric):
        def optimized_share(self, log_beta):
            return 0.5

        def log_accept(self, log_ratio, log_beta):
            share = 1 / (1 + np.exp(-log_beta))  # kernel over (safe + optimized), at most 1
            return share * log_ratio - np.logaddexp(0.0, log_ratio)

    fits(np.concatenate([line(beta, family=Accepting()) for beta in (0.2, 1.0, 4.0)]))
    del Accepting.optimized_share
    with pytest.raises(TypeError, match="optimized_share"):
        tether.Tethered(SAFE, OPTIMIZED, 1.0, family=Accepting()).sample(
            3, np.random.default_rng(0)
        )
