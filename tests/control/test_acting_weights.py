"""Weights against the policy that acted, and limits that no action in a context exceeds."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tether
from tether.control.acting import Acting
from tether.control.acting_weights import ActingWeights
from tether.control.families import find_family
from tether.control.family import Family
from tether.control.problem import pose

FAMILIES = ("clip", "mix", "budgeted_clip(3)")


def tables(rng, rows, actions):
    scores = 2 * rng.normal(size=(rows, actions))
    return scores - np.logaddexp.reduce(scores, axis=1, keepdims=True)


def table_problem(rng, family, rows=30, actions=4, mixed=False):
    """A log with tables; every row's action is random, as its density does not matter here."""
    safe, optimized, logged = (tables(rng, rows, actions) for _ in range(3))
    action, row = rng.integers(actions, size=rows), np.arange(rows)
    mix = {}
    if mixed:
        log_mix = np.logaddexp(safe, logged) - np.log(2)
        mix = {"log_mix": log_mix[row, action], "log_mix_all": log_mix}
    log = tether.Log(
        np.zeros(rows), safe[row, action], optimized[row, action],
        log_safe_all=safe, log_optimized_all=optimized, **mix,
    )  # fmt: skip
    problem = pose(log, None, find_family(family), "empirical")
    return problem, logged, Acting(logged[row, action], logged)


def direct_density(family, safe, optimized, log_beta):
    """The tethered policy in every context, by its definition."""
    chosen = find_family(family)
    log_psi = np.logaddexp.reduce(np.minimum(optimized, safe + log_beta), axis=1, keepdims=True)
    return chosen.log_density(safe, optimized, log_beta, 0.0 if chosen.normalized else log_psi)


@pytest.mark.parametrize("family", FAMILIES)
@given(seed=st.integers(0, 2**32 - 1), log_beta=st.floats(-8, 8))
def test_with_tables_the_limit_is_the_largest_weight_of_any_action(family, seed, log_beta):
    rng = np.random.default_rng(seed)
    problem, logged, acting = table_problem(rng, family, mixed=True)
    log = problem.log
    density = direct_density(family, log.log_safe_all, log.log_optimized_all, log_beta)
    log_weight, log_limit = ActingWeights(problem, acting).at(log_beta)
    assert np.allclose(log_limit, (density - logged).max(axis=1))
    assert (log_weight <= log_limit + 1e-9).all()
    # Given the context, the weights of all actions average to one.
    assert np.allclose(np.exp(density).sum(axis=1), 1)


@pytest.mark.parametrize("family", FAMILIES)
@given(seed=st.integers(0, 2**32 - 1), log_beta=st.floats(-8, 8))
def test_where_the_safe_policy_acted_the_weights_are_those_of_the_problem(family, seed, log_beta):
    problem, _, _ = table_problem(np.random.default_rng(seed), family)
    log_weight, log_limit = ActingWeights(problem).at(log_beta)
    log = problem.log
    density = direct_density(family, log.log_safe_all, log.log_optimized_all, log_beta)
    assert np.allclose(log_weight, problem.log_weights(log_beta)[0])
    assert np.allclose(log_limit, (density - log.log_safe_all).max(axis=1))


def test_a_family_of_ones_own_is_limited_by_its_whole_table():
    class Opposite(Family):
        """Its ratio to the safe policy falls with that of the optimized one."""

        name = "opposite"

        def log_kernel(self, log_safe, log_optimized, log_beta):
            return log_safe - 0.1 * (log_optimized - log_safe)

    problem, _, _ = table_problem(np.random.default_rng(0), Opposite())
    log = problem.log
    kernel = Opposite().log_kernel(log.log_safe_all, log.log_optimized_all, 0.0)
    density = kernel - np.logaddexp.reduce(kernel, axis=1, keepdims=True)
    _, log_limit = ActingWeights(problem).at(0.0)
    assert np.allclose(log_limit, (density - log.log_safe_all).max(axis=1))


def test_an_action_that_the_safe_policy_never_takes_limits_nothing():
    with np.errstate(divide="ignore"):
        safe, optimized = np.log([[0.5, 0.5, 0.0]]), np.log([[0.2, 0.3, 0.5]])
    log = tether.Log(
        [0.0], safe[:, 0], optimized[:, 0], log_safe_all=safe, log_optimized_all=optimized
    )
    problem = pose(log, None, find_family("clip"), "empirical")
    for acting in (None, Acting(safe[:, 0], safe)):
        _, log_limit = ActingWeights(problem, acting).at(np.inf)
        assert np.exp(log_limit) == pytest.approx([0.6])


def gaussian_problem(family="clip", rows=50, **more):
    rng = np.random.default_rng(0)
    action, drawn = rng.normal(size=rows), 1 + rng.normal(size=rows)
    log = tether.Log(action > 1.5, -(action**2) / 2, -((action - 1) ** 2) / 2, **more)
    draw_mix = {"log_mix": -(drawn**2) / 2} if "log_mix" in more else {}
    proposals = tether.Proposals(-(drawn**2) / 2, -((drawn - 1) ** 2) / 2, **draw_mix)
    return pose(log, proposals, find_family(family), "empirical")


