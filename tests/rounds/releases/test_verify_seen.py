"""A step that claims to have seen losses that came later, or fewer than there were, is found."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import numpy as np
import pytest

import tether
from tests.rounds.forged_stores import link_again
from tether.rounds import verify_store

KEYS = [f"key {k}" for k in range(100)]
COLUMNS = ("calibration", "log_beta", "note", "seen")


def make(path, *, late):
    """A release of two steps; the losses come before the second begins, or after."""
    with tether.Release(path, {"harm": 0.2}, old={"harm": np.zeros(200)}, salt=b"s") as release:
        release.assign(KEYS)
        for act in (
            (release.advance, lambda: release.observe(KEYS, np.zeros(100)))
            if late
            else (lambda: release.observe(KEYS, np.zeros(100)), release.advance)
        ):
            act()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode=DELETE").fetchall()


@pytest.mark.parametrize("late", [True, False])
def test_a_step_that_saw_other_rows_than_there_were_is_found(tmp_path, late):
    """Its share is right for what it claims to have seen, and the hash chain is repaired."""
    forged, other = tmp_path / "forged.db", tmp_path / "other.db"
    make(forged, late=late)
    make(other, late=not late)
    assert verify_store(forged).ok
    with closing(sqlite3.connect(other)) as connection:
        names = ", ".join(COLUMNS)
        step = connection.execute(f"SELECT {names} FROM tether_rounds WHERE number = 2").fetchone()
    with closing(sqlite3.connect(forged)) as connection:
        names = ", ".join(f"{name} = ?" for name in COLUMNS)
        connection.execute(f"UPDATE tether_rounds SET {names} WHERE number = 2", step)
        connection.commit()
    link_again(forged)
    verification = verify_store(forged)
    assert not verification.ok
    assert "step 2 says that it saw the rows up to" in str(verification)
