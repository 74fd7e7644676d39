"""The certified beta against its definition, and the share of false certificates."""

import dataclasses

import numpy as np
import pytest
from benchmarks.worlds import all_worlds
from hypothesis import given, settings
from hypothesis import strategies as st

import tether
from tests.control.certificate_worlds import HARM, adaptive_rounds, share_above
from tests.control.test_risk_betting import direct_capital
from tests.scale import scaled
from tether.control import high_probability
from tether.control.acting_weights import ActingWeights
from tether.control.constraint import Constraint
from tether.control.families import find_family
from tether.control.family import Family
from tether.control.high_probability import certified_beta, log_beta_sequence, risk_bounds
from tether.control.problem import pose
from tether.control.risk_betting import spread_bets

WORLDS = {(world.name, world.rounds): world for world in all_worlds()}


def gaussian_problem(rows, family="clip", seed=0, losses=None):
    rng = np.random.default_rng(seed)
    action, drawn = rng.normal(size=rows), 1 + 0.8 * rng.normal(size=rows)
    scores = lambda a: (-(a**2) / 2, -(((a - 1) / 0.8) ** 2) / 2 - np.log(0.8))  # noqa: E731
    losses = losses or {"loss": lambda a: a > 1.5}
    log = tether.Log({name: loss(action) for name, loss in losses.items()}, *scores(action))
    return pose(log, tether.Proposals(*scores(drawn)), find_family(family), "empirical")


def direct_search(problem, constraint, confidence):
    """Every beta of the sequence in turn, by the definition, until one is not certified."""
    error, found = 1 - confidence, -np.inf
    bets = spread_bets(len(problem.log), constraint.alpha, constraint.bound, error)
    for log_beta in log_beta_sequence(problem):
        log_weight, log_limit = ActingWeights(problem).at(log_beta)
        limits = np.broadcast_to(np.exp(log_limit), len(log_weight))
        rows = (problem.log.loss[constraint.name], np.exp(log_weight), limits)
        if direct_capital(bets, *rows, constraint.alpha, constraint.bound) < 1 / error:
            return found
        found = log_beta
    return found


@pytest.mark.parametrize("family", ["clip", "mix"])
def test_the_result_is_the_last_before_the_first_that_fails(family):
    for seed in range(3):
        problem = gaussian_problem(60, family, seed)
        constraint = Constraint("loss", 0.25, 1.0)
        found = certified_beta(problem, [constraint], 0.8)
        assert found.log_beta == direct_search(problem, constraint, 0.8)
        assert found.log_beta > -np.inf


def test_a_beta_that_would_pass_after_one_that_failed_is_never_reached(monkeypatch):
    answers = {"loss": [True, True, False, True, True], "late": [True, False] + [True] * 3}
    asked = {name: iter(each) for name, each in answers.items()}

    def scripted(bets, losses, alpha, error, first):
        return next(asked["loss" if alpha == 0.1 else "late"]), 0

    problem = gaussian_problem(5, losses={"loss": lambda a: a > 1, "late": lambda a: a > 2})
    monkeypatch.setattr(high_probability, "is_certified", scripted)
    constraints = [Constraint("loss", 0.1, 1.0), Constraint("late", 0.2, 1.0)]
    found, sequence = certified_beta(problem, constraints, 0.9), log_beta_sequence(problem)
    assert found.log_beta_by_constraint == {"loss": sequence[1], "late": sequence[0]}
    assert found.log_beta == sequence[0]
    assert [len(list(rest)) for rest in asked.values()] == [2, 3]  # no further test was made


def full_sequence():
    class Anything(Family):
        name = "anything"
        normalized = True

        def log_kernel(self, log_safe, log_optimized, log_beta):
            return log_safe

    problem = gaussian_problem(5)
    return log_beta_sequence(dataclasses.replace(problem, family=Anything()))


def test_all_problems_share_one_sequence():
    full = full_sequence()
    assert (np.diff(full) > 0).all()
    assert full[-1] == np.inf
    assert (full[:-1] == -full[-2::-1]).all()
    assert full[-2] > 980
    for family in ("clip", "mix"):
        for seed in range(5):
            part = log_beta_sequence(gaussian_problem(40, family, seed))
            begin = int(np.searchsorted(full, part[0]))
            assert (part[:-1] == full[begin : begin + len(part) - 1]).all()
            assert part[-1] == np.inf


