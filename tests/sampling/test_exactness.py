"""Every sampler draws from the density that log_prob states, over seeds and betas."""

import zlib

import numpy as np
import pytest
from scipy import stats

import tether
from tests.fit import chi_square, cumulative, fits
from tests.scale import scaled

BETAS = (1e-6, 1e-3, 0.3, 1.0, 3.0, 1e3, 1e6, np.inf)
SEEDS = range(scaled(6))
ACCEPT_REJECT_SAMPLERS = ("auto", "grid", "overlap", "adaptive")
SAFE, OPTIMIZED = tether.Gaussian(0.0, 1.0), tether.Gaussian(1.0, 0.8)


def line(beta, **options):
    """The Gaussian world on a line, its distribution function, and the mass that log_prob has."""
    policy = tether.Tethered(SAFE, OPTIMIZED, beta, **options)
    below, mass = cumulative(lambda x: policy.log_prob(None, x))
    error = policy.normalizer(1).standard_error[0]
    assert abs(mass - 1) < 5 * error + 1e-6
    return policy, below


def generator(policy, seed):
    """A stream of its own for every beta and seed, so that p-values are independent."""
    return np.random.default_rng([seed, zlib.crc32(repr(policy).encode())])


def p_values(policy, below, draws=1500):
    return [
        stats.kstest(policy.sample(draws, generator(policy, seed)), below).pvalue for seed in SEEDS
    ]


@pytest.mark.parametrize("sampler", ACCEPT_REJECT_SAMPLERS)
def test_accept_reject_on_a_line(sampler):
    found = []
    for beta in BETAS:
        found += p_values(*line(beta, sampler=sampler))
    fits(found)


@pytest.mark.parametrize(("sampler", "betas"), [("safe", (0.01, 1, 20)), ("optimized", (0.05, 1))])
def test_one_policy_proposes_where_the_other_would_be_better(sampler, betas):
    fits(np.concatenate([p_values(*line(beta, sampler=sampler)) for beta in betas]))


@pytest.mark.parametrize("family", ["mix", "budgeted_clip(1)", "budgeted_clip(3)"])
def test_other_families_on_a_line(family):
    fits(np.concatenate([p_values(*line(beta, family=family)) for beta in BETAS]))


@pytest.mark.parametrize("family", ["clip", "budgeted_clip(2)", "mix"])
def test_vectors(family):
    """With equal covariances only the coordinate along the means' difference is clipped."""
    covariance = np.array([[1.0, 0.5, 0.2], [0.5, 2.0, -0.3], [0.2, -0.3, 0.7]])
    away = np.array([1.0, -0.5, 0.8])
    safe = tether.Gaussian(np.zeros(3), covariance=covariance)
    optimized = tether.Gaussian(away, covariance=covariance)
    root = np.linalg.cholesky(covariance)
    length = np.linalg.norm(np.linalg.solve(root, away))
    direction = np.linalg.solve(root, away) / length
    orthogonal = np.linalg.svd(direction[None])[2][1]
    along_safe, along_optimized = tether.Gaussian(0.0), tether.Gaussian(length)
    found = []
    for beta in BETAS:
        policy = tether.Tethered(safe, optimized, beta, family=family)
        flat = tether.Tethered(along_safe, along_optimized, beta, family=family)
        below, _ = cumulative(lambda x, flat=flat: flat.log_prob(None, x))
        for seed in SEEDS:
            actions = policy.sample(1000, generator(policy, seed))
            white = np.linalg.solve(root, actions.T).T
            found.append(stats.kstest(white @ direction, below).pvalue)
            found.append(stats.kstest(white @ orthogonal, "norm").pvalue)
    fits(found)


@pytest.mark.parametrize("family", ["clip", "mix", "budgeted_clip(2)"])
def test_lines_in_contexts(family):
    """Each context has its own normalizer, so each is tested by itself."""
    safe = tether.Gaussian(lambda x: 0.0 * x, 1.0)
    optimized = tether.Gaussian(lambda x: x, lambda x: 0.5 + 0.2 * x)
    contexts = np.repeat([0.5, 1.0, 2.5], 600)
    found = []
    for beta in BETAS:
        policy = tether.Tethered(
            safe, optimized, beta, family=family, normalizer_draws=20_000, seed=3
        )
        actions = policy.sample(contexts, generator(policy, 7))
        for x in np.unique(contexts):
            alone = tether.Tethered(
                tether.Gaussian(0.0), tether.Gaussian(x, 0.5 + 0.2 * x), beta, family=family
            )
            below, _ = cumulative(lambda a, alone=alone: alone.log_prob(None, a))
            found.append(stats.kstest(actions[contexts == x], below).pvalue)
            actions_tried = np.linspace(-2, 3, 7)
            scores, error = policy.log_prob_with_error(np.full(7, x), actions_tried)
            expected, expected_error = alone.log_prob_with_error(7, actions_tried)
            assert (np.abs(scores - expected) <= 5 * np.hypot(error, expected_error) + 1e-9).all()
    fits(found)


