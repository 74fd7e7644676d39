"""Intervals of beta at whose ends the condition is decided."""

from itertools import pairwise

import numpy as np
import pytest

import tether
from tests.control.parts.worlds import marginal_world
from tether.control.solvers import search
from tether.control.solvers.convex_intervals import convex_breaks, is_convex
from tether.control.solvers.excess import Excess


def mixture(safe, optimized):
    """The density of a mixture with a share of 0.6 of the safe policy."""
    return np.logaddexp(np.log(0.6) + safe, np.log(0.4) + optimized)


def scores(safe, ratio):
    """Log-probabilities under both policies and their mixture."""
    safe, ratio = np.array(safe), np.array(ratio)
    return {
        "log_safe": safe,
        "log_optimized": safe + ratio,
        "log_mix": mixture(safe, safe + ratio),
    }


def test_a_condition_that_is_zero_over_hundreds_of_nats_passes_there():
    """One row weighs as much as the test point up to its own ratio, at alpha = 0.5; the other
    weighs nothing. Steps of a fixed width would not come to the end of the range."""
    log = tether.Log(np.zeros(2), **scores([0.0, 0.0], [-135.0, 520.0]), safe_share=0.6)
    drawn = tether.Proposals(**scores([0.0, 0.0], [-730.0, 0.0]))
    found = tether.calibrate(log, drawn, alpha=0.5, test_weight="analytic")
    assert found._problem.solver is search
    assert found.log_beta == pytest.approx(-135.0, abs=1e-9)


@pytest.mark.parametrize("seed", range(40))
def test_between_two_breaks_the_condition_is_positive_only_if_it_is_at_an_end(seed):
    rng = np.random.default_rng(seed)
    world = marginal_world(rng)
    try:
        found = world.in_memory()
    except ValueError:
        return
    problem = found._problem
    for constraint in found.constraints:
        excess = Excess(problem, constraint)
        lo, hi = problem.search_range()
        points = np.unique(np.concatenate(([lo], np.clip(excess.breaks, lo, hi), [hi])))
        for left, right in list(pairwise(points))[:20]:
            assert is_convex(excess.breaks, left, right)
            inside = max(excess(t) for t in np.linspace(left, right, 9)[1:-1])
            assert inside <= max(excess.between(left, right), 0.0) + 1e-9


def test_an_interval_with_a_break_inside_is_not_decided_at_its_ends():
    breaks = np.array([-1.0, 2.0])
    assert is_convex(breaks, -1.0, 2.0)
    assert is_convex(breaks, 2.0, 9.0)
    assert not is_convex(breaks, -1.5, 0.0)
    assert not is_convex(breaks, 1.0, 2.5)
    assert not is_convex(None, 0.0, 1.0)


def test_breaks_are_those_of_mix_and_of_clip_without_contexts():
    log = tether.Log(np.zeros(3), np.zeros(3), np.array([0.5, 0.0, -0.5]))
    found = tether.calibrate(log, tether.Proposals(np.zeros(2), np.array([0.1, 0.2])), alpha=0.5)
    assert convex_breaks(found._problem).tolist() == [-0.5, 0.0, 0.2, 0.5]
    fixed = tether.calibrate(
        log, tether.Proposals(np.zeros(2), np.array([0.1, 0.2])), alpha=0.5, test_weight=3.0
    )
    assert convex_breaks(fixed._problem).tolist() == [-0.5, 0.0, 0.1, 0.2, 0.5]
    tables = np.log([[0.5, 0.5]])
    one = tether.Log(
        [0.0], tables[:, 0], tables[:, 0], log_safe_all=tables, log_optimized_all=tables
    )
    assert convex_breaks(tether.calibrate(one, alpha=0.6)._problem) is None