@pytest.mark.parametrize(
    ("name", "family"),
    [
        ("Gaussian shift", "clip"),
        ("Gaussian shift", "mix"),
        ("finite actions", "clip"),
        ("finite actions", "mix"),
        ("finite actions", "budgeted_clip(3)"),
    ],
)
def test_what_is_left_out_at_the_ends_would_give_the_same_tests(name, family):
    world, rng = WORLDS[name, 1], np.random.default_rng(0)
    contexts, actions = world.collect(world.log_safe, 50, rng)
    proposals = world.proposals(contexts, rng)
    problem = pose(world.log(contexts, actions), proposals, find_family(family), "empirical")
    part, weights = log_beta_sequence(problem), ActingWeights(problem)

    def same(left, right):
        for one, other in zip(weights.at(left), weights.at(right), strict=True):
            assert np.allclose(np.exp(one), np.exp(other), rtol=1e-12, atol=1e-14)

    if problem.family.saturates or family == "mix":
        same(part[0], part[0] - 100)
    if world.tables or family == "mix":
        same(part[-2], np.inf)


def test_several_losses_must_all_pass_and_pay_nothing_for_each_other():
    losses = {"harm": lambda a: a > 1.5, "delay": lambda a: 2 * (a > 2)}
    problem = gaussian_problem(2000, losses=losses)
    harm, delay = Constraint("harm", 0.1, 1.0), Constraint("delay", 0.1, 2.0)
    both = certified_beta(problem, [harm, delay], 0.9)
    for each in (harm, delay):
        alone = certified_beta(problem, [each], 0.9)
        assert both.log_beta_by_constraint[each.name] == alone.log_beta
        assert both.risk_bounds[each.name] <= each.alpha
    assert both.log_beta == min(both.log_beta_by_constraint.values())


def test_the_bounds_are_within_alpha_where_a_beta_is_certified_and_above_it_where_none_is():
    problem, constraint = gaussian_problem(2000), Constraint("loss", 0.1, 1.0)
    found = certified_beta(problem, [constraint], 0.9)
    assert 0.067 < found.risk_bounds["loss"] <= 0.1
    assert found.risk_bounds == risk_bounds(problem, [constraint], 0.9, found.log_beta)
    beyond = np.log(1.5) + found.log_beta
    assert risk_bounds(problem, [constraint], 0.9, beyond)["loss"] > 0.1
    strict = Constraint("loss", 0.07, 1.0)
    nothing = certified_beta(problem, [strict], 0.9)
    assert nothing.log_beta == -np.inf
    assert nothing.risk_bounds["loss"] > 0.07


def test_more_confidence_never_allows_more():
    problem, constraint = gaussian_problem(2000), Constraint("loss", 0.1, 1.0)
    betas = [certified_beta(problem, [constraint], c).log_beta for c in (0.5, 0.8, 0.95, 0.99)]
    assert betas == sorted(betas, reverse=True)
    assert betas[0] > betas[-1]


def test_an_optimized_policy_without_harm_is_certified_at_infinity():
    world, rng = WORLDS["finite actions", 1], np.random.default_rng(0)
    contexts, actions = world.collect(world.log_safe, 300, rng)
    harmless = dataclasses.replace(world, losses={"loss": np.zeros_like(world.reward)})
    problem = pose(harmless.log(contexts, actions), None, find_family("clip"), "empirical")
    assert certified_beta(problem, [Constraint("loss", 0.11, 1.0)], 0.9).log_beta == np.inf


