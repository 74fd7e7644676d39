"""Whatever is changed in a store behind tether's back is found, and named."""

from __future__ import annotations

import shutil
import sqlite3

import numpy as np
import pytest

import tether
from tests.rounds.worker_process import two_rounds
from tests.rounds.worlds import World, one_round
from tether.rounds import Controller, TamperedError
from tether.rounds.store import schema
from tether.rounds.store.database import Store
from tether.rounds.store.verify_run import find_tampering

FORGED = [
    schema.settings,
    schema.rounds,
    schema.actions,
    schema.observations,
    schema.alarms,
    schema.audit,
    schema.columns,
    schema.lanes,
    schema.entries,
]
"""The tables that are forged: all but the state of the monitors, which is recomputed."""


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """A run with everything in it: rounds, rows, alarms, withdrawals, an audit trail."""
    world, rng = World("marginal"), np.random.default_rng(0)
    path = tmp_path_factory.mktemp("store") / "run.db"
    with Controller(world.safe(), alpha=0.3, alarm_risk=0.5, store=path) as run:
        for number in (1, 2, 3):
            round_, _ = one_round(run, world, number, 60, rng)
            taken = round_.act(10, rng, key=f"key {number}")
            run.withdraw(taken.ids, "never carried out", actor="Ada")
        run.halt("a drill", actor="Ada")
        run.resume("it is over", actor="Bob")
        run.halt("another", actor="Ada")
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA journal_mode=DELETE").fetchall()
    connection.close()
    return path


def findings(path):
    opened = Store(path, create=False, check=False)
    try:
        with opened.reading() as connection:
            return list(find_tampering(connection))
    finally:
        opened.close()


def forge(original, tmp_path, *statements):
    """A copy of the store in which somebody changed something."""
    path = tmp_path / "forged.db"
    shutil.copy(original, path)
    connection = sqlite3.connect(path)
    changed = 0
    for statement, *parameters in statements:
        changed += connection.execute(statement, parameters).rowcount
    connection.commit()
    connection.close()
    return path, changed


def rows_of(path, table):
    connection = sqlite3.connect(path)
    rows = connection.execute(f"SELECT rowid, * FROM {table.name} ORDER BY rowid").fetchall()
    connection.close()
    return rows


def other(value):
    """Something else of the same type."""
    if value is None:
        return 1
    if isinstance(value, bytes):
        return bytes([value[0] ^ 1]) + value[1:] if value else b"x"
    if isinstance(value, str):
        return f"{value}x" if value != "5" else "4"
    return value + 10**6 if np.isfinite(value) else 0.5  # not a number that is in use


def test_a_store_that_nobody_touched_is_whole(store):
    assert findings(store) == []
    Store(store, create=False).close()