@pytest.mark.parametrize("log_beta", [-700.0, -3.0, 0.0, 2.0, 700.0, np.inf])
def test_clip_without_contexts_needs_no_normalizer(log_beta):
    problem = gaussian_problem()
    log_weight, log_limit = ActingWeights(problem).at(log_beta)
    beta = np.exp(log_beta)
    ratio = np.exp(problem.log_ratio)
    expected = np.minimum(ratio / min(beta, 1), max(beta, 1)) if beta > 0 else 1.0
    assert np.allclose(np.exp(log_weight), expected)
    assert log_limit == max(log_beta, 0.0)
    # Under the safe policy these weights average to at most one.
    grid = np.linspace(-9, 9, 2001)
    safe, optimized = (np.exp(-((grid - mean) ** 2) / 2) / np.sqrt(2 * np.pi) for mean in (0, 1))
    if np.isfinite(beta) and beta > 0:
        mean = np.minimum(optimized, beta * safe).sum() * (grid[1] - grid[0]) / min(beta, 1)
        assert mean <= 1 + 1e-9


def test_mix_without_tables_has_no_limit_but_the_users_own():
    assert ActingWeights(gaussian_problem("mix")).at(0.0)[1] == np.inf
    problem = gaussian_problem("mix")
    log = problem.log
    stated = pose(log, None, find_family("mix"), 40.0)
    assert ActingWeights(stated).at(0.0)[1] == pytest.approx(np.log(40.0))


def test_the_limit_of_the_policy_that_acted_multiplies():
    problem = gaussian_problem(log_mix=np.zeros(50))
    logged = problem.log.log_safe - 0.25
    open_ended = ActingWeights(problem, Acting(logged)).at(1.0)
    limited = ActingWeights(problem, Acting(logged, None, np.full(50, 0.3))).at(1.0)
    assert open_ended[1] == np.inf
    assert np.allclose(limited[1], 1.3)
    assert np.allclose(open_ended[0], ActingWeights(gaussian_problem()).at(1.0)[0] + 0.25)


def own_draws(contexts, family="budgeted_clip(2)"):
    rng = np.random.default_rng(0)
    contexts = np.asarray(contexts)
    draws = np.repeat(np.unique(contexts), 4)
    log = tether.Log(np.zeros(len(contexts)), np.zeros(len(contexts)), rng.normal(
        size=len(contexts)) * 0.1, context=contexts)  # fmt: skip
    proposals = tether.Proposals(
        np.zeros(len(draws)), 0.1 * rng.normal(size=len(draws)), context=draws,
        source=np.tile(["safe", "optimized"], len(draws) // 2),
    )  # fmt: skip
    return pose(log, proposals, find_family(family), "empirical")


def test_budgeted_clip_with_draws_has_the_limit_of_the_worst_draws():
    weights = ActingWeights(own_draws(np.arange(6)))
    for beta in (0.2, 1.0, 5.0):
        assert weights.at(np.log(beta))[1] == pytest.approx(np.log(2 * max(beta, 1) + 1))


def test_rows_that_share_draws_are_refused():
    with pytest.raises(ValueError, match="2 of 6 rows share"):
        ActingWeights(own_draws([0, 1, 1, 2, 3, 3]))


def test_clip_with_draws_in_contexts_has_the_weights_of_a_budget():
    """No normalizing constant is estimated: clip has become budgeted clip."""
    one, other = (own_draws(np.arange(6), family) for family in ("clip", "budgeted_clip(2)"))
    assert one.family == other.family
    for log_beta in (-0.05, 0.0, 0.05):
        weight, limit = ActingWeights(one).at(log_beta)
        assert np.array_equal(weight, ActingWeights(other).at(log_beta)[0])
        assert limit == pytest.approx(np.log(2 * max(np.exp(log_beta), 1) + 1))


def test_an_estimated_normalizer_is_refused():
    class Squared(Family):
        name = "squared"

        def log_kernel(self, log_safe, log_optimized, log_beta):
            return log_safe + np.tanh(log_optimized - log_safe)

    rows = np.zeros(6)
    log = tether.Log(rows, rows, rows)
    problem = pose(log, tether.Proposals(rows, rows), Squared(), "empirical")
    with pytest.raises(ValueError, match="estimated normalizing constant, and family 'squared'"):
        ActingWeights(problem)


def test_a_mixture_alone_does_not_say_who_acted():
    problem = gaussian_problem(log_mix=np.zeros(50))
    with pytest.raises(
        ValueError, match=r"confidence needs acting=tether\.control\.Acting\(log_logged=…\) in the"
    ):
        ActingWeights(problem)


def test_columns_of_another_shape_are_refused():
    problem, logged, acting = table_problem(np.random.default_rng(0), "clip")
    with pytest.raises(ValueError, match="log_logged has 3 row"):
        ActingWeights(problem, Acting(np.zeros(3)))
    with pytest.raises(ValueError, match=r"log_logged_all has shape \(30, 3\)"):
        ActingWeights(problem, Acting(acting.log_logged, logged[:, :3]))
    with pytest.raises(ValueError, match="log_logged_all needs log_safe_all"):
        ActingWeights(gaussian_problem(), Acting(np.zeros(50), np.zeros((50, 2))))
    with pytest.raises(ValueError, match=r"log_base_limit\[0\] is -5"):
        ActingWeights(gaussian_problem(), Acting(np.zeros(50), None, np.full(50, -5.0)))
    with pytest.raises(ValueError, match="log_logged"):
        Acting(np.array([np.nan]))
