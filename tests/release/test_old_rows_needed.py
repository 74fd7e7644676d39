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
