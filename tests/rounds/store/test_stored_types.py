"""A value of another type than its column's is named, whatever its digest is."""

import shutil
import sqlite3

import pytest

from tests.rounds.store.exported_runs import make_run
from tests.rounds.worlds import World
from tether.rounds import verify_store
from tether.rounds.store import schema


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    path = tmp_path_factory.mktemp("types") / "run.db"
    make_run(World("in contexts"), path, rounds=2, rows=30)
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA journal_mode=DELETE").fetchall()
    connection.close()
    return path


def forge(original, tmp_path, statement):
    path = tmp_path / "forged.db"
    shutil.copy(original, path)
    connection = sqlite3.connect(path)
    assert connection.execute(statement).rowcount > 0
    connection.commit()
    connection.close()
    return path


@pytest.mark.parametrize(
    ("table", "column", "value"),
    [
        ("actions", "round", "round + 0.5"),
        ("actions", "served", "served + 0.5"),
        ("actions", "served", "CAST(served AS BLOB)"),
        ("actions", "calibration", "calibration + 0.25"),
        ("actions", "log_safe", "CAST(log_safe AS BLOB)"),
        ("actions", "context", "CAST(context AS TEXT)"),
        ("observations", "number", "number + 0.25"),
        ("observations", "loss", "CAST(loss AS BLOB)"),
        ("policies", "content", "lower(hex(content))"),
        ("lanes", "last_action", "last_action + 0.5"),
        ("kept", "value", "CAST(value AS BLOB)"),
    ],
)
def test_a_value_of_another_type_is_named(original, tmp_path, table, column, value):
    name = f"tether_{table}.{column}"
    path = forge(original, tmp_path, f"UPDATE tether_{table} SET {column} = {value}")
    texts = [finding.text for finding in verify_store(path).problems]
    assert any(text.startswith(f"{name} is not of type ") for text in texts), texts


def test_every_column_has_a_type_and_a_good_store_has_no_findings(original):
    assert verify_store(original).ok
    assert len(schema.tables.sorted_tables) >= 11
