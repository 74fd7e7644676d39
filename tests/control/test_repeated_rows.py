"""Rows that are in a log twice are told; rows that are equal by chance are not."""

import re
import warnings

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

import tether
from tether._core import counted_rows
from tether._core.frame_contexts import UNSTATED
from tether.control.refuted_log import REFUTED_WORDS
from tether.control.repeated_rows import (
    hash_rows,
    implausible_copies,
    repeated_lines_warning,
)


def continuous(rows=300, seed=0):
    rng = np.random.default_rng(seed)
    action = rng.normal(size=rows)
    return {
        "loss": (action > 1.5).astype(float),
        "log_safe": -(action**2) / 2 - 1,
        "log_optimized": -((action - 1) ** 2) / 2 - 1,
        "context": np.arange(rows),
    }


def discrete(rows=2000, seed=0, contexts=40):
    rng = np.random.default_rng(seed)
    context, action = rng.integers(contexts, size=rows), rng.integers(3, size=rows)
    optimized = np.random.default_rng(1).dirichlet(np.ones(3), size=contexts)
    return {
        "loss": (rng.random(rows) < 0.2).astype(float),
        "log_safe": np.full(rows, -np.log(3)),
        "log_optimized": np.log(optimized[context, action]),
        "context": context,
    }


def with_copies(columns, rows):
    return {name: np.concatenate([column, column[rows]]) for name, column in columns.items()}


def messages(columns, context="context"):
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        tether.Log.from_frame(columns, context=context)
    return [str(each.message) for each in told]


@pytest.mark.parametrize("context", ["context", None])
def test_a_log_joined_to_itself_is_told_with_the_rows_that_are_copies(context):
    columns = continuous()
    assert messages(columns, context) == []
    (message,) = messages(with_copies(columns, slice(None)), context)
    assert message.startswith(f"{REFUTED_WORDS}: 600 of 600 rows are in the log more than once")
    assert "(rows 300 to 599 equal rows 0 to 299)" in message


def test_files_that_overlap_are_told():
    columns = with_copies(continuous(2000), slice(0, 400))
    (message,) = messages(columns)
    assert message.startswith("800 of 2,400 rows")
    assert "(rows 2000 to 2399 equal rows 0 to 399)" in message


def test_make_log_tells_them():
    rng = np.random.default_rng(0)
    safe, optimized = tether.Gaussian(0.0), tether.Gaussian(1.0)
    actions = np.tile(safe.sample(200, rng), 2)
    with pytest.warns(
        tether.AssumptionWarning, match="rows 200 to 399 equal rows 0 to 199"
    ) as told:
        tether.make_log(safe, optimized, None, actions, actions > 1.5)
    assert told[0].filename == __file__


@pytest.mark.parametrize("seed", range(10))
def test_rows_that_are_equal_by_chance_are_not_named_as_copies(seed):
    """Among 300 rows of 500 pairs of scores and two losses, some are equal before any copy."""
    rng = np.random.default_rng(seed)
    value = rng.integers(500, size=300)
    columns = {
        "loss": value % 7 == 0,
        "log_safe": -2.0 - value / 100,
        "log_optimized": -3.0 + 0 * value,
    }
    assert messages(columns, None) == []
    assert len(np.unique(value)) < 260
    (message,) = messages(with_copies(columns, slice(0, 300)), None)
    first, last = re.search(r"rows (\d+) to (\d+) equal rows", message).groups()
    assert 300 <= int(first) < int(last), "a block that was copied"
    shuffled = rng.permutation(600)
    scattered = {name: each[shuffled] for name, each in with_copies(columns, slice(None)).items()}
    (message,) = messages(scattered, None)
    assert "log-probabilities, far more than by chance" in message, "no pair is named"


def test_a_calibration_says_what_was_wrong_with_its_log_also_once_saved(tmp_path):
    columns = with_copies(continuous(), slice(None))
    with pytest.warns(tether.AssumptionWarning):
        log = tether.Log.from_frame(columns, context=None)
    (message,) = log.warnings
    assert message in " ".join(log.summary().replace("!", "").split())
    found = tether.calibrate(log, alpha=0.2)
    assert message in found.warnings
    assert "rows 300 to 599 equal" in found._repr_html_()
    found.save(tmp_path / "found.json")
    loaded = tether.Calibration.load(tmp_path / "found.json")
    assert message in loaded.warnings
    assert message in " ".join(loaded.summary().replace("!", "").split())
    assert loaded.refuted_by == found.refuted_by == (message,)
    assert not loaded.useful