@pytest.mark.parametrize(
    ("family", "sampler"),
    [("clip", sampler) for sampler in (*ACCEPT_REJECT_SAMPLERS, "rejection")]
    + [
        (family, sampler)
        for family in ("mix", "budgeted_clip(3)")
        for sampler in ("auto", "rejection")
    ],
)
def test_pools(family, sampler):
    rng = np.random.default_rng(5)
    safe, optimized = tether.Pool.uniform(12), tether.Pool(rng.normal(size=12), temperature=0.7)
    found = []
    for beta in BETAS:
        stated = tether.Tethered(safe, optimized, beta, family=family).log_prob_all(1)[0]
        assert np.exp(stated).sum() == pytest.approx(1, abs=1e-12)
        drawn = (safe, optimized)
        if sampler == "rejection":  # hide that the actions are finite: the continuous path
            drawn = tuple(tether.FunctionPolicy(policy.sample, policy.log_prob) for policy in drawn)
        how = "auto" if sampler == "rejection" else sampler
        policy = tether.Tethered(*drawn, beta, family=family, sampler=how)
        for seed in SEEDS:
            actions = policy.sample(2000, generator(policy, seed))
            found.append(chi_square(actions, np.exp(stated)))
    fits(found)


@pytest.mark.parametrize("hidden", [False, True])
@pytest.mark.parametrize("family", ["clip", "mix", "budgeted_clip(3)"])
def test_categories_in_contexts(family, hidden):
    rng = np.random.default_rng(6)
    tables = rng.normal(size=(2, 4, 7))
    safe, optimized = (tether.Categorical.from_logits(table) for table in tables)
    contexts = np.repeat(np.arange(4), 700)
    found = []
    for beta in BETAS:
        stated = np.exp(
            tether.Tethered(safe, optimized, beta, family=family).log_prob_all(np.arange(4))
        )
        assert np.allclose(stated.sum(axis=1), 1, atol=1e-12)
        pair = (safe, optimized)
        if hidden:
            pair = tuple(tether.FunctionPolicy(policy.sample, policy.log_prob) for policy in pair)
        policy = tether.Tethered(*pair, beta, family=family)
        for seed in SEEDS:
            actions = policy.sample(contexts, generator(policy, seed))
            found += [chi_square(actions[contexts == x], stated[x]) for x in range(4)]
    fits(found)


@pytest.mark.parametrize("beta", [0.0, 1e-300, 1e-6, 1e6, 1e300, np.inf])
@pytest.mark.parametrize("family", ["clip", "mix", "budgeted_clip"])
def test_the_ends_are_the_policies_themselves(beta, family):
    rng = np.random.default_rng(9)
    safe, optimized = (tether.Categorical.from_logits(rng.normal(size=9)) for _ in range(2))
    policy = tether.Tethered(safe, optimized, beta, family=family)
    end = safe if beta < 1 else optimized
    tolerance = 1e-12 if beta in (0, 1e-300, 1e300, np.inf) else 1e-4
    assert np.allclose(policy.log_prob_all(1), end.log_prob_all(1), atol=tolerance)
    if beta in (0, np.inf):
        lone = tether.Tethered(SAFE, OPTIMIZED, beta, family=family)
        same = SAFE if beta == 0 else OPTIMIZED
        drawn = lone.sample(50, np.random.default_rng(1))
        assert np.array_equal(drawn, same.sample(50, np.random.default_rng(1)))
        assert np.array_equal(lone.log_prob(50, drawn), same.log_prob(50, drawn))


@pytest.mark.slow
@pytest.mark.parametrize("sampler", ["grid", "overlap", "adaptive"])
@pytest.mark.parametrize(("count", "repeats"), [(1, scaled(600)), (5, scaled(300))])
def test_mixture_proposals_in_few_contexts(sampler, count, repeats):
    """A pilot of a draw or five says nothing about the envelope: none may be learned from it."""
    rng = np.random.default_rng([10, count])
    found = []
    for beta in (0.5, 1.0, 2.0):
        _, below = line(beta)
        policy = tether.Tethered(SAFE, OPTIMIZED, beta, sampler=sampler)
        drawn = [policy.sample(np.zeros(count), rng) for _ in range(repeats)]
        found.append(stats.kstest(np.concatenate(drawn), below).pvalue)
    fits(found)


@pytest.mark.parametrize("sampler", ["grid", "overlap", "adaptive"])
def test_mixture_proposals_in_many_unlike_contexts(sampler):
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
    _, below = line(1.0)
    fits([stats.kstest(drawn, below).pvalue])
