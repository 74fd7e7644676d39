"""What a transaction writes: numbered in its lane, and entered in the hash chain."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
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

ACTIONS, OBSERVATIONS, COLUMN, CHECKPOINT = "actions", "observations", "column", "checkpoint"
"""Kinds of entries; those of the control lane are called as the records that they cover."""


class Writer:
    """A transaction that writes into one lane, and if `exclusive`, records and scores.

    `sign`, if given, makes the signature of a head; every entry of the control lane is signed.
    """

    def __init__(
        self,
        connection: sql.Connection,
        lane: int,
        *,
        exclusive: bool,
        sign: Callable[[bytes], str] | None = None,
    ) -> None:
        self.connection, self.exclusive = connection, exclusive
        self._own_lane, self._sign = lane, sign

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
    ) -> list[int]:
        """Add actions of one round by one policy; returns their ids."""
        lane = self._own_lane if lane is None else lane
        count, reached = len(columns["action"]), read_lane(self.connection, lane)
        first = reached.last_action + 1
        reached.last_action += count
        ids = list(range(first_id(lane) + first, first_id(lane) + first + count))
        missing: dict[str, list[Any]] = {
            name: [None] * count for name in ("candidates", "context_score")
        }
        given = {"id": ids, "round": [number] * count, "served": [served] * count}
        columns = missing | given | columns
        self.connection.execute(schema.actions.insert(), _as_rows(columns))
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
        self._append(reached, [entry])
        return ids

    def observations(self, columns: dict[str, list[Any]]) -> None:
        """Add observations, with the columns action, which, loss, reward and reason."""
        count, reached = len(columns["action"]), read_lane(self.connection, self._own_lane)
        first = reached.last_observation + 1
        reached.last_observation += count
        start = first_id(self._own_lane) + first
        columns = {**columns, "number": list(range(start, start + count))}
        self.connection.execute(schema.observations.insert(), _as_rows(columns))
        entry = {
            "kind": OBSERVATIONS,
            "first": first,
            "last": reached.last_observation,
            "digest": chain.digest_rows(columns, chain.OBSERVATION_COLUMNS),
        }
        self._append(reached, [entry])

    def record(self, table: sql.Table, row: dict[str, Any]) -> None:
        """Add a row to a small table, known by its first column: a number, or text."""
        assert self.exclusive, "a record needs a transaction without any other writer"
        _check_types(table, row)
        self.connection.execute(table.insert().values(**row))
        digest = chain.digest_record({column.name: row.get(column.name) for column in table.c})
        key = row[next(iter(table.primary_key)).name]
        covered = {"note": key} if isinstance(key, str) else {"first": key, "last": key}
        self._append_to_control(record_kind(table), digest, **covered)

    def settings(self, entries: dict[str, str]) -> None:
        """Add settings, by name, as JSON."""
        for name, value in entries.items():
            self.record(schema.settings, {"name": name, "value": value})

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

    def _append_to_control(self, kind: str, digest: bytes, **fields: Any) -> None:
        lanes = read_lanes(self.connection)
        heads = {
            str(each.lane): [each.last_entry, each.head.hex()]
            for each in lanes.values()
            if each.lane != CONTROL_LANE
        }
        entry = {"kind": kind, "digest": digest, "heads": json.dumps(heads), **fields}
        self._append(read_lane(self.connection, CONTROL_LANE), [entry])

    def _append(self, reached: Lane, entries: list[dict[str, Any]]) -> None:
        """Add entries to a lane, and store how far it has come."""
        rows = []
        for entry in entries:
            reached.last_entry += 1
            row = dict.fromkeys(column.name for column in schema.entries.c) | entry
            row |= {"lane": reached.lane, "number": reached.last_entry}
            reached.head = row["head"] = chain.link(reached.head, row)
            if self._sign is not None and reached.lane == CONTROL_LANE:
                row["signature"] = self._sign(reached.head)
            rows.append(row)
        self.connection.execute(schema.entries.insert(), rows)
        write_lane(self.connection, reached)


def record_kind(table: sql.Table) -> str:
    """The kind of the entries that cover rows of a small table."""
    return table.name.removeprefix("tether_")


def _as_rows(columns: dict[str, list[Any]]) -> list[dict[str, Any]]:
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def _check_types(table: sql.Table, row: dict[str, Any]) -> None:
    """Refuse what a database would read back as something else: the digest would not be its."""
    for column in table.c:
        value, kind = row.get(column.name), column.type.python_type
        if value is not None and type(value) is not kind:
            raise TypeError(f"{table.name}.{column.name} must be {kind.__name__}, got {value!r}")
