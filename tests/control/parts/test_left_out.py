"""Leaving out a row: against the definition, also with weights that no float holds."""

import numpy as np
import pytest
from benchmarks.scan_equality import near_the_mean

from tests.control.parts.test_search_solver import both
from tests.control.parts.worlds import marginal_world
from tether.control.families import LAST_LOG_BETA_OF_SAFE

pytestmark = pytest.mark.filterwarnings("ignore::tether.AssumptionWarning")
WIDE_MIX, WIDE_CLIP = 64, 720
"""Worlds in which log-weights of the mixture go down to −768, and to −944."""
BRIEF_FAILURE = 620
"""A world in which the condition without some rows fails at −1.5 and passes again until 1.6."""


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


def stability_by_definition(found, points):
    """The change of each row's own weight, at the largest beta without it."""
    problem, (constraint,) = found._problem, found.constraints
    lo, hi = problem.search_range()
    rows, test = problem.log_weights(found.log_beta)
    log_total = log_sum(np.append(rows, test))
    expected = 0.0
    for row in range(len(problem.log)):
        own = np.clip(largest_without(problem, constraint, row, points), lo, hi)
        moved = problem.log_weights(float(own))[0][row]
        expected += abs(np.exp(moved - log_total) - np.exp(rows[row] - log_total))
    return expected


def test_stability_of_mix_is_that_of_its_definition():
    made, rng = world(WIDE_MIX)
    found, in_parts = made.in_memory(), made.in_parts(rng)
    lo, hi = found._problem.search_range()
    points = np.unique(np.concatenate((np.linspace(lo, hi, 300), np.linspace(-5, 5, 300))))
    expected = stability_by_definition(found, points)
    assert in_parts.stability == pytest.approx(expected, rel=1e-6)
    assert found.stability == pytest.approx(expected, rel=1e-3)


@pytest.mark.parametrize(("seed", "rows"), [(2, 15), (7, 15)])
def test_a_crossing_where_weights_jump_is_on_the_side_that_passes(seed, rows):
    """Some rows cross at β = 1, where proposals change from one policy to the other."""
    rng = np.random.default_rng(seed)
    memory, parts, _ = both(rng, rows, 4, 2, alpha=0.3)
    lo, hi = memory._problem.search_range()
    even = np.linspace(lo, hi, 200)
    points = np.unique(np.concatenate((even, [LAST_LOG_BETA_OF_SAFE, 0.0])))
    expected = stability_by_definition(memory, points)
    assert memory.stability == pytest.approx(expected, rel=0.01)
    assert parts.stability == pytest.approx(expected, rel=0.01)


def test_a_brief_failure_between_two_points_of_a_grid_is_found():
    made, rng = world(BRIEF_FAILURE)
    assert made.in_memory().stability == pytest.approx(made.in_parts(rng).stability, rel=5e-3)


def test_no_crossing_lies_between_the_steps_of_a_search():
    made, rng = world(WIDE_CLIP)
    assert made.in_parts(rng).stability == np.inf
    assert made.in_memory().stability == np.inf
