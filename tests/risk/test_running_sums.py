"""Running sums at every candidate, whatever the block size and the direction."""

import numpy as np
import pytest

from tether.risk import running_sums, score_order
from tether.risk.running_sums import SweepOrder, binned_sums

RNG = np.random.default_rng(4)


@pytest.mark.parametrize("block", [4, 5, 1 << 18])
@pytest.mark.parametrize("larger", [True, False])
def test_thresholds_and_sums_by_definition(monkeypatch, block, larger):
    monkeypatch.setattr(running_sums, "CLAIMS_PER_BLOCK", block)
    monkeypatch.setattr(score_order, "CLAIMS_PER_BLOCK", block)
    for size in (1, 3, 4, 20):
        scores, steps = RNG.integers(0, 6, size) / 4, RNG.random(size)
        order = SweepOrder.of(scores, larger_is_safer=larger)
        distinct = np.unique(scores)
        thresholds = [np.inf, *distinct[::-1]] if larger else [*distinct, np.inf]
        assert order.thresholds(scores).tolist() == thresholds
        crossed = [scores >= t if larger else scores < t for t in thresholds]
        expected = [0.5 + steps[inside].sum() for inside in crossed]
        assert order.sums(steps, 0.5) == pytest.approx(expected)


def test_without_scores_the_only_candidate_is_infinity():
    order = SweepOrder.of(np.zeros(0), larger_is_safer=True)
    assert order.thresholds(np.zeros(0)).tolist() == [np.inf]
    assert order.sums(np.zeros(0), 0.25).tolist() == [0.25]


def test_steps_that_no_threshold_reaches_do_not_count():
    events = np.array([0, 2, 3, 1, 3])
    assert binned_sums(events, np.array([1.0, 2, 4, 8, 16]), 0.5, 3).tolist() == [1.5, 9.5, 11.5]
