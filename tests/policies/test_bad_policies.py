"""Policies are user code: an error names the policy and says what is wrong with it."""

import numpy as np
import pytest
from scipy import stats

import tether

GOOD = tether.Gaussian(0.0)
RNG = np.random.default_rng(0)


def broken(sample=None, log_prob=None):
    return tether.FunctionPolicy(sample or GOOD.sample, log_prob or GOOD.log_prob)


BAD = {
    "nan": (broken(log_prob=lambda n, a: np.full(len(a), np.nan)), r"log_prob\[0\] is nan"),
    "infinite": (broken(log_prob=lambda n, a: np.full(len(a), np.inf)), r"log_prob\[0\] is inf"),
    "table": (broken(log_prob=lambda n, a: np.zeros((len(a), 2))), "1 dimension"),
    "short": (broken(log_prob=lambda n, a: np.zeros(len(a) - 1)), "rows but its actions has"),
    "impossible": (
        broken(log_prob=lambda n, a: np.full(len(a), -np.inf)),
        "-inf",
    ),
}


@pytest.mark.parametrize("which", ["safe", "optimized"])
@pytest.mark.parametrize("kind", list(BAD))
@pytest.mark.parametrize("beta", [0.5, 2.0])
@pytest.mark.parametrize("contexts", [20, np.zeros(20)])
def test_errors_about_scores_name_the_policy(which, kind, beta, contexts):
    bad, message = BAD[kind]
    pair = (bad, GOOD) if which == "safe" else (GOOD, bad)
    policy = tether.Tethered(*pair, beta, max_draws=200)
    rejected = RuntimeError if kind == "impossible" else ValueError
    with pytest.raises((ValueError, rejected)) as caught:
        policy.sample(contexts, np.random.default_rng(1))
    if not isinstance(caught.value, RuntimeError):
        assert f"the {which} policy" in str(caught.value)
        with pytest.raises(ValueError, match=message):
            policy.sample(contexts, np.random.default_rng(1))
    with pytest.raises(ValueError, match=f"the {which} policy"):
        policy.log_prob(contexts, np.zeros(20))


@pytest.mark.parametrize("which", ["safe", "optimized"])
@pytest.mark.parametrize("drawn", [lambda n, rng: np.zeros(3), lambda n, rng: np.float64(1.0)])
def test_errors_about_draws_name_the_policy(which, drawn):
    bad = broken(sample=drawn)
    pair = (bad, GOOD) if which == "safe" else (GOOD, bad)
    policy = tether.Tethered(*pair, 0.5 if which == "safe" else 2.0)
    for tried in (policy, tether.Tethered(*pair, 1.0, family="mix")):
        with pytest.raises(ValueError, match=f"the {which} policy's sample returned shape"):
            tried.sample(20, RNG)


def test_a_safe_policy_that_cannot_do_what_the_optimized_one_does():
    box = broken(
        sample=lambda n, rng: rng.uniform(-1, 1, n if isinstance(n, int) else len(n)),
        log_prob=lambda n, a: np.where(np.abs(a) < 1, -np.log(2), -np.inf),
    )
    message = "the optimized policy takes actions that the safe policy never takes"
    for contexts in (200, np.zeros(200)):
        for options in ({}, {"family": "mix"}, {"sampler": "adaptive"}, {"sampler": "metropolis"}):
            policy = tether.Tethered(box, GOOD, 2.0, **options)
            if options != {"family": "mix"}:
                with pytest.raises(ValueError, match=message):
                    policy.sample(contexts, RNG)
            with pytest.raises(ValueError, match=message):
                policy.log_prob(contexts, np.linspace(-2, 2, 200))
        with pytest.raises(ValueError, match=message):
            tether.Tethered(box, GOOD, np.inf).sample(contexts, RNG)
    finite = (
        tether.Categorical.from_probabilities([0.5, 0.5, 0.0]),
        tether.Categorical.from_probabilities([0.1, 0.1, 0.8]),
    )
    for family in ("clip", "mix", "budgeted_clip"):
        with pytest.raises(ValueError, match=message):
            tether.Tethered(*finite, 1.0, family=family).sample(5, RNG)
        with pytest.raises(ValueError, match=message):
            tether.Tethered(*finite, 1.0, family=family).log_prob(2, [0, 1])


def test_clip_can_exclude_actions_outside_the_safe_support():
    box = broken(
        sample=lambda n, rng: rng.uniform(-1, 1, n if isinstance(n, int) else len(n)),
        log_prob=lambda n, a: np.where(np.abs(a) < 1, -np.log(2), -np.inf),
    )
    for beta in (0.5, 5.0):
        policy = tether.Tethered(box, GOOD, beta, outside="never")
        assert np.abs(policy.sample(500, RNG)).max() < 1
        scores, error = policy.log_prob_with_error(2, np.array([0.0, 3.0]))
        assert scores[1] == -np.inf
        assert np.isfinite(scores[0])
        assert error[1] == 0
    with pytest.raises(ValueError, match="outside='never' is for clip"):
        tether.Tethered(box, GOOD, 1.0, family="mix", outside="never")
    finite = (
        tether.Categorical.from_probabilities([0.5, 0.5, 0.0]),
        tether.Categorical.from_probabilities([0.1, 0.1, 0.8]),
    )
    policy = tether.Tethered(*finite, 1.0, outside="never")
    assert np.allclose(np.exp(policy.log_prob_all(1)), [[0.5, 0.5, 0]])
    apart = tether.Categorical.from_probabilities([0.0, 0.0, 1.0])
    with pytest.raises(ValueError, match="no action is possible"):
        tether.Tethered(finite[0], apart, 1.0, outside="never").sample(5, RNG)


