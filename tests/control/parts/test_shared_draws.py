"""Rows that share their stored draws foresee no more than in memory."""

import numpy as np
import pytest

import tether
from tests.control.parts.worlds import in_pieces, stored_draws, table_columns
from tether.control.parts import shared_draws
from tether.control.parts.shared_draws import SharedDraws

DRAWS = {
    "safe_draws": ["safe.log_safe", "safe.log_optimized"],
    "optimized_draws": ["optimized.log_safe", "optimized.log_optimized"],
}


def joined(rng, contexts, rows, draws):
    """A log and proposals in memory, and the same rows with the draws of their contexts."""
    tables = table_columns(rng, contexts, 4)
    label = np.append(np.arange(contexts), rng.integers(0, contexts, rows - contexts))
    safe, optimized = tables["log_safe_all"], tables["log_optimized_all"]
    action = (rng.random((rows, 1)) > np.cumsum(np.exp(safe[label]), axis=1)).sum(axis=1)
    action = np.minimum(action, 3)
    log = {
        "loss": ((action == 0) & (rng.random(rows) < 0.5)).astype(float),
        "log_safe": safe[label, action],
        "log_optimized": optimized[label, action],
    }
    drawn = stored_draws(rng, tables, draws)
    scores = {
        name: np.concatenate([drawn[f"safe.{name}"], drawn[f"optimized.{name}"]], axis=1).ravel()
        for name in ("log_safe", "log_optimized")
    }
    proposals = tether.Proposals(
        **scores,
        context=np.repeat(np.arange(contexts), 2 * draws),
        source=np.tile(np.repeat(["safe", "optimized"], draws), contexts),
    )
    beside = {name: values[label] for name, values in drawn.items()}
    return tether.Log(**log, context=label), proposals, {**log, **beside}


@pytest.mark.parametrize(("contexts", "draws"), [(5, 1), (20, 2), (200, 1), (300, 4)])
def test_the_promise_is_that_of_memory(contexts, draws):
    rng = np.random.default_rng(contexts)
    log, proposals, rows = joined(rng, contexts, 300, draws)
    memory = tether.calibrate(log, proposals, alpha=0.3)
    found = tether.calibrate(tether.Log.scan(in_pieces(rows, rng), **DRAWS), alpha=0.3)
    if np.isfinite(memory.log_beta):
        assert abs(found.log_beta - memory.log_beta) < 1e-10
    assert found.ratio_error == pytest.approx(memory.ratio_error, rel=1e-12)
    if contexts == 20:
        assert found.ratio_error > 1
    expected = memory.promise_terms["loss"].unforeseen
    assert found.promise_terms["loss"].unforeseen == pytest.approx(expected, rel=1e-9)
    assert found.promise == pytest.approx(memory.promise, rel=1e-6)
    assert tether.gain(found).notes == tether.gain(memory).notes
    assert found.coverage_limit == pytest.approx(memory.coverage_limit, rel=1e-9)
    if contexts == 5:
        assert expected > 0.05


@pytest.mark.parametrize("groups", [1 << 16, 16])
def test_shared_draws_give_the_same_bits_in_any_order(groups, monkeypatch):
    monkeypatch.setattr(shared_draws, "COUNTED_GROUPS", groups)
    _, _, rows = joined(np.random.default_rng(20), 20, 300, 2)
    found = [
        tether.calibrate(
            tether.Log.scan(in_pieces(rows, np.random.default_rng(seed), pieces, True), **DRAWS),
            alpha=0.3,
        )
        for seed, pieces in ((0, 1), (1, 4), (2, 30))
    ]
    assert len({(each.log_beta, each.ratio_error, each.promise) for each in found}) == 1


def test_groups_that_are_counted_together_cost_no_less(monkeypatch):
    rng = np.random.default_rng(20)
    _, _, rows = joined(rng, 20, 300, 2)
    log = tether.Log.scan(in_pieces(rows, rng), **DRAWS)
    exact = tether.calibrate(log, alpha=0.3)
    monkeypatch.setattr(shared_draws, "COUNTED_GROUPS", 8)
    together = tether.calibrate(tether.Log.scan(in_pieces(rows, rng), **DRAWS), alpha=0.3)
    assert together.ratio_error >= exact.ratio_error > 1
    assert together.promise > exact.promise


def test_a_confidence_needs_draws_of_its_own_for_every_row():
    rng = np.random.default_rng(0)
    log, proposals, rows = joined(rng, 20, 300, 2)
    with pytest.raises(ValueError, match="draws of its own for every row, but 280 of 300 rows"):
        tether.calibrate(log, proposals, alpha=0.3, confidence=0.9)
    scanned = tether.Log.scan(in_pieces(rows, rng), **DRAWS)
    with pytest.raises(ValueError, match="draws of its own for every row, but 280 of 300 rows"):
        tether.calibrate(scanned, alpha=0.3, confidence=0.9)


def test_rows_with_draws_of_their_own_share_none_however_many_there_are(monkeypatch):
    monkeypatch.setattr(shared_draws, "COUNTED_GROUPS", 64)
    rng = np.random.default_rng(1)
    for rows in (200, 10_000):
        found = SharedDraws.of(rng.integers(0, 2**64, rows, dtype=np.uint64))
        assert (found.exact, found.shared, found.largest) == (False, 0, 1)
        assert found.different == rows


def test_many_different_draws_are_counted_from_above_in_any_order(monkeypatch):
    monkeypatch.setattr(shared_draws, "COUNTED_GROUPS", 16)
    rng = np.random.default_rng(0)
    hashes = rng.integers(0, 2**64, 300, dtype=np.uint64)
    hashes[:40] = hashes[0]
    parts = [SharedDraws.of(part) for part in np.split(hashes, [10, 15, 200])]
    one = parts[0].merge(parts[1]).merge(parts[2]).merge(parts[3])
    other = parts[3].merge(parts[1].merge(parts[2])).merge(parts[0])
    whole = SharedDraws.of(hashes)
    for each in (one, other):
        assert not each.exact
        np.testing.assert_array_equal(each.hashes, whole.hashes)
        np.testing.assert_array_equal(each.rows, whole.rows)
    assert whole.rows.sum() == 300
    assert 40 <= whole.largest <= 80
