"""Losses that are in a log several times."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tether
from tests.cli.command_line import one_line, run
from tether.rounds.releases import repeated_losses as repeats
from tether.rounds.releases.repeated_losses import repeated_losses

ONCE = (np.random.default_rng(1).random(2000) < 0.012).astype(float)


@pytest.mark.parametrize("repeat", [np.tile, np.repeat])
@pytest.mark.parametrize("times", [2, 10])
def test_a_log_that_is_there_several_times_is_warned_of(repeat, times):
    assert repeated_losses(repeat(ONCE, times)) == (2000, times)
    with pytest.warns(
        tether.AssumptionWarning, match=f"rows are 2,000 rows {times} times: leave the repeats"
    ):
        tether.Release("sqlite://", {"failed": 0.03}, old={"failed": repeat(ONCE, times)}).close()


def test_missing_losses_are_equal_to_each_other():
    some = np.where(np.arange(2000) % 7 == 0, np.nan, ONCE)
    assert repeated_losses(np.tile(some, 3)) == (2000, 3)


@pytest.mark.parametrize(
    "losses",
    [
        np.zeros(5000),
        np.ones(12),
        ONCE,
        np.array([0.0, 1.0] * 3),
        np.array([0.0]),
        np.array([]),
        np.repeat([0.0, 1.0], [1980, 20]),
        np.repeat([0.0, np.nan], [1990, 10]),
        np.tile(np.repeat([0.0, 1.0], [99, 1]), 10),
        np.append(np.tile(ONCE, 2), 0.0),
    ],
)
def test_what_may_be_chance_is_not(losses):
    assert repeated_losses(losses) is None


def test_short_logs_are_hardly_ever_refused_by_chance():
    generator = np.random.default_rng(2)
    found = [repeated_losses((generator.random(12) < 0.5) * 1.0) for _ in range(5000)]
    assert not any(found)


def by_definition(losses):
    """Every division of a column into equal parts, block after block and row by row."""
    count = len(losses)
    for rows in (each for each in range(1, count) if count % each == 0):
        times = count // rows
        for parts in (losses.reshape(times, rows), losses.reshape(rows, times).T):
            once = parts[0]
            if not all(np.array_equal(part, once, equal_nan=True) for part in parts):
                continue
            certain = (times - 1) * repeats._log_arrangements(once) > repeats.LOG_ARRANGEMENTS
            if certain and repeats._changes(once) >= repeats.LEAST_CHANGES:
                return rows, times
    return None


@given(
    once=st.lists(st.sampled_from([0.0, 1.0, 0.5, np.nan]), min_size=1, max_size=24),
    tiled=st.integers(1, 4),
    repeated=st.integers(1, 4),
)
def test_what_is_found_is_what_the_definition_says(once, tiled, repeated):
    losses = np.repeat(np.tile(once, tiled), repeated)
    assert repeated_losses(losses) == by_definition(losses)


def test_a_long_log_is_compared_with_few_of_its_own_rows(monkeypatch):
    """55,440 has 120 divisors; millions of losses would take minutes if all were compared."""
    compared, equal = [], np.array_equal
    monkeypatch.setattr(
        np, "array_equal", lambda a, b, **o: (compared.append(np.size(a)), equal(a, b, **o))[1]
    )
    losses = (np.random.default_rng(3).random(55_440) < 0.01).astype(float)
    assert repeated_losses(losses) is None
    assert sum(compared) < 60 * len(losses)


@pytest.mark.filterwarnings("default::tether.AssumptionWarning")
def test_the_command_line_warns_in_one_line(tmp_path):
    log = tmp_path / "old.csv"
    log.write_text("\n".join(["failed", *map(str, np.tile(ONCE, 10)), ""]))
    done = run("release", "start", tmp_path / "r.db", "--guardrail", "failed=0.03", "--old", log)
    assert done.exit_code == 0
    assert "warning: old['failed'] must have one loss for each key" in one_line(done)
    assert ".py:" not in done.output