@pytest.mark.parametrize("contexts", [3000, np.zeros(3000)])
def test_at_beta_inf_clip_is_the_optimized_policy_on_the_safe_support(contexts):
    """At beta inf, with outside="never": the limit of large betas, not an error that advises it."""
    box = broken(
        sample=lambda n, rng: rng.uniform(-1, 1, n if isinstance(n, int) else len(n)),
        log_prob=lambda n, a: np.where(np.abs(a) < 1, -np.log(2), -np.inf),
    )
    inside = stats.truncnorm(-1, 1)
    for sampler in ("auto", "grid", "metropolis"):
        policy = tether.Tethered(
            box, GOOD, np.inf, outside="never", sampler=sampler, normalizer_draws=2_000
        )
        actions = policy.sample(contexts, np.random.default_rng(3))
        assert stats.kstest(actions, inside.cdf).pvalue > 1e-3
        scores, error = policy.log_prob_with_error(3, np.array([-0.5, 0.5, 1.5]))
        assert np.allclose(scores[:2], inside.logpdf(0.5), atol=5 * error[0])
        assert scores[2] == -np.inf
    budgeted = tether.Tethered(box, GOOD, np.inf, family="budgeted_clip(2)", outside="never")
    actions, info = budgeted.sample_with_info(contexts, np.random.default_rng(4))
    given_up = (2 * stats.norm.sf(1)) ** 2
    assert info.fallbacks / 3000 == pytest.approx(given_up, abs=0.03)
    expected = (1 - given_up) * inside.pdf(0.9) + given_up / 2
    assert np.exp(budgeted.log_prob(1, np.array([0.9]))) == pytest.approx(expected, rel=0.02)
    with pytest.raises(ValueError, match="that the safe policy never takes"):
        tether.Tethered(box, GOOD, np.inf).sample(contexts, RNG)


def test_at_beta_inf_over_finitely_many_actions():
    safe = tether.Categorical.from_probabilities([0.5, 0.5, 0.0])
    optimized = tether.Categorical.from_probabilities([0.2, 0.3, 0.5])
    for sampler in ("auto", "adaptive"):
        policy = tether.Tethered(safe, optimized, np.inf, outside="never", sampler=sampler)
        assert np.allclose(np.exp(policy.log_prob_all(1)), [[0.4, 0.6, 0.0]])
        assert policy.sample(4000, np.random.default_rng(5)).mean() == pytest.approx(0.6, abs=0.04)
        assert policy.beta == np.inf


def test_at_beta_0_only_the_safe_policy_is_used():
    safe = tether.Categorical.from_probabilities([1.0, 0.0])
    optimized = tether.Categorical.from_probabilities([0.5, 0.5])
    policy = tether.Tethered(safe, optimized, 0.0)
    assert np.array_equal(policy.log_prob(3, [0, 0, 0]), np.zeros(3))
    assert np.array_equal(policy.log_prob_all(1), safe.log_prob_all(1))
    bad = broken(log_prob=lambda n, a: np.full(len(a), np.nan))
    policy = tether.Tethered(GOOD, bad, 0.0)
    scores, error = policy.log_prob_with_error(2, np.array([0.0, 1.0]))
    assert np.array_equal(scores, GOOD.log_prob(2, [0.0, 1.0]))
    assert not error.any()


def test_actions_of_different_shapes():
    plane = tether.Gaussian([0.0, 0.0])
    with pytest.raises(ValueError, match="different shapes"):
        tether.Tethered(GOOD, plane, 1.0, family="mix").sample(50, RNG)
    with pytest.raises(
        ValueError, match=r"the optimized policy's log_prob failed on actions of shape"
    ):
        tether.Tethered(GOOD, plane, 0.5).sample(50, RNG)
    lax = broken(sample=plane.sample, log_prob=lambda n, a: np.zeros(len(a)))
    policy = tether.Tethered(broken(log_prob=lax.log_prob), lax, 1.0, sampler="adaptive")
    with pytest.raises(ValueError, match="different shapes"):
        policy.sample(50, RNG)


def test_scores_of_another_distribution_than_the_one_sampled():
    """A normalizing constant above 1 shows it."""
    liar = broken(log_prob=lambda n, a: GOOD.log_prob(n, a) + 2.0)
    with pytest.raises(ValueError, match="can be at most 1"):
        tether.Tethered(GOOD, liar, 1.0).log_prob(10, np.zeros(10))


