"""Plain sums of budgeted clip with draws bound the condition as sums in log space do."""

import numpy as np
import pytest
from hypothesis import assume, given, reject, settings
from hypothesis import strategies as st

import tether
from tether.control.constraint import Constraint
from tether.control.problem import pose
from tether.control.solvers.excess import Excess

ROWS, BUDGET = 24, 3
CONSTRAINT = Constraint("loss", 0.1, 1.0)


def drawn_problem(seed, *, spread=1.0, mixed=False, test_weight="empirical", rows_per_context=1):
    """Ratios with ties, zeros and any spread, and draws of both policies in every context."""
    rng = np.random.default_rng(seed)
    contexts = ROWS // rows_per_context
    context = rng.permutation(np.repeat(np.arange(contexts), rows_per_context))
    label = np.repeat(np.arange(contexts), 2 * BUDGET)
    from_safe = np.tile(np.repeat([True, False], BUDGET), contexts)

    def ratios(count):
        found = spread * rng.normal(size=count)
        return np.where(rng.random(count) < 0.3, np.round(found), found)

    taken, drawn = ratios(ROWS), np.where(from_safe, ratios(len(label)), np.abs(ratios(len(label))))
    taken[rng.random(ROWS) < 0.1] = -np.inf
    drawn[(rng.random(len(label)) < 0.1) & from_safe] = -np.inf

    def scores(ratio):
        mixture = np.logaddexp(0.0, ratio) - np.log(2)
        return {
            "log_safe": np.zeros(len(ratio)),
            "log_optimized": ratio,
            **({"log_mix": mixture} if mixed else {}),
        }

    loss = rng.choice([0.0, 0.1, 0.6, 1.0], size=ROWS)
    log = tether.Log(loss, **scores(taken), context=context)
    source = np.where(from_safe, "safe", "optimized")
    proposals = tether.Proposals(**scores(drawn), context=label, source=source)
    return pose(log, proposals, tether.BudgetedClip(BUDGET), test_weight, blend=0.01)


@given(
    seed=st.integers(0, 10**6),
    spread=st.sampled_from([0.1, 1.0, 30.0, 150.0]),
    ends=st.tuples(st.floats(-150, 150), st.floats(0, 20)),
    without=st.sampled_from([None, "below", "above"]),
    mixed=st.booleans(),
    test_weight=st.sampled_from(["empirical", 3.0]),
    rows_per_context=st.sampled_from([1, 3]),
)
@settings(deadline=None)
def test_plain_sums_are_those_of_log_space(
    seed, spread, ends, without, mixed, test_weight, rows_per_context
):
    how = {"mixed": mixed, "test_weight": test_weight, "rows_per_context": rows_per_context}
    assume(not (mixed and spread > 30))  # the mixture would leave the range of floats
    assume(without is None or spread <= 1)  # else only rounding may be left without a row
    try:
        problem = drawn_problem(seed, spread=spread, **how)
    except ValueError:  # these draws cannot come from the policies whose scores they carry
        reject()
    excess = Excess(problem, CONSTRAINT)
    left, right = ends[0], ends[0] + ends[1]
    assert excess.plain is not None
    assert excess.plain.fits(left, right)
    found = excess.between(left, right, without)
    excess.plain = None
    assert found == pytest.approx(excess.between(left, right, without), abs=1e-9)


def test_betas_and_mixtures_outside_the_range_of_floats_stay_in_log_space():
    excess = Excess(drawn_problem(0), CONSTRAINT)
    assert excess.plain is not None
    assert not excess.plain.fits(-201.0, 0.0)
    assert not excess.plain.fits(0.0, 201.0)
    assert Excess(drawn_problem(0, spread=300.0, mixed=True), CONSTRAINT).plain is None


def test_sums_that_underflow_stay_in_log_space():
    """Every row and every draw is e^750 times less likely under the optimized policy."""
    label, source = np.repeat([0, 1], 2), np.tile(["safe", "optimized"], 2)
    log = tether.Log([0.0, 1.0], np.zeros(2), np.full(2, -750.0), context=[0, 1])
    proposals = tether.Proposals(np.zeros(4), np.full(4, -750.0), context=label, source=source)
    excess = Excess(pose(log, proposals, tether.BudgetedClip(1), "empirical"), CONSTRAINT)
    assert excess.plain is not None
    assert excess.plain.sums(1.0, 1.0, heaviest=False) is None
    assert excess(1.0) == pytest.approx(np.log(1.8 / 0.1), abs=1e-9)
