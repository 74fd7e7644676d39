"""A log from which rows of what the optimized policy does are missing promises nothing useful."""

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

import tether
from tether.control.coverage import optimized_coverage


def decisions(rows, seed=0, floor=0.1):
    """Actions with a propensity of at least `floor`, and a model that takes one action."""
    rng = np.random.default_rng(seed)
    chance = np.where(rng.random(rows) < 0.5, floor, 3 * floor)
    wanted = rng.random(rows) < chance
    propensity = np.where(wanted, chance, 1 - chance)
    loss = (rng.random(rows) < np.where(wanted, 0.05, 0.01)).astype(float)
    return wanted, propensity, loss


def log_of(wanted, propensity, loss, floor=0.1, **stated):
    scores = np.where(wanted, 0.0, -np.inf)
    return tether.Log(loss, np.log(propensity), scores, max_ratio=1 / floor, **stated)


def lost(table, share, seed=1):
    kept = ~table[0] | (np.random.default_rng(seed).random(len(table[0])) > share)
    return tuple(column[kept] for column in table)


def test_a_fifth_of_the_rows_of_an_action_lost_at_random_is_no_useful_promise():
    table = decisions(10_000)
    whole = tether.calibrate(log_of(*table), promise=0.03, family="mix")
    assert whole.useful
    assert whole.covered
    with pytest.warns(tether.AssumptionWarning, match="of what the optimized policy does"):
        found = tether.calibrate(log_of(*lost(table, 0.2)), promise=0.03, family="mix")
    assert found.exists
    assert not found.covered
    assert not found.useful
    assert 0.7 < found.coverage < 0.9
    assert found.coverage < found.coverage_limit < 0.99
    loaded = tether.Calibration.from_dict(found.to_dict())
    assert not loaded.useful
    assert loaded.warnings == found.warnings


def test_the_same_with_tables_where_only_a_part_is_possible():
    """In half of the contexts the safe policy never does what the optimized policy does."""
    rng = np.random.default_rng(0)
    rows = 4000
    possible = rng.random(rows) < 0.5
    safe = np.where(possible[:, None], [0.2, 0.8], [0.0, 1.0])
    wanted = rng.random(rows) < safe[:, 0]
    kept = ~wanted | (rng.random(rows) > 0.4)
    with np.errstate(divide="ignore"):
        tables = np.log(safe), np.log(np.tile([1.0, 0.0], (rows, 1)))
    action = np.where(wanted, 0, 1)
    for chosen, missing in ((slice(None), False), (kept, True)):
        picked = action[chosen]
        safe_all, optimized_all = (table[chosen] for table in tables)
        at = np.arange(len(picked)), picked
        log = tether.Log(
            np.zeros(len(picked)), safe_all[at], optimized_all[at],
            log_safe_all=safe_all, log_optimized_all=optimized_all,
        )  # fmt: skip
        assert (optimized_coverage(log) is not None) == missing


@pytest.mark.parametrize("floor", [0.001, 0.1])
@pytest.mark.parametrize("rows", [30, 300, 3000])
def test_honest_logs_with_heavy_ratios_are_covered(rows, floor):
    for seed in range(60):
        assert optimized_coverage(log_of(*decisions(rows, seed, floor), floor)) is None


def test_a_scan_is_checked_by_the_variance(tmp_path):
    table = lost(decisions(20_000), 0.3)
    columns = {"loss": table[2], "log_safe": np.log(table[1])}
    columns["log_optimized"] = np.where(table[0], 0.0, -np.inf)
    parquet.write_table(pa.table(columns), tmp_path / "log.parquet")
    log = tether.Log.scan(tmp_path / "log.parquet", context=None, max_ratio=10.0)
    found = tether.calibrate(log, promise=0.03, family="mix")
    assert found.exists
    assert not found.useful
    assert "of what the optimized policy does (by chance at most" in found.warnings[0]
