"""A store with everything in it, and every way to change one value or one row of it."""

from __future__ import annotations

import json
import random
import sqlite3
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tether
from tether.rounds import Controller
from tether.rounds.store import chain, checkpoints, schema
from tether.rounds.store.lanes import CONTROL_LANE

TABLES = [table.name for table in schema.tables.sorted_tables]


UNSTORED = {"number": 1, "spool": 7, "record": 3, "count": 2, "keys": '["a", "b"]'}
UNSTORED |= {"first": "2026-01-01T00:00:00+00:00", "last": "2026-01-01T00:00:01+00:00"}
"""What a release has, and no other run: for the chain they are all the same."""


def make_store(path: Path, key: Path) -> None:
    """Rounds, two losses, alarms, withdrawals, keys, an audit trail, policies, checkpoints, …"""
    rng, settings = np.random.default_rng(0), {"alpha": {"a": 0.3, "b": 1.0}, "max_silence": 500}
    settings |= {"bound": {"a": 1.0, "b": 4.0}, "context_score": lambda x: x[:, 0]}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(checkpoints, "MIN_ROWS", 100)
        with Controller(tether.Gaussian(0.0), store=path, key=key, **settings) as run:
            for number in range(3):
                round_ = run.begin(tether.Gaussian(0.2 * number) if number else None)
                taken = round_.act(rng.normal(size=(50, 1)), rng, key=f"key {number}")
                known = slice(0, 48)
                losses = (taken.actions[known] > 1.5).astype(float)
                run.observe(taken.ids[known], {"a": losses}, rewards=rng.normal(size=48))
                run.observe(taken.ids[known], {"b": np.clip(1 + taken.actions[known], 0, 4) / 2})
                run.withdraw(taken.ids[48:], "never carried out", actor="Ada")
            run.halt("a drill", actor="Ada")
            run.resume("it is over", actor="Bob")
            taken = round_.act(rng.normal(size=(10, 1)), rng)
            run.observe(taken.ids, {"a": np.zeros(10)})
            with run._store.writing(exclusive=True) as writer:
                writer.record(schema.unstored, UNSTORED)
            run.halt("the end", actor="Ada")
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode=DELETE").fetchall()


def without_constraints(path: Path) -> None:
    """Make the tables plain ones, as a forger does whom a constraint hinders."""
    with closing(sqlite3.connect(path)) as connection:
        for name in TABLES:
            columns = ", ".join(
                f'"{row[1]}" {row[2]}' for row in connection.execute(f"PRAGMA table_info({name})")
            )
            connection.execute(f"ALTER TABLE {name} RENAME TO old")
            connection.execute(f"CREATE TABLE {name} ({columns})")
            connection.execute(f"INSERT INTO {name} SELECT * FROM old ORDER BY rowid")
            connection.execute("DROP TABLE old")
        connection.commit()


@dataclass(frozen=True)
class Forgery:
    """One change of one table: of a value, or of a row."""

    table: str
    kind: str
    row: int
    column: str = ""
    other: int = 0
    value: Any = None

    def __str__(self) -> str:
        return f"{self.kind} {self.table}.{self.column} row {self.row} {self.other} {self.value!r}"

    def apply(self, path: Path) -> bool:
        """Change the store; whether anything is another value now."""
        with closing(sqlite3.connect(path)) as connection:
            before = _rows(connection, self.table)
            getattr(self, f"_{self.kind}")(connection)
            connection.commit()
            return not _same(self.table, before, _rows(connection, self.table))

    def _change(self, connection: sqlite3.Connection) -> None:
        statement = f'UPDATE {self.table} SET "{self.column}" = ? WHERE rowid = ?'
        connection.execute(statement, [self.value, self.row])

    def _swap(self, connection: sqlite3.Connection) -> None:
        """Exchange the values of a column between two rows."""
        query = f'SELECT "{self.column}" FROM {self.table} WHERE rowid = ?'
        ours, theirs = (
            connection.execute(query, [row]).fetchone()[0] for row in (self.row, self.other)
        )
        for row, value in ((self.row, theirs), (self.other, ours)):
            statement = f'UPDATE {self.table} SET "{self.column}" = ? WHERE rowid = ?'
            connection.execute(statement, [value, row])

    def _delete(self, connection: sqlite3.Connection) -> None:
        connection.execute(f"DELETE FROM {self.table} WHERE rowid = ?", [self.row])

    def _repeat(self, connection: sqlite3.Connection) -> None:
        """Insert a row once more; with a column, under another value of it."""
        query = f"SELECT * FROM {self.table} WHERE rowid = ?"
        cursor = connection.execute(query, [self.row])
        names = [each[0] for each in cursor.description]
        row = dict(zip(names, cursor.fetchone(), strict=True))
        if self.column:
            row[self.column] = self.value
        marks = ", ".join("?" * len(row))
        connection.execute(f"INSERT INTO {self.table} VALUES ({marks})", list(row.values()))


