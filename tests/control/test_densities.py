"""Densities at the points of a log: against the definition, their limits and their bounds."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tether
from tests.control import direct_formulas
from tests.control.example_logs import drawn_world, finite_world
from tether.control import densities
from tether.control.context_draws import gather_draws
from tether.control.densities import BudgetedDensities, NormalizedDensities
from tether.control.problem import pose
from tether.control.proposal_blocks import ProposalBlocks

BUDGET = 3


def crowded(rng, contexts=5, rows=12, budget=BUDGET):
    """Budgeted densities of contexts with several rows each, and with one to four blocks."""
    label = rng.integers(contexts, size=rows)
    ratio = rng.normal(size=rows)
    log = tether.Log(np.zeros(rows), np.zeros(rows), ratio, context=label)
    draws = budget * rng.integers(1, 5, size=contexts)
    place = np.repeat(np.arange(contexts), 2 * draws)
    source = np.concatenate([np.repeat(["safe", "optimized"], n) for n in draws])
    drawn = rng.normal(size=len(place)) * rng.choice([0.5, 2.0])
    proposals = tether.Proposals(np.zeros(len(place)), drawn, context=place, source=source)
    blocks = ProposalBlocks.build(gather_draws(log, proposals), budget)
    return log, BudgetedDensities(tether.BudgetedClip(budget), blocks)


def direct(found, log_ratio, cell, grid):
    """The ratio at one point by the definition: the mean over the blocks of its cell's group."""
    blocks = found.blocks
    ends = np.append(blocks.group_start[1:], blocks.log_ratio_safe.shape[1])
    columns = range(blocks.group_start[cell], ends[cell])
    each = [
        direct_formulas.budgeted_ratio(
            [log_ratio], blocks.log_ratio_safe[:, c], blocks.log_ratio_optimized[:, c], grid
        )[0]
        for c in columns
    ]
    return np.mean(each, axis=0)


def test_rows_against_the_definition():
    rng = np.random.default_rng(70)
    grid = np.array([-6.0, -1.3, -0.4, -1e-12, 0.0, 0.2, 1.1, 6.0])
    for _ in range(5):
        log, found = crowded(rng)
        for row in range(len(log)):
            cell = found.row[row : row + 1]
            expected = direct(found, log.log_optimized[row], cell[0], grid)
            for log_beta, each in zip(grid, expected, strict=True):
                point = np.zeros(1), log.log_optimized[row : row + 1]
                value = found.log_density(*point, cell, log_beta)
                assert np.exp(value[0]) == pytest.approx(float(each), rel=1e-11)


def test_the_cells_of_contexts_and_the_worst_cell():
    """For the test point: the largest averages of a context, and S = N, D = 1."""
    rng = np.random.default_rng(71)
    _, found = crowded(rng)
    for log_beta in (-2.0, -0.1, 0.0, 0.8):
        for average, most in zip(found.log_averages(log_beta), (BUDGET, 1.0), strict=True):
            ends = [*found.blocks.context_start[1:], len(found.blocks.group_start)]
            for k, end in enumerate(ends):
                groups = average[found.blocks.context_start[k] : end]
                assert average[found.context[k]] == groups.max()
            assert average[found.worst[0]] == pytest.approx(np.log(most))
            assert (average <= average[found.worst[0]] + 1e-12).all()


def test_the_largest_ratio_of_any_action():
    """N·max(β, 1) + 1, at an infinite ratio in the worst cell."""
    _, found = crowded(np.random.default_rng(72))
    for log_beta in (-3.0, -1e-9, 0.0, 2.0):
        with np.errstate(invalid="ignore"):
            largest = found.log_density(np.zeros(1), np.full(1, np.inf), found.worst, log_beta)
        assert np.exp(largest[0]) == pytest.approx(BUDGET * max(np.exp(log_beta), 1) + 1)


def test_limits():
    rng = np.random.default_rng(73)
    log, found = crowded(rng)
    point = log.log_safe, log.log_optimized
    drawn = np.append(found.blocks.log_ratio_safe.ravel(), found.blocks.log_ratio_optimized.ravel())
    lowest = min(drawn.min(), log.log_optimized.min(), 0.0)
    highest = max(drawn.max(), log.log_optimized.max(), 0.0)
    for log_beta in (lowest - 1e-9, lowest - 40, lowest - 1000, -np.inf):  # the safe policy
        assert found.log_density(*point, found.row, log_beta) == pytest.approx(
            np.zeros(len(log)), abs=1e-12
        )
        assert found.log_acceptance(log_beta) == pytest.approx(np.zeros(len(log)), abs=1e-12)
    for log_beta in (highest + 1e-9, highest + 40, highest + 1000, np.inf):  # the optimized one
        density = found.log_density(*point, found.row, log_beta)
        assert density == pytest.approx(log.log_optimized, abs=1e-12)
        assert found.log_acceptance(log_beta) == pytest.approx(np.zeros(len(log)), abs=1e-12)
    tries, fallback = found.log_averages(np.inf)
    assert (len(tries), len(fallback)) == (found.worst[0] + 1, found.worst[0] + 1)


def test_acceptance_is_one_over_the_number_of_tries():
    _, found = crowded(np.random.default_rng(74))
    for log_beta in (-0.7, 0.4):
        tries, _ = found.log_averages(log_beta)
        assert found.log_acceptance(log_beta) == pytest.approx(-tries[found.row])
        assert (found.log_acceptance(log_beta) >= -np.log(BUDGET) - 1e-12).all()


