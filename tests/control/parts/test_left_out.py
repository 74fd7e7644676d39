"""Leaving out a row of a mixture with weights that no float holds: against the definition."""

import numpy as np
import pytest
from benchmarks.scan_equality import near_the_mean

from tests.control.parts.worlds import marginal_world

pytestmark = pytest.mark.filterwarnings("ignore::tether.AssumptionWarning")
WIDE_MIX, WIDE_CLIP = 64, 720
"""Worlds in which log-weights of the mixture go down to −768, and to −944."""


def world(seed):
    rng = np.random.default_rng(seed)
    return near_the_mean(marginal_world(rng), rng), rng


def log_sum(values):
    top = values.max(initial=-np.inf)
    return top + np.log(np.exp(values - top).sum()) if np.isfinite(top) else top


def largest_without(problem, constraint, row, points):
    """The first crossing of P over N without a row: on a grid, then by halving."""
    amounts = np.delete(constraint.signed(problem.log.loss[constraint.name]), row)
    sizes = np.log(np.abs(amounts))

    def fails(log_beta):
        rows, test = problem.log_weights(log_beta)
        logs = sizes + np.delete(rows, row)
        above = np.append(logs[amounts > 0], test + np.log(constraint.worst))
        return log_sum(above) > log_sum(logs[amounts < 0])

    failing = [k for k, point in enumerate(points) if fails(point)]
    if not failing:
        return np.inf
    if failing[0] == 0:
        return -np.inf
    left, right = points[failing[0] - 1], points[failing[0]]
    for _ in range(50):
        middle = (left + right) / 2
        left, right = (left, middle) if fails(middle) else (middle, right)
    return left


def test_stability_of_mix_is_that_of_its_definition():
    made, rng = world(WIDE_MIX)
    found, in_parts = made.in_memory(), made.in_parts(rng)
    problem, (constraint,) = found._problem, found.constraints
    lo, hi = problem.search_range()
    points = np.unique(np.concatenate((np.linspace(lo, hi, 300), np.linspace(-5, 5, 300))))
    rows, test = problem.log_weights(found.log_beta)
    log_total = log_sum(np.append(rows, test))
    expected = 0.0
    for row in range(len(problem.log)):
        own = np.clip(largest_without(problem, constraint, row, points), lo, hi)
        moved = problem.log_weights(float(own))[0][row]
        expected += abs(np.exp(moved - log_total) - np.exp(rows[row] - log_total))
    assert in_parts.stability == pytest.approx(expected, rel=1e-6)
    assert found.stability == pytest.approx(expected, rel=1e-3)


def test_no_crossing_lies_between_the_steps_of_a_search():
    made, rng = world(WIDE_CLIP)
    assert made.in_parts(rng).stability == np.inf
    assert made.in_memory().stability == np.inf
