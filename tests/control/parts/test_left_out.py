"""Leaving out a row: against the definition, also with weights that no float holds."""

import numpy as np
import pytest
from benchmarks.scan_equality import near_the_mean

from tests.control.parts.worlds import both, contextual_world, marginal_world
from tests.control.stability_by_definition import (
    MOST_ABOVE,
    assert_bounds_the_definition,
    stability_by_definition,
)

pytestmark = pytest.mark.filterwarnings("ignore::tether.AssumptionWarning")
WIDE_MIX, WIDE_CLIP = 64, 720
"""Worlds in which log-weights of the mixture go down to −768, and to −944."""
BRIEF_FAILURE = 620
"""A world in which the condition without some rows fails at −1.5 and passes again until 1.6."""


def world(seed):
    rng = np.random.default_rng(seed)
    return near_the_mean(marginal_world(rng), rng), rng


def test_stability_of_mix_is_that_of_its_definition():
    made, rng = world(WIDE_MIX)
    found, in_parts = made.in_memory(), made.in_parts(rng)
    lo, hi = found._problem.search_range()
    points = np.unique(np.concatenate((np.linspace(lo, hi, 300), np.linspace(-5, 5, 300))))
    expected = stability_by_definition(found, points.tolist())
    assert in_parts.stability == pytest.approx(expected, rel=1e-6)
    assert_bounds_the_definition(found.stability, found, points.tolist())


@pytest.mark.parametrize(("seed", "rows"), [(2, 15), (7, 15)])
def test_a_crossing_where_weights_jump_is_on_the_side_that_passes(seed, rows):
    """Some rows cross at β = 1, where proposals change from one policy to the other."""
    memory, parts, _ = both(np.random.default_rng(seed), rows, 4, 2, alpha=0.3)
    assert_bounds_the_definition(memory.stability, memory)
    assert parts.stability == pytest.approx(memory.stability, rel=1e-6)


OUTCOMES = {6: "none", 10: "finite", 16: "finite", 17: "finite", 21: "all", 24: "finite"}
"""Worlds with contexts, and which betas pass."""


@pytest.mark.parametrize("seed", OUTCOMES)
def test_stability_with_contexts_is_not_below_its_definition_and_the_same_in_parts(seed):
    memory, parts, _ = contextual_world(seed)
    outcome = {-np.inf: "none", np.inf: "all"}.get(memory.log_beta, "finite")
    assert outcome == OUTCOMES[seed]
    assert memory.stability > 0
    assert_bounds_the_definition(memory.stability, memory)
    assert parts.stability == pytest.approx(memory.stability, rel=1e-6)


def test_a_brief_failure_between_two_points_of_a_grid_is_found():
    made, rng = world(BRIEF_FAILURE)
    exact = made.in_parts(rng).stability
    assert exact * (1 - 1e-9) <= made.in_memory().stability <= exact * MOST_ABOVE


@pytest.mark.parametrize("seed", [80429, 80634, 80248, 81365])
def test_rows_that_are_taken_together_in_bins_do_not_make_the_stability_smaller(seed, monkeypatch):
    made, rng = world(seed)
    exact = made.in_memory().stability
    monkeypatch.setattr("tether.control.parts.clip_solver.MAX_COLLECTED", 0)
    assert exact * (1 - 1e-9) <= made.in_parts(rng).stability <= exact * MOST_ABOVE


def test_no_crossing_lies_between_the_steps_of_a_search():
    made, rng = world(WIDE_CLIP)
    assert made.in_parts(rng).stability == np.inf
    assert made.in_memory().stability == np.inf