@pytest.mark.parametrize("table", FORGED, ids=lambda table: table.name)
def test_every_changed_value_is_found(store, table, tmp_path):
    """In the first, a middle and the last row, in every column."""
    rows = rows_of(store, table)
    assert rows
    tried = 0
    for row in {0: rows[0], 1: rows[len(rows) // 2], 2: rows[-1]}.values():
        for column, value in zip(table.c, row[1:], strict=True):
            if (column.name, row[1]) == ("name", "version") or "version" in row[1:3]:
                continue  # another version cannot be opened at all
            path, changed = forge(
                store,
                tmp_path,
                (
                    f'UPDATE {table.name} SET "{column.name}" = ? WHERE rowid = ?',
                    1 - value if column is schema.actions.c.calibration else other(value),
                    row[0],
                ),
            )
            assert changed == 1
            if column.name == "signature":
                continue  # whoever has the key checks it
            assert findings(path), (table.name, column.name, value)
            tried += 1
    assert tried >= 3


@pytest.mark.parametrize("table", FORGED, ids=lambda table: table.name)
def test_every_removed_or_repeated_row_is_found(store, table, tmp_path):
    rows = [row for row in rows_of(store, table) if "version" not in row[1:3]]
    for row in (rows[0], rows[len(rows) // 2], rows[-1]):
        path, changed = forge(
            store, tmp_path, (f"DELETE FROM {table.name} WHERE rowid = ?", row[0])
        )
        assert changed == 1
        assert findings(path), (table.name, row)
        copy = list(row[1:])
        copy[0] = other(copy[0])  # under another key
        if table is schema.columns or table is schema.entries:
            copy[0] = 77
        if table is schema.entries:
            copy[[column.name for column in table.c].index("key")] = None
        if table is schema.observations:
            copy[0], copy[2] = 10**6, 10**6
        if table is not schema.settings and table is not schema.columns:
            copy[0] = 10**6
        marks = ", ".join("?" * len(copy))
        path, changed = forge(
            store, tmp_path, (f"INSERT INTO {table.name} VALUES ({marks})", *copy)
        )
        assert changed == 1
        assert findings(path), (table.name, copy)


@pytest.mark.parametrize(
    "statements",
    [
        [("UPDATE tether_observations SET loss = 0 WHERE loss > 0",)],
        [("UPDATE tether_actions SET calibration = 1 - calibration",)],
        [("DELETE FROM tether_observations WHERE loss > 0.2",)],
        [("UPDATE tether_actions SET id = -id WHERE id = 3",)],
        [
            ("UPDATE tether_actions SET action = (SELECT action FROM tether_actions WHERE id = 1) "
             "WHERE id = 2",),
        ],
        [("DELETE FROM tether_entries WHERE lane = 0 AND number > 3",)],
        [
            ("DELETE FROM tether_observations WHERE number > 5",),
            ("DELETE FROM tether_entries WHERE lane = 0 AND number > 1",),
            ("UPDATE tether_lanes SET last_observation = 0, last_entry = 1, last_action = 60, head "
             "= (SELECT head FROM tether_entries WHERE lane = 0 AND number = 1) WHERE lane = 0",),
        ],
        [("DELETE FROM tether_audit",), ("DELETE FROM tether_alarms",)],
        [
            ("DELETE FROM tether_audit",),
            ("DELETE FROM tether_entries WHERE lane = -1 AND kind = 'audit'",),
        ],
    ],
)  # fmt: skip
def test_forgeries_with_a_purpose_are_found(store, statements, tmp_path):
    path, changed = forge(store, tmp_path, *statements)
    assert changed
    assert findings(path)


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE tether_rounds SET log_beta = 6 WHERE number = 3",
        "UPDATE tether_rounds SET calibration = replace(calibration, 'log_beta', 'log_beta ')",
        "UPDATE tether_settings SET value = replace(value, '0.3', '0.9') WHERE name = 'limits'",
        "DELETE FROM tether_alarms",
        "UPDATE tether_observations SET loss = 0",
    ],
)
def test_opening_a_forged_store_is_refused(store, statement, tmp_path):
    path, _ = forge(store, tmp_path, (statement,))
    with pytest.raises(TamperedError):
        Store(path, create=False)
    with pytest.raises(TamperedError):
        Controller(tether.Gaussian(0.0), alpha=0.3, alarm_risk=0.5, store=path)


def test_rows_are_checked_when_they_are_read(store, tmp_path, monkeypatch):
    """Also those that opening does not look at: no beta rests on a changed row."""
    monkeypatch.setattr("tether.rounds.store.verify_run.ENTRIES_CHECKED_ON_OPENING", 1)
    path, _ = forge(
        store, tmp_path, ("UPDATE tether_observations SET loss = 0.123 WHERE action = 1",)
    )
    world = World("marginal")
    with Controller(world.safe(), alpha=0.3, alarm_risk=0.5, store=path) as run:
        run.history()
        for call in (run.pending, run.training_rows, run.begin):
            with pytest.raises(TamperedError, match="observations 1 to 60 of lane 0"):
                call()


def test_scores_are_checked_when_they_are_read(tmp_path):
    world, rng = World("marginal"), np.random.default_rng(0)
    path = tmp_path / "run.db"
    options = {
        "alpha": 0.3,
        "alarm_risk": 0.9,
        "store": path,
        "policies": lambda _: world.optimized(2),
    }
    with Controller(world.safe(), **options) as run:
        for number in (1, 2, 2):
            one_round(run, world, number, 60, rng)
    connection = sqlite3.connect(path)
    connection.execute(
        'UPDATE tether_columns SET "values" = zeroblob(length("values")) WHERE round = 2'
    )
    connection.commit()
    connection.close()
    with Controller(world.safe(), **options) as run, pytest.raises(TamperedError, match="scores"):
        run.begin(world.optimized(2))


def test_a_store_on_postgresql_is_verified_too(postgres_url):
    from tests.rounds.worker_process import open_run

    with open_run(postgres_url) as run:
        two_rounds(run)
        with run._store.reading() as connection:
            assert list(find_tampering(connection)) == []
        with run._store.writing(exclusive=True) as writer:
            changed = schema.actions.update().where(schema.actions.c.id == 5).values(log_safe=-1.0)
            writer.connection.execute(changed)
        with run._store.reading() as connection:
            assert "actions 1 to 60 of lane 0" in next(find_tampering(connection))