def test_a_scan_of_which_most_rows_are_copies_is_refuted(tmp_path):
    columns = with_copies(continuous(), slice(None))
    parquet.write_table(pa.table(columns), tmp_path / "log.parquet")
    found = tether.calibrate(tether.Log.scan(tmp_path / "log.parquet", context=None), alpha=0.2)
    assert found.exists
    assert found.refuted_by == found.log_warnings
    assert found.refuted_by[0].startswith(f"{REFUTED_WORDS}: 600 of 600 rows")
    assert not found.useful


@pytest.mark.parametrize("seed", range(10))
def test_few_contexts_and_actions_are_equal_by_chance(seed):
    assert messages(discrete(seed=seed)) == []
    assert messages(discrete(seed=seed, contexts=1500)) == []


def test_contexts_that_come_back_by_design_are_not_told():
    one, two = discrete(600, seed=2, contexts=1000), discrete(600, seed=3, contexts=1000)
    for each in (one, two):
        each["context"] = np.arange(600)
        each["log_optimized"] = -1 - np.arange(600) / 1e3
    both = {name: np.concatenate([one[name], two[name]]) for name in one}
    assert implausible_copies(np.unique(both["log_optimized"], return_counts=True)[1])
    assert messages(both) == []


def values(seed):
    """Independent values of several distributions, with ties."""
    rng = np.random.default_rng(seed)
    for rows in (30, 300, 3000):
        yield rng.integers(0, rng.integers(1, 5 * rows), rows)
        yield rng.zipf(1.2, rows)
        yield rng.geometric(0.01, rows)
        yield np.where(rng.random(rows) < 0.1, 1.0, rng.random(rows))
        yield rng.normal(size=rows).round(2)


def test_independent_values_of_any_distribution_are_never_called_copies_and_copies_are():
    for seed in range(60):
        for value in values(seed):
            assert not implausible_copies(np.unique(value, return_counts=True)[1])
    for value in (np.random.default_rng(0).random(100), np.arange(60)):
        for copies in (2, 3, 5):
            assert implausible_copies(np.full(len(value), copies))


@pytest.fixture
def folder(tmp_path):
    """Files of rows, of which one is there twice under another name."""
    columns = continuous(3000)
    parts = (slice(0, 2000), slice(2000, 3000), slice(0, 1000))
    for number, rows in enumerate(parts):
        table = pa.table({name: column[rows] for name, column in columns.items()})
        parquet.write_table(table, tmp_path / f"{number}.parquet", row_group_size=500)
    return tmp_path


def test_a_scan_of_files_that_overlap_says_so_in_its_calibration(folder):
    found = tether.calibrate(tether.Log.scan(folder, context=None), alpha=0.2)
    (message,) = (each for each in found.warnings if "more than once" in each)
    assert message.startswith("2,000 of 4,000 rows are in the log more than once")
    (folder / "2.parquet").unlink()
    found = tether.calibrate(tether.Log.scan(folder, context=None), alpha=0.2)
    assert not any("more than once" in each for each in found.warnings)


def test_copies_in_a_scan_are_counted_in_a_sample_of_the_rows(folder, monkeypatch):
    monkeypatch.setattr(counted_rows, "KEPT_ROWS", 1000)
    found = tether.calibrate(tether.Log.scan(folder, context=None), alpha=0.2)
    (message,) = (each for each in found.warnings if "more than once" in each)
    about = re.match(r"about ([\d,]+) of 4,000 rows", message)
    assert 1800 < int(about.group(1).replace(",", "")) < 2200


