"""When the old system passes, and how likely it is that it does not, against the real share."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tether.release import ArmCounts, Guardrail, ramp_share
from tether.release.old_rows_needed import (
    old_fails_probability,
)


def guardrail(tolerated, bound, *, promise):
    given = {"promise" if promise else "alpha": tolerated * bound}
    return Guardrail(bound=bound, **given)


def opens(limit, rows, total):
    """Whether the real share is above 0 with these rows of the old system."""
    old, new = {"x": ArmCounts(rows, total)}, {"x": ArmCounts(0, 0.0)}
    return ramp_share({"x": limit}, old=old, new=new).share > 0


@pytest.mark.parametrize("promise", [True, False])
def test_the_probability_is_how_often_the_real_share_stays_0(promise):
    limit, rows, risk = guardrail(0.05, 2.0, promise=promise), 300, 0.05
    counts = np.random.default_rng(5).binomial(rows, risk / 2, size=2_000)
    closed = {count: not opens(limit, rows, 2.0 * count) for count in set(counts.tolist())}
    found = np.mean([closed[count] for count in counts.tolist()])
    stated = old_fails_probability(limit, rows, risk)
    assert abs(found - stated) < 4 * math.sqrt(stated * (1 - stated) / len(counts))
    assert 0.001 < stated < 0.5
