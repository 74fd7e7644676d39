"""A log in parts lacks what the optimized policy does where the same log in memory does."""

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tether
from tests.control.parts.worlds import in_pieces, table_columns

TABLES = {"log_safe_all": "log_safe_all", "log_optimized_all": "log_optimized_all"}


def lost_rows(rng, rows, share):
    """Rows with tables, of which a share is lost where the optimized policy likes the action."""
    columns = table_columns(rng, rows, 3)
    liked = columns["log_optimized"] - columns["log_safe"] > 0.3
    kept = ~(liked & (rng.random(rows) < share))
    return {name: values[kept] for name, values in columns.items()}


def assert_equal_coverage(found, memory):
    """The same is said of the coverage, up to rounding."""
    assert found.covered_policy == memory.covered_policy
    assert (found.covered, found.useful) == (memory.covered, memory.useful)
    assert found.coverage == pytest.approx(memory.coverage, rel=1e-9)
    assert found.coverage_limit == pytest.approx(memory.coverage_limit, rel=1e-9)
    assert found.warnings == memory.warnings


def test_tables_tell_that_rows_are_missing():
    rng = np.random.default_rng(0)
    columns = lost_rows(rng, 3000, 0.6)
    with pytest.warns(tether.AssumptionWarning, match="rows are missing"):
        memory = tether.calibrate(tether.Log(**columns), alpha=0.4)
    log = tether.Log.scan(in_pieces(columns, rng), **TABLES)
    found = tether.calibrate(log, alpha=0.4)
    assert memory.exists
    assert not found.useful
    assert_equal_coverage(found, memory)


def test_a_stated_largest_ratio_tells_that_rows_are_missing():
    rng = np.random.default_rng(1)
    columns = lost_rows(rng, 5000, 0.8)
    stated = {"max_ratio": float(np.exp(columns["log_optimized"] - columns["log_safe"]).max())}
    plain = {name: columns[name] for name in ("loss", "log_safe", "log_optimized")}
    with pytest.warns(tether.AssumptionWarning, match="rows are missing"):
        memory = tether.calibrate(tether.Log(**plain, **stated), alpha=0.4, family="mix")
    log = tether.Log.scan(in_pieces(plain, rng), context=None, **stated)
    found = tether.calibrate(log, alpha=0.4, family="mix")
    assert not found.useful
    assert_equal_coverage(found, memory)


def test_the_policy_that_acted_tells_that_rows_of_a_mixture_are_missing():
    rng = np.random.default_rng(2)
    columns = lost_rows(rng, 5000, 0.9)
    ratio = columns["log_optimized"] - columns["log_safe"]
    safe, limit = columns["log_safe"], np.zeros(len(ratio))
    stated = {"max_ratio": float(np.exp(ratio).max()), "safe_share": 0.9}
    plain = {name: columns[name] for name in ("loss", "log_safe", "log_optimized")}
    plain["log_mix"] = np.logaddexp(np.log(0.9) + safe, np.log(0.1) + columns["log_optimized"])
    acting = tether.control.Acting(safe, log_base_limit=limit)
    with pytest.warns(tether.AssumptionWarning, match="rows are missing"):
        memory = tether.calibrate(
            tether.Log(**plain, acting=acting, **stated), alpha=0.4, family="mix"
        )
    named = {"log_mix": "log_mix", "log_logged": "log_logged", "log_base_limit": "limit"}
    rows = {**plain, "log_logged": safe, "limit": limit}
    log = tether.Log.scan(in_pieces(rows, rng), context=None, **named, **stated)
    found = tether.calibrate(log, alpha=0.4, family="mix")
    assert not found.useful
    assert_equal_coverage(found, memory)


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from([20, 200, 800]), st.sampled_from([0.0, 0.5, 1.0]))
def test_coverage_is_that_of_memory(seed, rows, lost):
    rng = np.random.default_rng(seed)
    columns = lost_rows(rng, rows, lost)
    log = tether.Log.scan(in_pieces(columns, rng), **TABLES)
    found = tether.calibrate(log, alpha=0.6, test_weight="analytic")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tether.AssumptionWarning)
        memory = tether.calibrate(tether.Log(**columns), alpha=0.6, test_weight="analytic")
    assert (found.covered, found.covered_policy) == (memory.covered, memory.covered_policy)
    if memory.coverage is not None:
        assert found.coverage_limit == pytest.approx(memory.coverage_limit, rel=1e-9)