def assert_bounds_hold(found, log_ratio, cell, left, right, rng):
    low, high = found.log_ratio_bounds(log_ratio, cell, left, right)
    inside = [left, right, *rng.uniform(left, right, size=12)]
    inside += [point for point in (0.0, np.nextafter(0.0, -1.0)) if left <= point <= right]
    for log_beta in inside:
        with np.errstate(invalid="ignore"):
            value = found.log_density(np.zeros(len(cell)), log_ratio, cell, log_beta)
        assert (value >= low - 1e-10).all()
        assert (value <= high + 1e-10).all()


@given(st.integers(0, 2**32 - 1), st.floats(-4, 4), st.floats(0, 4))
@settings(max_examples=120, deadline=None)
def test_bounds_hold_on_every_interval(seed, left, width):
    """For rows, for the largest of each context and for the worst cell, across β = 1 as well."""
    rng = np.random.default_rng(seed)
    log, found = crowded(rng)
    intervals = [(left, left + width), (-width, width), (-width, 0.0), (0.0, width), (left, left)]
    ratio = rng.normal(size=len(found.context)) * 2
    for interval in intervals:
        assert_bounds_hold(found, log.log_optimized, found.row, *interval, rng)
        assert_bounds_hold(found, ratio, found.context, *interval, rng)
        assert_bounds_hold(found, np.full(1, np.inf), found.worst, *interval, rng)


@given(st.integers(0, 2**32 - 1), st.floats(-4, 4), st.floats(0, 4))
@settings(max_examples=40, deadline=None)
def test_bounds_of_exact_averages_hold_too(seed, left, width):
    rng = np.random.default_rng(seed)
    log, *_ = finite_world(rng, rows=6)
    for family in (tether.Clip(), tether.Mix(), tether.BudgetedClip(4)):
        found = pose(log, None, family, "empirical").densities
        ratio = log.log_optimized - log.log_safe
        assert_bounds_hold(found, ratio, found.row, left, left + width, rng)


def test_bounds_meet_where_nothing_changes():
    """Plateaus of any length are certified at once."""
    log, found = crowded(np.random.default_rng(75))
    for interval in ((-900.0, -50.0), (50.0, 900.0)):
        low, high = found.log_ratio_bounds(log.log_optimized, found.row, *interval)
        assert high == pytest.approx(low, abs=1e-12)


def test_averages_are_kept_and_the_oldest_forgotten(monkeypatch):
    monkeypatch.setattr(densities, "KEPT_BETAS", 2)
    _, found = crowded(np.random.default_rng(76))
    first = found.log_averages(0.1)
    assert found.log_averages(0.1) is first
    found.log_averages(0.2)
    found.log_averages(0.3)
    again = found.log_averages(0.1)
    assert again is not first
    assert again[0] == pytest.approx(first[0], rel=1e-15)


def test_which_densities_a_problem_has():
    """Exact where ψ is, or cancels, and unbiased elsewhere."""
    rng = np.random.default_rng(77)
    log, proposals, *_ = drawn_world(rng)
    table, *_ = finite_world(rng)
    marginal = tether.Log(log.loss, log.log_safe, log.log_optimized)
    source = np.where(proposals.from_safe, "safe", "optimized")
    drawn = tether.Proposals(proposals.log_safe, proposals.log_optimized, source=source)
    clip, mix, budgeted = tether.Clip(), tether.Mix(), tether.BudgetedClip(2)
    exact = [(table, None, f) for f in (clip, mix, budgeted)]
    exact += [(marginal, drawn, clip), (marginal, drawn, mix), (log, proposals, mix)]
    for case in exact:
        problem = pose(*case, "empirical")
        assert isinstance(problem.densities, NormalizedDensities)
        assert problem.family == case[2]
    unbiased = [(log, proposals, clip), (log, proposals, budgeted), (marginal, drawn, budgeted)]
    for case, draws in zip(unbiased, (3, 2, 2), strict=True):
        problem = pose(*case, "empirical")
        assert isinstance(problem.densities, BudgetedDensities)
        assert problem.family == tether.BudgetedClip(draws)


def test_the_exact_averages_are_what_unbiased_ones_approach():
    """Many blocks of proposals in one context, against the sums over its table of actions."""
    rng = np.random.default_rng(78)
    safe, optimized = np.log(rng.dirichlet(np.ones(4), size=2))
    budget, blocks = 3, 4000
    actions = [rng.choice(4, p=np.exp(p), size=budget * blocks) for p in (safe, optimized)]
    taken = np.concatenate(actions)
    log = tether.Log([0.0], safe[:1], optimized[:1], context=[0])
    proposals = tether.Proposals(
        safe[taken],
        optimized[taken],
        context=np.zeros(len(taken), dtype=int),
        source=np.repeat(["safe", "optimized"], budget * blocks),
    )
    family = tether.BudgetedClip(budget)
    found = pose(log, proposals, family, "empirical").densities
    for log_beta in (-1.0, -0.2, 0.0, 0.5):
        log_psi = np.logaddexp.reduce(family.log_kernel(safe, optimized, log_beta))
        exact = np.exp(family.log_density(safe, optimized, log_beta, log_psi))
        cell = np.zeros(4, dtype=int)
        estimate = np.exp(found.log_density(safe, optimized, cell, log_beta))
        assert estimate == pytest.approx(exact, rel=0.05)
        assert exact.sum() == pytest.approx(1)