def test_tables_of_the_wrong_shape():
    class Wide(tether.Pool):
        def log_prob_all(self, contexts):
            return np.log(np.full((1, 9), 1 / 9))

    with pytest.raises(ValueError, match=r"the optimized policy's log_prob_all has shape \(1, 9\)"):
        tether.Tethered(tether.Pool.uniform(3), Wide(np.zeros(3)), 1.0).sample(4, RNG)


class Table:
    """A user-defined policy over two actions, each with this probability."""

    actions = np.arange(2)

    def __init__(self, probability):
        self.probability = probability

    def sample(self, contexts, rng):
        return rng.integers(0, 2, size=contexts if isinstance(contexts, int) else len(contexts))

    def log_prob(self, contexts, actions):
        return np.log(np.full(len(actions), self.probability))

    def log_prob_all(self, contexts):
        return np.log(np.full((1, 2), self.probability))


@pytest.mark.parametrize("which", ["safe", "optimized"])
@pytest.mark.parametrize("family", ["clip", "mix", "budgeted_clip"])
def test_tables_that_do_not_sum_to_one(which, family):
    pair = (Table(0.9), Table(0.5)) if which == "safe" else (Table(0.5), Table(0.9))
    policy = tether.Tethered(*pair, 2.0, family=family)
    message = f"the {which} policy's log_prob_all has probabilities that sum to 1.8 in row 0"
    for call in (
        lambda: policy.sample(3, RNG),
        lambda: policy.log_prob_all(1),
        lambda: policy.log_prob(1, [0]),
        lambda: tether.make_log(*pair, np.zeros(1), [0], [0]),
    ):
        with pytest.raises(ValueError, match=message):
            call()
    assert tether.Tethered(Table(0.5), Table(0.5002), 2.0, family=family).log_prob(1, [0]) < 0


@pytest.mark.parametrize("which", ["safe", "optimized"])
@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (KeyError("x"), ValueError),  # an invalid request
        (ZeroDivisionError("y"), ValueError),
        (RuntimeError("z"), RuntimeError),
        (ConnectionError("x"), RuntimeError),  # unavailable
        (type("OtherError", (Exception,), {})("y"), RuntimeError),
    ],
)
def test_an_exception_of_a_policy_is_raised_with_its_name(which, error, kind):
    def fail(*_):
        raise error

    for bad, method in ((broken(sample=fail), "sample"), (broken(log_prob=fail), "log_prob")):
        pair = (bad, GOOD) if which == "safe" else (GOOD, bad)
        policy = tether.Tethered(*pair, 0.5 if which == "safe" else 2.0)
        with pytest.raises(kind, match=f"the {which} policy's {method} failed on .*[xyz]"):
            policy.sample(3, RNG)

    class Broken(Table):
        log_prob_all = fail

    pair = (Table(0.5), Table(0.5))
    pair = (Broken(0.5), pair[1]) if which == "safe" else (pair[0], Broken(0.5))
    with pytest.raises((ValueError, RuntimeError), match=f"the {which} policy's log_prob_all fail"):
        tether.Tethered(*pair, 2.0).sample(3, RNG)


@pytest.mark.parametrize("which", ["safe", "optimized"])
@pytest.mark.parametrize("sampler", ["adaptive", "overlap", "grid", "auto", "metropolis"])
def test_a_policy_that_draws_what_it_scores_as_impossible(which, sampler):
    """Under a mixture its draws would be rejected silently, which changes the target."""
    fair = broken(
        sample=lambda n, rng: rng.random(n), log_prob=lambda n, a: np.where(a < 1, 0.0, -np.inf)
    )
    bad = broken(
        sample=lambda n, rng: rng.random(n) + 5 * (rng.random(n) < 0.5), log_prob=fair.log_prob
    )
    pair = (bad, fair) if which == "safe" else (fair, bad)
    policy = tether.Tethered(*pair, 0.9 if which == "safe" else 1.1, sampler=sampler)
    with pytest.raises(ValueError, match=f"the {which} policy's log_prob.*as the policy drew this"):
        policy.sample(500, np.random.default_rng(2))


@pytest.mark.parametrize(
    "policy",
    [
        GOOD,
        tether.Pool.uniform(3),
        tether.Categorical.from_probabilities([0.5, 0.5]),
        tether.Mixture([GOOD, GOOD], [1, 1]),
        broken(),
        tether.Tethered(GOOD, GOOD, 0.5),
        tether.Tethered(GOOD, GOOD, 0.5, family="mix"),
        tether.Tethered(GOOD, GOOD, 0.5, sampler="adaptive"),
        tether.Tethered(tether.Pool.uniform(3), tether.Pool.uniform(3), 0.5),
    ],
)
@pytest.mark.parametrize("rng", [0, None])
def test_a_seed_instead_of_a_generator_is_refused(policy, rng):
    with pytest.raises(TypeError, match=r"rng must be a numpy.random.Generator, .*got (0|None)"):
        policy.sample(3, rng)