def listed_rows(tables, seed=0, actions=4, draws=False):
    """Rows with a table each, or with the draws of the policies in place of it."""
    rng = np.random.default_rng(seed)
    rows, action = np.arange(len(tables)), rng.integers(actions, size=len(tables))
    safe, optimized = np.full(tables.shape, -np.log(actions)), np.log(tables)
    columns = {
        "loss": (rng.random(len(tables)) < 0.1).astype(float),
        "log_safe": safe[rows, action],
        "log_optimized": optimized[rows, action],
    }
    for name, table in (("safe", safe), ("optimized", optimized)):
        columns |= {f"log_{name}_all_{k}": table[:, k] for k in range(actions)}
        if draws:
            columns |= {f"{name}_{k}": list(optimized[:, ::-1] + k - 3) for k in range(2)}
    if draws:
        columns = {name: values for name, values in columns.items() if "_all_" not in name}
    return columns


def told(folder, *parts, draws=False):
    """What a scan of the parts says of copies."""
    for number, columns in enumerate(parts):
        columns = {name: list(values) for name, values in columns.items()}
        parquet.write_table(pa.table(columns), folder / f"{number}.parquet")
    settings = {}
    if draws:
        settings = {f"{name}_draws": (f"{name}_0", f"{name}_1") for name in ("safe", "optimized")}
    log = tether.Log.scan(folder, context=None if draws else UNSTATED, **settings)
    family = {"family": "budgeted_clip(4)"} if draws else {}
    found = tether.calibrate(log, alpha=0.3, **family)
    return [each for each in found.warnings if "more than once" in each]


@pytest.mark.parametrize("draws", [False, True])
def test_files_of_tables_or_draws_that_overlap_are_told(tmp_path, draws):
    tables = np.random.default_rng(1).dirichlet(np.ones(4), size=400)
    columns = listed_rows(tables, draws=draws)
    assert told(tmp_path, columns, draws=draws) == []
    again = {name: values[:200] for name, values in columns.items()}
    (message,) = told(tmp_path, columns, again, draws=draws)
    assert message.startswith("400 of 600 rows are in the log more than once, with the same losses")


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("kind", ["by design", "few", "many", "fresh"])
def test_contexts_of_a_scan_may_come_back(tmp_path, seed, kind):
    rng = np.random.default_rng(seed)
    pool = rng.dirichlet(np.ones(4), size={"few": 5, "many": 2000}.get(kind, 400))
    rows = {"by design": np.repeat(np.arange(400), 2), "fresh": np.arange(400)}
    which = rows.get(kind, rng.integers(len(pool), size=1500))
    assert told(tmp_path, listed_rows(pool[which], seed)) == []


def test_copies_in_a_scan_of_tables_are_counted_in_a_sample_of_the_contexts(tmp_path, monkeypatch):
    monkeypatch.setattr(counted_rows, "KEPT_ROWS", 300)
    columns = listed_rows(np.random.default_rng(1).dirichlet(np.ones(4), size=1500))
    again = {name: values[:500] for name, values in columns.items()}
    (message,) = told(tmp_path, columns, again)
    about = re.match(r"about ([\d,]+) of 2,000 rows", message)
    assert 700 < int(about.group(1).replace(",", "")) < 1300


def file_columns(table):
    return [hash_rows([np.asarray(column, dtype=np.float64)]) for column in table]


def test_a_key_of_a_file_that_comes_back_with_nothing_but_copies_is_told():
    rng = np.random.default_rng(0)
    table = [np.arange(5000), rng.integers(3, size=5000), rng.random(5000) < 0.03]
    assert repeated_lines_warning(file_columns(table)) is None
    rows = rng.permutation(5000)[:300]
    with_some = [np.concatenate([column, column[rows]]) for column in table]
    message = repeated_lines_warning(file_columns(with_some))
    assert message.startswith("600 of 5,300 rows are in the log more than once, with the same valu")
    renumbered = [np.arange(5300), *with_some[1:]]
    assert repeated_lines_warning(file_columns(renumbered)) is None


@pytest.mark.parametrize("seed", range(10))
def test_keys_that_come_back_with_other_rows_too_are_not_told(seed):
    rng = np.random.default_rng(seed)
    for user in (np.tile(np.arange(1000), 2), rng.integers(5, size=2000), rng.zipf(1.3, 2000)):
        action = rng.choice(3, size=2000, p=[0.9, 0.05, 0.05])
        assert repeated_lines_warning(file_columns([user, action, rng.random(2000) < 0.05])) is None
