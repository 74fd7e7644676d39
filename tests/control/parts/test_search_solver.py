"""Logs in parts with contexts: tables of all actions, and draws stored beside each row."""

from __future__ import annotations

import numpy as np
import pytest

import tether
from tests.control.parts.worlds import both, in_pieces, table_columns
from tests.scale import scaled
from tether.control.families import LAST_LOG_BETA_OF_SAFE

DIAGNOSTICS = (
    *("risk", "effective_sample_size", "max_weight", "robustness", "rows_beyond_draws"),
    *("acceptance", "relative_weights", "warnings", "blend", "actions", "family"),
)


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


def same_rows(spread):
    """Three rows of one action in one context, of which one does harm, and policies apart."""
    safe = np.log([[0.5, 0.5]] * 3)
    optimized = safe + np.array([spread, np.log(2 - np.exp(spread))])
    taken = {"log_safe": safe[:, 0], "log_optimized": optimized[:, 0]}
    tables = {"log_safe_all": safe, "log_optimized_all": optimized}
    return {"loss": np.array([1.0, 0.0, 0.0]), **taken, **tables}


@pytest.mark.parametrize(("alpha", "expected"), [(0.5, np.inf), (0.5 - 1e-8, -np.inf)])
def test_a_tie_at_every_beta_passes_as_in_memory(alpha, expected):
    """0.5·w − 0.5·2·w + 0.5·w is zero at every beta, though w itself changes."""
    columns = same_rows(0.3)
    memory = tether.calibrate(tether.Log(**columns), alpha=alpha)
    log = tether.Log.scan(
        in_pieces(columns, np.random.default_rng(0)),
        log_safe_all="log_safe_all",
        log_optimized_all="log_optimized_all",
    )
    parts = tether.calibrate(log, alpha=alpha)
    assert memory.log_beta == parts.log_beta == expected
    assert log.passes <= 8


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
    assert parts.stability == pytest.approx(memory.stability, rel=1e-6)
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


class FailsAtTheEnd(tether.Family):
    """Mix up to a large beta, and at an infinite one a policy that never acts as the log does."""

    name, smoothness, normalized = "fails_at_the_end", 1.0, True
    log_kernel = tether.Mix().log_kernel

    def log_density(self, log_safe, log_optimized, log_beta, log_psi):
        if log_beta == np.inf:
            return np.where(np.exp(log_optimized) > 0.5, log_optimized, -np.inf)
        return tether.Mix().log_density(log_safe, log_optimized, log_beta, log_psi)


def test_what_a_family_says_of_an_infinite_beta_is_checked():
    columns = same_rows(0.3) | {"loss": np.array([1.0, *np.zeros(2)])}
    columns = {name: np.repeat(values, 10, axis=0) for name, values in columns.items()}
    columns["log_optimized"] = columns["log_optimized_all"][:, 1]
    columns["log_safe"] = columns["log_safe_all"][:, 1]
    settings = {"alpha": 0.5, "family": FailsAtTheEnd()}
    memory = tether.calibrate(tether.Log(**columns), **settings)
    log = tether.Log.scan(
        in_pieces(columns, np.random.default_rng(0)),
        log_safe_all="log_safe_all",
        log_optimized_all="log_optimized_all",
    )
    assert memory.log_beta == tether.calibrate(log, **settings).log_beta < np.inf
