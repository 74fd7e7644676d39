"""What it costs that rows share draws."""

import numpy as np
import pytest

import tether
from tether.control.constraint import Constraint
from tether.control.problem import pose
from tether.control.shared_draws import count_sharing, shared_ratio_error


def score(actions, mean):
    return -((actions - mean) ** 2) / 2


def two_contexts(rng, rows, draws, label=None):
    """Policies three apart where there is harm, and equal where there is none."""
    context = rng.integers(2, size=rows)
    shift = np.array([3.0, 0.0])
    action = rng.normal(size=rows)
    loss = ((action > 1) & (context == 0)).astype(float)
    label = context if label is None else label
    log = tether.Log(loss, score(action, 0), score(action, shift[context]), context=label)
    drawn_in = np.repeat(np.unique(label), draws)
    mean = shift[drawn_in] if len(np.unique(label)) == 2 else shift[context[drawn_in]]
    drawn = rng.normal(size=(2, len(drawn_in)))
    drawn[1] += mean
    proposals = tether.Proposals(
        score(drawn, 0).ravel(),
        score(drawn, mean).ravel(),
        context=np.tile(drawn_in, 2),
        source=np.repeat(["safe", "optimized"], len(drawn_in)),
    )
    return log, proposals


@pytest.mark.parametrize("log_beta", [-1.0, 0.5])
def test_the_factor_is_the_spread_of_what_shared_draws_weigh(log_beta):
    """The relative variances of both sums over fresh draws, with the same rows."""
    constraint, sums, factors = Constraint("loss", 0.1, 1.0), [], []
    for seed in range(200):
        rng = np.random.default_rng(0)
        log, _ = two_contexts(rng, 4000, 1)
        _, proposals = two_contexts(np.random.default_rng([1, seed]), 60, 64)
        problem = pose(log, proposals, tether.BudgetedClip(4), "empirical")
        weights = np.exp(problem.log_weights(log_beta)[0])
        signed = constraint.signed(log.loss["loss"])
        sums.append([(weights * np.maximum(side * signed, 0)).sum() for side in (1, -1)])
        factors.append(shared_ratio_error(problem, constraint, log_beta))
    spread = np.var(sums, axis=0) / np.mean(sums, axis=0) ** 2
    assert np.mean(np.square(factors)) - 1 == pytest.approx(spread.sum(), rel=0.35)
    assert spread.sum() > 0.001


def test_the_factor_is_the_same_when_all_ratios_are_multiplied():
    """Also by so much that squares of weights leave the range of floats."""
    context, source = np.repeat([0, 1], 6), np.tile(["safe", "optimized"], 6)
    factors = []
    for far in (20.0, 600.0):
        rng = np.random.default_rng(4)
        drawn, taken = far + rng.normal(size=12), far + rng.normal(size=8)
        proposals = tether.Proposals(np.zeros(12), drawn, context=context, source=source)
        rows = np.repeat([0, 1], 4)
        log = tether.Log(np.tile([0.0, 1.0], 4), np.zeros(8), taken, context=rows)
        problem = pose(log, proposals, tether.BudgetedClip(3), 5.0)
        factors.append(shared_ratio_error(problem, Constraint("loss", 0.3, 1.0), far))
    assert factors[0] > 1.005
    assert factors[1] == pytest.approx(factors[0], rel=1e-6)


def test_rows_with_draws_of_their_own_cost_nothing():
    rng = np.random.default_rng(2)
    log, proposals = two_contexts(rng, 60, 3, label=np.arange(60))
    problem = pose(log, proposals, tether.Clip(), "empirical")
    assert count_sharing(problem) == 0
    assert shared_ratio_error(problem, Constraint("loss", 0.1, 1.0), -0.5) == 1.0
    assert tether.calibrate(log, proposals, alpha=0.2).ratio_error == 1.0


def test_few_shared_draws_are_carried_as_a_ratio_error():
    factors = []
    for draws in (4, 16, 64, 1024):
        log, proposals = two_contexts(np.random.default_rng(3), 2000, draws)
        found = tether.calibrate(log, proposals, alpha=0.2, family="budgeted_clip(4)")
        again = shared_ratio_error(found._problem, found.constraints[0], found.log_beta)
        assert again <= found.ratio_error * (1 + 1e-3)
        factors.append(found.ratio_error)
    assert factors[0] > factors[-1] > 1
    assert factors[-1] < 1.01