@pytest.mark.parametrize("confidence", [0, 1, 1.5, -1])
def test_a_confidence_that_is_no_probability_is_refused(confidence):
    with pytest.raises(ValueError, match="confidence must be above 0 and below 1"):
        certified_beta(gaussian_problem(5), [Constraint("loss", 0.1, 1.0)], confidence)


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=10, deadline=None)
def test_the_order_of_rows_does_not_matter(seed):
    rng = np.random.default_rng(seed)
    problem = gaussian_problem(300, seed=seed)
    order, log = rng.permutation(300), problem.log
    shuffled = tether.Log(log.loss["loss"][order], log.log_safe[order], log.log_optimized[order])
    other = dataclasses.replace(problem, log=shuffled)
    constraint = [Constraint("loss", 0.2, 1.0)]
    betas = [certified_beta(each, constraint, 0.8).log_beta for each in (problem, other)]
    assert betas[0] == betas[1]


CASES = [
    ("Gaussian shift", "clip"),
    ("Gaussian shift", "mix"),
    ("loss in [0, 1]", "clip"),
    ("unequal contexts, tables", "clip"),
    ("unequal contexts, tables", "budgeted_clip(3)"),
    ("finite actions", "mix"),
    ("two constraints", "clip"),
]


def test_false_certificates_are_as_rare_as_stated():
    false, error, _ = share_above(WORLDS["unequal contexts, tables", 1], "clip", 100, 0.8, 80)
    assert false <= 0.2 + 3 * error


@pytest.mark.slow
@pytest.mark.parametrize(("name", "family"), CASES)
@pytest.mark.parametrize(("rows", "repeats"), [(100, scaled(30)), (5000, scaled(4))])
def test_false_certificates_are_rare_in_every_world(name, family, rows, repeats):
    false, error, moved = share_above(WORLDS[name, 1], family, rows, 0.9, repeats)
    assert false <= 0.1 + 3 * error
    assert moved > (0.03 if rows == 100 else 0.9)


def test_the_simulation_finds_a_test_without_confidence(monkeypatch):
    """Wrong on purpose: a beta passes if its weighted average loss looks safe."""

    def looks_safe(bets, losses, alpha, error, first):
        return bool(((losses.loss - alpha) * losses.weight).sum() <= 0), 0

    monkeypatch.setattr(high_probability, "is_certified", looks_safe)
    false, error, _ = share_above(WORLDS["unequal contexts, tables", 1], "clip", 100, 0.8, 80)
    assert false > 0.2 + 3 * error


def test_rounds_that_were_chosen_from_earlier_losses_certify_as_rarely_as_stated():
    rng, repeats = np.random.default_rng(0), 80
    above = [adaptive_rounds("clip", 0.9, rng, alpha=0.99 * HARM) > -np.inf for _ in range(repeats)]
    assert np.mean(above) <= 0.1 + 3 * np.sqrt(0.09 / repeats)
    passed = [adaptive_rounds("clip", 0.9, rng, alpha=0.25) > -np.inf for _ in range(10)]
    assert np.mean(passed) > 0.5


def test_the_simulation_finds_weights_against_the_mixture():
    """Wrong on purpose: the mixture's density where the policies were chosen adaptively."""
    rng, repeats = np.random.default_rng(0), 80
    above = [
        adaptive_rounds("clip", 0.9, rng, alpha=0.99 * HARM, mixture=True) > -np.inf
        for _ in range(repeats)
    ]
    assert np.mean(above) > 0.1 + 3 * np.sqrt(0.09 / repeats)


@pytest.mark.parametrize("alpha", [0.1, 0.4])
def test_the_bounds_allow_for_a_ratio_error_at_every_alpha(alpha):
    # The policies are equal and a fifth of the losses are 1, but every ratio is wrong by 1.5, in
    # the direction that hides losses.
    loss = (np.arange(20_000) % 5 == 0).astype(float)
    ratio = np.where(loss > 0, -np.log(1.5), np.log(1.5))
    log = tether.Log(loss, np.zeros(len(loss)), ratio, max_ratio=1.5)
    problem = pose(log, None, find_family("mix"), 1.5)
    constraint = Constraint("loss", alpha, 1.0, ratio_error=1.5)
    assert risk_bounds(problem, [constraint], 0.9, np.inf)["loss"] > 0.2


def test_no_bound_is_larger_than_the_largest_loss():
    log = tether.Log(np.zeros(3), np.zeros(3), np.zeros(3))
    found = tether.calibrate(log, alpha=5, bound=50, ratio_error=3, confidence=0.9)
    assert found.upper_bounds == {"loss": 50}
