"""Where along a sweep to stop, whatever the block size; and its risks."""

from dataclasses import replace

import numpy as np
import pytest

import tether
from tether.risk import risk_curve
from tether.risk.risk_curve import before_first_violation, boldest_passing, checked_thresholds


def swept(risks):
    """A sweep of 9 items with these mean losses, safest first."""
    return tether.risk.sweep(np.tile(risks[::-1], (9, 1)))


@pytest.mark.parametrize("block", [1, 2, 3, 1 << 18])
@pytest.mark.parametrize(
    ("risks", "first", "boldest"),
    [
        ([0.0, 0.1, 0.5, 0.1], 1, 3),
        ([0.0, 0.1, 0.1, 0.5], 2, 2),
        ([0.5, 0.1, 0.5, 0.5], -1, 1),
        ([0.1, 0.5, 0.5, 0.5], 0, 0),
        ([0.5, 0.5, 0.5, 0.5], -1, -1),
        ([0.1, 0.1, 0.1, 0.1], 3, 3),
    ],
)
def test_where_to_stop(monkeypatch, block, risks, first, boldest):
    monkeypatch.setattr(risk_curve, "CLAIMS_PER_BLOCK", block)
    sweep = swept(risks)
    assert before_first_violation(sweep, sweep.sums, 0.2) == first
    assert boldest_passing(sweep, sweep.sums, 0.2) == boldest


def test_risks_with_and_without_the_test_item():
    sweep = swept([0.0, 0.1, 0.5])
    assert sweep.risks(conservative=False) == pytest.approx([0, 0.1, 0.5])
    assert sweep.risks() == pytest.approx([0.1, 0.19, 0.55])
    assert sweep.risks(where=slice(1, 2)) == pytest.approx([0.19])
    assert replace(sweep, test_weight=2.0).risks() == pytest.approx([2 / 11, 2.9 / 11, 6.5 / 11])


def test_a_rate_among_none_selected_is_nan():
    sweep = tether.risk.sweep(tether.ScoredLabels([0.5, 0.6], [0, 1]), [0.55, 0.7])
    assert sweep.among_selected
    assert np.isnan(sweep.risks(conservative=False)[0])
    assert sweep.risks(conservative=False)[1] == 0


def test_thresholds_are_returned_safest_first():
    assert checked_thresholds([0.1, 0.2], "larger").tolist() == [0.2, 0.1]
    assert checked_thresholds([0.1, 0.2], "smaller").tolist() == [0.1, 0.2]
