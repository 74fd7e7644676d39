"""Sums of the losses of claims at every candidate, and reading the losses again."""

import numpy as np
import pytest

import tether
from tests.risk import brute_force
from tether.risk import claim_sweep

ITEMS = [
    [(0.5, True), (0.25, False)],
    [],
    [(0.5, False), (0.75, True), (0.25, True)],
    [(0.0, False)],
]
CLAIMS = tether.Claims(*brute_force.flat(ITEMS))
WEIGHTS = np.array([1.0, 2.0, 4.0, 3.0])


@pytest.mark.parametrize("loss", ["fdr", "any_false", "miss"])
@pytest.mark.parametrize("chosen", [None, [0.1, 0.25, 0.6]])
@pytest.mark.parametrize("weighted", [False, True])
def test_sums_and_envelopes_by_definition(loss, chosen, weighted):
    thresholds = brute_force.candidates(ITEMS, loss)
    if chosen is not None:
        thresholds = chosen if loss == "miss" else chosen[::-1]
    rows = brute_force.table(ITEMS, loss, thresholds)
    weights = WEIGHTS / 4 if weighted else np.ones(4)
    swept = tether.risk.sweep(CLAIMS, chosen, loss=loss, weights=WEIGHTS if weighted else None)
    assert swept.thresholds.tolist() == list(thresholds)
    assert swept.sums == pytest.approx(weights @ np.array(rows, dtype=float))
    envelope = np.array(brute_force.monotonized(rows), dtype=float)
    assert swept.envelope == pytest.approx(weights @ envelope)
    assert swept.nonmonotone_items == tuple(brute_force.nonmonotone_items(rows))
    assert swept.total_weight == weights.sum()


@pytest.mark.parametrize("cells", [1, 12, 1 << 20])
def test_losses_are_read_in_blocks_of_items(monkeypatch, cells):
    monkeypatch.setattr(claim_sweep, "CELLS_PER_BLOCK", cells)
    swept = tether.risk.sweep(CLAIMS)
    rows = np.array(brute_force.table(ITEMS, "fdr", swept.thresholds), dtype=float)
    where = slice(1, 4)
    assert np.concatenate(list(swept.read_losses(where, None))) == pytest.approx(rows[:, where])
    order = np.array([2, 0, 3])
    assert np.concatenate(list(swept.read_losses(where, order))) == pytest.approx(
        rows[order, where]
    )
