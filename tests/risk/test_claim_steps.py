"""Losses as steps and as pieces, against their definitions at every threshold."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tether
from tests.risk import brute_force
from tether.risk.claim_losses import CLAIM_LOSSES
from tether.risk.claim_steps import event_index, loss_pieces, losses_at

CHOSEN = st.lists(st.integers(-8, 9), min_size=1, max_size=6, unique=True).map(
    lambda numbers: sorted(number / 8 for number in numbers)
)


def in_order(chosen, loss):
    """Thresholds from the safest on."""
    return np.array(chosen if loss == "miss" else chosen[::-1])


@settings(max_examples=150, deadline=None)
@given(items=brute_force.ITEMS, loss=st.sampled_from(list(CLAIM_LOSSES)), chosen=CHOSEN)
def test_losses_and_pieces_at_given_thresholds(items, loss, chosen):
    thresholds = in_order(chosen, loss)
    claims = tether.Claims(*brute_force.flat(items))
    expected = np.array(brute_force.table(items, loss, thresholds), dtype=float)
    assert losses_at(claims, CLAIM_LOSSES[loss], 1.0, thresholds) == pytest.approx(expected)
    pieces = loss_pieces(claims, CLAIM_LOSSES[loss], 1.0, thresholds)
    assert len(pieces.start) == len(claims.scores) + claims.n_items
    ends = np.append(pieces.first[1:], len(pieces.start))
    for i, (first, stop) in enumerate(zip(pieces.first, ends, strict=True)):
        row = np.full(len(thresholds), np.nan)
        for k in range(first, stop):
            row[pieces.start[k] : pieces.end[k]] = pieces.level[k]
        assert row == pytest.approx(expected[i])


def test_a_claim_meets_a_threshold_equal_to_its_score():
    """Kept at its own score where larger is safer; dropped only above it where smaller is."""
    scores = np.array([0.1, 0.2, 0.3])
    larger = event_index(scores, np.array([0.3, 0.2]), larger_is_safer=True)
    assert larger.tolist() == [2, 1, 0]
    smaller = event_index(scores, np.array([0.2, 0.3]), larger_is_safer=False)
    assert smaller.tolist() == [0, 1, 2]


@pytest.mark.parametrize("value", [1.5, -0.1, np.nan])
def test_a_callable_that_leaves_its_bounds_is_named(value):
    def strange(supported, kept):
        return value if kept.sum() == 1 else 0.0

    claims = tether.Claims([0.1, 0.3, 0.2], [1, 1, 0], [0, 1, 3])
    with pytest.raises(ValueError, match=r"loss 'strange' is .* for item 0: expected a loss in"):
        tether.gcrc(claims, alpha=0.1, loss=strange)


def test_a_bound_that_a_loss_exceeds():
    def all_kept(supported, kept):
        return float(kept.all())

    claims = tether.Claims([0.1], [0], [0, 1])
    with pytest.raises(ValueError, match="loss 'all_kept' is 1 for item 0: expected a loss in"):
        tether.gcrc(claims, alpha=0.1, bound=0.5, loss=all_kept)
