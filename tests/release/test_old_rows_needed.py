"""When the old system passes, and how likely it is that it does not, against the real share."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tether.release import ArmCounts, Guardrail, ramp_share
from tether.release.old_rows_needed import (
    RARELY,
    enough_old_rows,
    most_old_losses,
    old_fails_probability,
)
from tether.release.old_rows_text import too_many_losses


def guardrail(tolerated, bound, *, promise):
    given = {"promise" if promise else "alpha": tolerated * bound}
    return Guardrail(bound=bound, **given)


def opens(limit, rows, total):
    """Whether the real share is above 0 with these rows of the old system."""
    old, new = {"x": ArmCounts(rows, total)}, {"x": ArmCounts(0, 0.0)}
    return ramp_share({"x": limit}, old=old, new=new).share > 0


@given(
    tolerated=st.floats(0.003, 0.9),
    bound=st.sampled_from([1.0, 0.5, 20.0]),
    promise=st.booleans(),
    rows=st.integers(1, 5_000),
    part=st.floats(0.0, 1.5),
)
def test_losses_pass_up_to_the_largest_sum(tolerated, bound, promise, rows, part):
    limit = guardrail(tolerated, bound, promise=promise)
    failures = min(rows, round(part * tolerated * rows))
    total = failures * bound
    most = most_old_losses(limit, rows)
    if not math.isclose(total, most, rel_tol=1e-6, abs_tol=1e-6):  # no rounding decides
        assert opens(limit, rows, total) == (total <= most)


@pytest.mark.parametrize("promise", [True, False])
def test_the_probability_is_how_often_the_real_share_stays_0(promise):
    limit, rows, risk = guardrail(0.05, 2.0, promise=promise), 300, 0.05
    counts = np.random.default_rng(5).binomial(rows, risk / 2, size=2_000)
    closed = {count: not opens(limit, rows, 2.0 * count) for count in set(counts.tolist())}
    found = np.mean([closed[count] for count in counts.tolist()])
    stated = old_fails_probability(limit, rows, risk)
    assert abs(found - stated) < 4 * math.sqrt(stated * (1 - stated) / len(counts))
    assert 0.001 < stated < 0.5


def test_spread_out_losses_fail_less_often_than_stated():
    limit, rows, risk = Guardrail(promise=0.05), 300, 0.025
    losses = np.random.default_rng(6).random((500, rows)) * 2 * risk
    assert all(opens(limit, rows, total) for total in losses.sum(axis=1))
    assert old_fails_probability(limit, rows, risk) > 0.1


@given(
    tolerated=st.floats(0.002, 0.5),
    part=st.floats(0.05, 0.9),
    promise=st.booleans(),
    bound=st.sampled_from([1.0, 7.0]),
)
def test_enough_rows_are_enough_and_hardly_too_many(tolerated, part, promise, bound):
    limit = guardrail(tolerated, bound, promise=promise)
    risk = part * limit.tolerated
    rows = enough_old_rows(limit, risk)
    assert old_fails_probability(limit, rows, risk) <= RARELY
    assert old_fails_probability(limit, int(0.7 * rows), risk) > RARELY / 2 or rows < 10


def test_a_risk_at_what_is_tolerated_never_has_enough():
    assert enough_old_rows(Guardrail(promise=0.02), 0.02) is None


def test_the_table_of_the_documentation():
    """Two of its rows, which a user has found by the real share and the binomial distribution."""
    limit, rows = Guardrail(promise=0.02), (200, 500, 1_000, 2_000, 3_000)
    found = [old_fails_probability(limit, each, 0.01) for each in rows]
    assert found == pytest.approx([0.87, 0.38, 0.13, 0.013, 0.001], abs=0.005)
    limit = Guardrail(promise=0.01)
    found = [old_fails_probability(limit, each, 0.005) for each in rows]
    assert found == pytest.approx([1, 0.71, 0.56, 0.135, 0.05], abs=0.005)


@pytest.mark.parametrize(
    ("limit", "old", "told"),
    [
        (
            Guardrail(promise=0.01),
            ArmCounts(1_000, 6.0),
            "with 1,000 rows its losses may sum to at most 4 for a promise of 0.01, and they sum "
            "to 6",
        ),
        (
            Guardrail(promise=0.02),
            ArmCounts(150, 0.0),
            "a promise of 0.02 takes at least 157 rows even without any loss, and there are 150",
        ),
        (
            Guardrail(0.02),
            ArmCounts(1_000, 18.0, 3),
            "with 1,000 rows, 3 of them without an outcome (counted as 1), its losses may sum to "
            "at most 19 for an alpha of 0.02, and they sum to 21",
        ),
        (
            Guardrail(0.1, bound=3.0),
            ArmCounts(100, 9.5),
            "with 100 rows its losses may sum to at most 7.1 for an alpha of 0.1, and they sum to "
            "9.5",
        ),
    ],
)
def test_the_reason_compares_what_is_with_what_may_be(limit, old, told):
    assert too_many_losses(limit, old) == told
    made = ramp_share({"x": limit}, old={"x": old}, new={"x": ArmCounts(0, 0.0)})
    assert made.reason == f"the old system alone does not pass for x: {told}"
