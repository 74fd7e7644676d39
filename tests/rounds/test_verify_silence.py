"""The count of silence is computed again from the rows."""

from __future__ import annotations

import json
import sqlite3
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

import tether
from tether.rounds import Controller, TamperedError, verify_store

ALPHA = {"a": 0.3, "b": 0.3}
NOW = datetime.now(UTC).isoformat(timespec="seconds")


def controller(path):
    return Controller(
        tether.Gaussian(0.0), store=path, alpha=ALPHA, alarm_risk=0.9, max_silence=900
    )


@pytest.fixture(scope="module")
def quiet(tmp_path_factory):
    """30 actions observed, 20 of which before a resumption; then "a" alone, and silence."""
    path, rng = tmp_path_factory.mktemp("quiet") / "run.db", np.random.default_rng(0)
    with controller(path) as run:
        round_ = run.begin()
        ids = round_.act(20, rng).ids
        run.observe(ids, {"a": np.zeros(20), "b": np.zeros(20)})
        run.halt("a test", actor="Grace")
        round_.act(7, rng)
        run.resume("it is over", actor="Grace")
        ids = round_.act(10, rng).ids
        run.observe(ids, {"a": np.zeros(10)})
        for _ in range(70):
            round_.act(1, rng)
    return path


def forged(quiet, path, value):
    """A copy of the store in which something else is kept of silence; None removes it."""
    source, target = sqlite3.connect(quiet), sqlite3.connect(path)
    source.backup(target)
    target.execute("DELETE FROM tether_kept WHERE name = 'silence'")
    if value is not None:
        text = value if isinstance(value, str) else json.dumps(value)
        target.execute("INSERT INTO tether_kept VALUES ('silence', ?)", [text])
    target.commit()
    source.close()
    target.close()
    return path


def problems(path):
    return [finding.text for finding in verify_store(path).problems]


def test_what_the_monitors_kept_follows_from_the_rows(quiet, tmp_path):
    kept = sqlite3.connect(quiet)
    (text,) = kept.execute("SELECT value FROM tether_kept WHERE name = 'silence'").fetchone()
    kept.close()
    assert [row[:2] for row in json.loads(text)] == [["a", 37], ["b", 27]]
    assert problems(quiet) == []
    assert problems(forged(quiet, tmp_path / "same.db", json.loads(text))) == []


@pytest.mark.parametrize(
    "value",
    [
        None,
        [],
        [["a", 37, NOW]],
        [["a", 37, NOW], ["b", 27, NOW], ["c", 27, NOW]],
        [["a", 37, NOW], ["b", 27, NOW], ["b", 27, NOW]],
        [["a", 37, NOW], ["b", 28, NOW]],
        [["a", 37, NOW], ["b", 26, NOW]],
        [["a", 36, NOW], ["b", 27, NOW]],
        [["a", 107, NOW], ["b", 27, NOW]],
        [["a", 37.0, NOW], ["b", 27, NOW]],
        [["a", True, NOW], ["b", 27, NOW]],
        [["a", 37, NOW], ["b", 27, "9999-01-01T00:00:00+00:00"]],
        [["a", 37, NOW], ["b", 27, "2026-01-01T00:00:00"]],
        [["a", 37, NOW], ["b", 27, None]],
        pytest.param(f'[["a", NaN, "{NOW}"], ["b", 27, "{NOW}"]]', id="not a number"),
        "5",
    ],
)
def test_a_forged_count_is_named(quiet, tmp_path, value):
    assert problems(forged(quiet, tmp_path / "forged.db", value))


def test_silence_is_not_counted_before_the_first_round(tmp_path):
    controller(tmp_path / "new.db").close()
    assert problems(tmp_path / "new.db") == []
    assert problems(forged(tmp_path / "new.db", tmp_path / "forged.db", [["a", 0, NOW]]))


def test_clocks_may_differ_a_little(quiet, tmp_path):
    ahead = (datetime.now(UTC) + timedelta(minutes=5)).isoformat(timespec="seconds")
    assert problems(forged(quiet, tmp_path / "a.db", [["a", 37, ahead], ["b", 27, ahead]])) == []


def test_a_count_that_is_no_number_does_not_end_the_silence(quiet, tmp_path):
    path = forged(quiet, tmp_path / "run.db", f'[["a", NaN, "{NOW}"], ["b", 27, "{NOW}"]]')
    with controller(path) as run, pytest.raises(TamperedError, match="silence"):
        run.begin()
