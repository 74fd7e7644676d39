"""What a transaction writes: numbered in its lane, and entered in the hash chain."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import sqlalchemy as sql

from tether.rounds.store import chain, schema
from tether.rounds.store.lanes import (
    CONTROL_LANE,
    SCORES_LANE,
    Lane,
    first_id,
    read_lane,
    read_lanes,
    write_lane,
)
from tether.rounds.store.row_inserts import insert_with_entry
from tether.rounds.store.serving import Serving

ACTIONS, OBSERVATIONS, COLUMN, CHECKPOINT = "actions", "observations", "column", "checkpoint"
"""Kinds of entries; those of the control lane are called as the records that they cover."""


class Writer:
    """A transaction that writes into one lane, and if `exclusive`, records and scores.

    `serving` and `lanes` are as the transaction found them, apart from its own lane. Who serves
    does not change while others write, and a lane only grows.
    `sign`, if given, makes the signature of a head; every entry of the control lane is signed.
    """

    def __init__(
        self,
        connection: sql.Connection,
        *,
        serving: Serving,
        lanes: dict[int, Lane],
        own_lane: int,
        exclusive: bool,
        sign: Callable[[bytes], str] | None = None,
    ) -> None:
        self.connection, self.exclusive = connection, exclusive
        self.serving, self.lanes = serving, lanes
        self._own_lane, self._sign = own_lane, sign

    @contextmanager
    def savepoint(self) -> Iterator[None]:
        """A part of the transaction: all of it is kept, or nothing."""
        before = replace(self._reached())
        try:
            with self.connection.begin_nested():
                yield
        except BaseException:
            self.lanes[self._own_lane] = before
            raise

    def actions(
        self,
        columns: dict[str, list[Any]],
        *,
        number: int,
        served: int,
        key: str | None = None,
        attempt: str | None = None,
        failure: str = "",
        lane: int | None = None,
        through_driver: bool = False,
    ) -> list[int]:
        """Add actions of one round; returns their ids.

        `through_driver`: the values are such as the driver takes and returns as they are.
        """
        reached = self._reached() if lane is None else read_lane(self.connection, lane)
        count, first = len(columns["action"]), reached.last_action + 1
        reached.last_action += count
        start = first_id(reached.lane) + first
        ids = list(range(start, start + count))
        missing: dict[str, list[Any]] = {
            name: [None] * count for name in ("candidates", "context_score")
        }
        given = {"id": ids, "round": [number] * count, "served": [served] * count}
        columns = missing | given | columns
        entry = {
            "kind": ACTIONS,
            "first": first,
            "last": reached.last_action,
            "round": number,
            "served": served,
            "calibration": sum(columns["calibration"]),
            "key": key,
            "attempt": attempt,
            "note": failure or None,
            "digest": chain.digest_rows(columns, chain.ACTION_COLUMNS),
        }
        linked = self._linked(reached, entry)
        insert_with_entry(
            self.connection,
            schema.actions,
            columns,
            linked,
            reached,
            through_driver=through_driver,
        )
        return ids

    def observations(self, columns: dict[str, list[Any]]) -> None:
        """Add observations, with the columns action, which, loss, reward and reason."""
        count, reached = len(columns["action"]), self._reached()
        first = reached.last_observation + 1
        reached.last_observation += count
        start = first_id(reached.lane) + first
        columns = {**columns, "number": list(range(start, start + count))}
        entry = {
            "kind": OBSERVATIONS,
            "first": first,
            "last": reached.last_observation,
            "digest": chain.digest_rows(columns, chain.OBSERVATION_COLUMNS),
        }
        linked = self._linked(reached, entry)
        insert_with_entry(self.connection, schema.observations, columns, linked, reached)

    def record(self, table: sql.Table, row: dict[str, Any]) -> None:
        """Add a row to a small table, known by its first column: a number, or text."""
        self.records(table, [row])

    def records(self, table: sql.Table, rows: list[dict[str, Any]]) -> None:
        """Add rows to a small table, all with the same columns; each has an entry of its own."""
        assert self.exclusive, "a record needs a transaction without any other writer"
        if not rows:
            return
        for row in rows:
            _check_types(table, row)
        self.connection.execute(table.insert(), rows)
        lanes = read_lanes(self.connection)
        control = lanes.pop(CONTROL_LANE, Lane(CONTROL_LANE))
        heads = {str(each.lane): [each.last_entry, each.head.hex()] for each in lanes.values()}
        common = {"kind": record_kind(table), "heads": json.dumps(heads)}
        self._append(control, [common | _covered(table, row) for row in rows])

    def settings(self, entries: dict[str, str]) -> None:
        """Add settings, by name, as JSON."""
        self.records(
            schema.settings, [{"name": name, "value": value} for name, value in entries.items()]
        )

    def score_pieces(self, pieces: Iterable[dict[str, Any]]) -> None:
        """Add pieces of scores, as `score_pieces.piece_rows` makes them."""
        assert self.exclusive, "scores need a transaction without any other writer"
        rows = list(pieces)
        if not rows:
            return
        self.connection.execute(schema.columns.insert(), rows)
        entries = [
            {
                "kind": COLUMN,
                "round": row["round"],
                "served": row["policy"],
                "note": row["name"],
                "first": row["start"],
                "last": row["start"] + row["count"] - 1,
                "digest": chain.digest_piece(row["numbers"], row["values"]),
            }
            for row in rows
        ]
        self._append(read_lane(self.connection, SCORES_LANE), entries)

    def checkpoint(self, row: dict[str, Any]) -> None:
        """Add a checkpoint, as `checkpoints.make_checkpoints` makes it."""
        assert self.exclusive, "a checkpoint needs a transaction without any other writer"
        self.connection.execute(schema.checkpoints.insert().values(**row))
        entry = {
            "kind": CHECKPOINT,
            "note": str(row["lane"]),
            "first": row["first"],
            "last": row["last"],
            "digest": chain.digest_checkpoint(row["place"], row["content"]),
        }
        self._append(read_lane(self.connection, SCORES_LANE), [entry])

    def _reached(self) -> Lane:
        """How far the own lane has come; a new one has nothing yet."""
        return self.lanes.setdefault(self._own_lane, Lane(self._own_lane))

    def _append(self, reached: Lane, entries: list[dict[str, Any]]) -> None:
        """Add entries to a lane, and store how far it has come."""
        rows = [self._linked(reached, entry) for entry in entries]
        self.connection.execute(schema.entries.insert(), rows)
        write_lane(self.connection, reached)

    def _linked(self, reached: Lane, entry: dict[str, Any]) -> dict[str, Any]:
        """An entry as it is stored, with the head to which it takes its lane."""
        reached.last_entry += 1
        row = dict.fromkeys(column.name for column in schema.entries.c) | entry
        row |= {"lane": reached.lane, "number": reached.last_entry}
        reached.head = row["head"] = chain.link(reached.head, row)
        if self._sign is not None and reached.lane == CONTROL_LANE:
            row["signature"] = self._sign(reached.head)
        return row


def record_kind(table: sql.Table) -> str:
    """The kind of the entries that cover rows of a small table."""
    return table.name.removeprefix("tether_")


def _covered(table: sql.Table, row: dict[str, Any]) -> dict[str, Any]:
    """What the entry of a record says of it: its key and its digest."""
    digest = chain.digest_record({column.name: row.get(column.name) for column in table.c})
    key = row[next(iter(table.primary_key)).name]
    covered = {"note": key} if isinstance(key, str) else {"first": key, "last": key}
    return {"digest": digest, **covered}


def _check_types(table: sql.Table, row: dict[str, Any]) -> None:
    """Refuse what a database would read back as something else: the digest would not be its."""
    for column in table.c:
        value, kind = row.get(column.name), column.type.python_type
        if value is not None and type(value) is not kind:
            raise TypeError(f"{table.name}.{column.name} must be {kind.__name__}, got {value!r}")
