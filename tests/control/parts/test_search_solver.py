"""Logs in parts with contexts: tables of all actions, and draws stored beside each row."""

from __future__ import annotations

import numpy as np
import pytest

import tether
from tests.control.parts.worlds import in_pieces, stored_draws, table_columns
from tests.scale import scaled
from tether.control.families import LAST_LOG_BETA_OF_SAFE

DIAGNOSTICS = (
    *("risk", "effective_sample_size", "max_weight", "robustness", "rows_beyond_draws"),
    *("acceptance", "relative_weights", "warnings", "blend", "actions", "family"),
)


def both(rng, rows, actions, draws, **settings):
    """The same calibration in memory and in parts, and the log in parts."""
    columns = table_columns(rng, rows, actions)
    plain = {name: columns[name] for name in ("loss", "log_safe", "log_optimized")}
    if not draws:
        memory = tether.calibrate(tether.Log(**columns), **settings)
        log = tether.Log.scan(
            in_pieces(columns, rng),
            log_safe_all="log_safe_all",
            log_optimized_all="log_optimized_all",
        )
        return memory, tether.calibrate(log, **settings), log
    stored = stored_draws(rng, columns, draws)
    joined = {
        name: np.concatenate([stored[f"safe.{name}"], stored[f"optimized.{name}"]], axis=1).ravel()
        for name in ("log_safe", "log_optimized")
    }
    labels = np.repeat(np.arange(rows), 2 * draws)
    source = np.tile(np.repeat(["safe", "optimized"], draws), rows)
    proposals = tether.Proposals(**joined, context=labels, source=source)
    memory = tether.calibrate(tether.Log(**plain, context=np.arange(rows)), proposals, **settings)
    log = tether.Log.scan(
        in_pieces({**plain, **stored}, rng),
        safe_draws=["safe.log_safe", "safe.log_optimized"],
        optimized_draws=["optimized.log_safe", "optimized.log_optimized"],
    )
    return memory, tether.calibrate(log, **settings), log


@pytest.mark.parametrize("draws", [0, 2])
def test_beta_is_that_in_memory_within_six_passes(draws):
    found = 0
    for seed in range(scaled(9)):
        rng = np.random.default_rng(seed)
        rows, actions = int(rng.choice([5, 60, 300])), int(rng.choice([2, 5]))
        weight = ("empirical", "analytic", 4.0)[seed % 3]
        alpha = float(rng.choice([0.2, 0.3, 0.5]))
        memory, parts, log = both(rng, rows, actions, draws, alpha=alpha, test_weight=weight)
        if memory.log_beta != parts.log_beta:
            assert parts.log_beta == pytest.approx(memory.log_beta, rel=1e-10, abs=1e-10)
            found += np.isfinite(memory.log_beta)
        assert log.passes <= 6
    assert found


def test_a_condition_that_fails_first_where_the_weights_jump_passes_below():
    settings = {"alpha": 0.5, "test_weight": 1.0}
    memory, parts, _ = both(np.random.default_rng(105), 12, 2, 2, **settings)
    assert memory.log_beta == parts.log_beta == LAST_LOG_BETA_OF_SAFE


@pytest.mark.parametrize("draws", [0, 3])
def test_every_diagnostic_is_that_in_memory(draws):
    rng = np.random.default_rng(11)
    memory, parts, _ = both(rng, 250, 4, draws, alpha=0.25)
    assert np.isfinite(memory.log_beta)
    for name in DIAGNOSTICS:
        expected, found = getattr(memory, name), getattr(parts, name)
        if expected is None or isinstance(expected, str) or name == "warnings":
            assert found == expected
        else:
            assert found == pytest.approx(expected, rel=1e-7, abs=1e-12), name
    assert parts.stability == pytest.approx(memory.stability, rel=0.02)  # both interpolate
    expected, found = memory.curve(points=12), parts.curve(points=12)
    assert found.log_beta == pytest.approx(expected.log_beta, rel=1e-12)
    assert found.risk == pytest.approx(expected.risk, rel=1e-8)


def test_what_a_log_in_parts_cannot_join_is_refused_by_name():
    rng = np.random.default_rng(0)
    columns = table_columns(rng, 30, 3) | {"user": np.arange(30)}
    plain = tether.Log.scan(in_pieces(columns, rng), context="user")
    with pytest.raises(ValueError, match="stored beside each row"):
        tether.calibrate(plain, alpha=0.3)
    drawn = tether.Proposals.scan(in_pieces(columns, rng), context="user")
    with pytest.raises(ValueError, match="safe_draws and optimized_draws"):
        tether.calibrate(plain, drawn, alpha=0.3)