def forgeries(path: Path, seed: int = 0) -> Iterator[Forgery]:
    """Every column of every table in three rows, changed, swapped, set to NULL; rows likewise."""
    chosen = random.Random(seed)
    with closing(sqlite3.connect(path)) as connection:
        for table in TABLES:
            cursor = connection.execute(f"SELECT rowid, * FROM {table} ORDER BY rowid")
            names = [each[0] for each in cursor.description][1:]
            rows = cursor.fetchall()
            places = sorted({0, len(rows) // 2, len(rows) - 1, chosen.randrange(len(rows))})
            for place in places:
                number, *values = rows[place]
                yield Forgery(table, "delete", number)
                yield Forgery(table, "repeat", number)
                yield Forgery(table, "repeat", number, names[0], value=other_value(values[0], 0))
                for name, value in zip(names, values, strict=True):
                    partner = chosen.choice(rows)[0]
                    yield Forgery(table, "swap", number, name, partner)
                    yield Forgery(table, "change", number, name, value=None)
                    for draw in chosen.sample(range(6), 2):
                        yield Forgery(table, "change", number, name, value=other_value(value, draw))


def other_value(value: Any, draw: int) -> Any:
    """Something else in its place: near, far, or of another type."""
    if isinstance(value, bytes):
        near = bytes([value[0] ^ 1]) + value[1:] if value else b"x"
        return [near, value[:-1], value + b"\0", b"", value.hex(), bytes(len(value))][draw]
    if isinstance(value, str):
        near = value.replace("0", "1", 1) if "0" in value else value + "x"
        return [near, value + " ", value[:-1], "", value.encode(), "null"][draw]
    if isinstance(value, int):
        return [value + 1, -value - 1, value + 0.5, str(value) + "x", 2**62, value - 1][draw]
    if isinstance(value, float):
        return [value + 1e-9, -value, float("inf"), 1e308, "NaN", 0.0][draw]
    return [1, "x", 0.5, b"x", 0, ""][draw]


def link_again(path: Path) -> None:
    """Compute every digest and every head anew from what is there, as a forger without a key."""
    with closing(sqlite3.connect(path)) as connection:
        connection.row_factory = sqlite3.Row
        lanes = [row["lane"] for row in connection.execute("SELECT lane FROM tether_lanes")]
        heads: dict[tuple[int, int], bytes] = {}
        for lane in sorted(
            lanes, key=lambda lane: lane == CONTROL_LANE
        ):  # it has the others' heads
            query = "SELECT rowid, * FROM tether_entries WHERE lane = ? ORDER BY number"
            head = bytes(32)
            for entry in map(dict, connection.execute(query, [lane]).fetchall()):
                entry["digest"] = _digest(connection, entry) or entry["digest"]
                if entry["heads"] is not None:
                    known = json.loads(entry["heads"])
                    new = {
                        each: [number, heads[int(each), number].hex() if number else old]
                        for each, (number, old) in known.items()
                    }
                    entry["heads"] = json.dumps(new)
                head = heads[lane, entry["number"]] = chain.link(head, entry)
                connection.execute(
                    "UPDATE tether_entries SET digest = ?, heads = ?, head = ? WHERE rowid = ?",
                    [entry["digest"], entry["heads"], head, entry["rowid"]],
                )
            connection.execute("UPDATE tether_lanes SET head = ? WHERE lane = ?", [head, lane])
        connection.commit()


def _digest(connection: sqlite3.Connection, entry: dict[str, Any]) -> bytes | None:
    """The digest of what an entry covers, as it is now."""
    kind, start = entry["kind"], max(entry["lane"], 0) << 40
    rows = {
        "actions": (chain.ACTION_COLUMNS, "id"),
        "observations": (chain.OBSERVATION_COLUMNS, "number"),
    }
    if kind in rows:
        columns, key = rows[kind]
        query = f"SELECT * FROM tether_{kind} WHERE {key} BETWEEN ? AND ? ORDER BY {key}"
        found = connection.execute(
            query, [start + entry["first"], start + entry["last"]]
        ).fetchall()
        return chain.digest_rows({name: [row[name] for row in found] for name in columns}, columns)
    if kind == "column":
        query = (
            "SELECT * FROM tether_columns WHERE round = ? AND name = ? AND start = ? AND policy = ?"
        )
        key = [entry[name] for name in ("round", "note", "first", "served")]
        row = connection.execute(query, key).fetchone()
        return row and chain.digest_piece(row["numbers"], row["values"])
    if kind == "checkpoint":
        query = "SELECT * FROM tether_checkpoints WHERE lane = ? AND first = ?"
        row = connection.execute(query, [int(entry["note"]), entry["first"]]).fetchone()
        return row and chain.digest_checkpoint(row["place"], row["content"])
    table = schema.tables.tables[f"tether_{kind}"]
    name = next(iter(table.primary_key)).name
    query = f"SELECT * FROM {table.name} WHERE {name} = ?"
    row = connection.execute(query, [entry["note"] if entry["first"] is None else entry["first"]])
    found = row.fetchone()
    return found and chain.digest_record(dict(found))


def _rows(connection: sqlite3.Connection, table: str) -> list[tuple[Any, ...]]:
    return connection.execute(f"SELECT * FROM {table}").fetchall()


def _same(table: str, before: list[tuple[Any, ...]], after: list[tuple[Any, ...]]) -> bool:
    """Whether two tables mean the same: their order means nothing, nor spaces in kept JSON."""

    def meaning(row: tuple[Any, ...]) -> str:
        if table == "tether_kept":
            with suppress(TypeError, ValueError):
                row = (row[0], json.dumps(json.loads(row[1])))
        return repr(row)

    return sorted(map(meaning, before)) == sorted(map(meaning, after))
