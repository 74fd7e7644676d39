"""Filling the tables of an empty store with the rows of an exported run.

What is added must be what its lanes announce, number by number, so that a file with rows that
belong to no run is refused at the first of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import sqlalchemy as sql

from tether.rounds.store import schema
from tether.rounds.store.arrow_content import from_arrow
from tether.rounds.store.checked_records import check_value, record_from_json
from tether.rounds.store.checkpoints import restore_checkpoints
from tether.rounds.store.codecs import RowCodecs
from tether.rounds.store.export_format import (
    ACTION,
    ACTION_TYPES,
    CONTENT_COLUMNS,
    ENTRY,
    LANE,
    OBSERVATION,
    POLICY,
    RECORDS,
    SCORES,
    SETTING,
    digest_heads,
)
from tether.rounds.store.export_reader import ExportFile
from tether.rounds.store.lanes import CONTROL_LANE, LANE_BITS, LANE_LIMIT, SCORES_LANE, first_id
from tether.rounds.store.queries import read_settings

ROWS_PER_INSERT = 2_048
MAX_IMPORTED_LANES = 2**17
MAX_IMPORTED_POLICY_BYTES = 2**30
"""How many lanes a run may have, and how large a policy may be."""

Rows = list[dict[str, Any]]


class StoreFiller:
    """Adds the row groups of a file to a store, in order."""

    def __init__(self, connection: sql.Connection, file: ExportFile) -> None:
        self._connection, self._file = connection, file
        self._lanes: dict[int, dict[str, Any]] = {}
        self._added: Counter[tuple[str, int]] = Counter()
        self._codecs: RowCodecs | None = None
        self._are_types_checked = False
        self._policy: tuple[dict[str, Any], list[bytes]] | None = None

    def fill(self) -> None:
        """Add everything; an error leaves the transaction to be rolled back."""
        add: dict[str, Callable[[pa.Table], None]] = dict.fromkeys(RECORDS, self._add_records)
        add |= {LANE: self._add_lanes, POLICY: self._add_policies}
        add |= {ENTRY: self._add_entries, SCORES: self._add_scores}
        add |= {ACTION: self._add_actions, OBSERVATION: self._add_observations}
        for kind, group in self._file.groups():
            if kind not in (LANE, SETTING) and not self._are_types_checked:
                self._check_types()
            self._kind = kind
            for begin in range(0, len(group), ROWS_PER_INSERT):
                add[kind](group.slice(begin, ROWS_PER_INSERT).combine_chunks())
        if not self._are_types_checked:
            self._check_types()
        self._add_policy()
        restore_checkpoints(self._connection)

    def _check_types(self) -> None:
        if digest_heads(self._lanes.values()) != self._file.heads:
            raise ValueError("its lanes end elsewhere than its metadata say")
        self._codecs = self._file.check_types(read_settings(self._connection))
        self._are_types_checked = True

    def _add_lanes(self, group: pa.Table) -> None:
        rows = [record_from_json(schema.lanes, text) for text in group["record"].to_pylist()]
        for row in rows:
            if not SCORES_LANE <= row["lane"] < LANE_LIMIT or len(self._lanes) > MAX_IMPORTED_LANES:
                raise ValueError(f"there can be no lane {row['lane']}")
            self._lanes[row["lane"]] = row
        self._insert(schema.lanes, rows)

    def _add_records(self, group: pa.Table) -> None:
        table = RECORDS[self._kind]
        rows = [record_from_json(table, text) for text in group["record"].to_pylist()]
        if table is schema.settings and any(row["name"] == "version" for row in rows):
            raise ValueError("its settings have another version than its metadata")
        self._count("last_entry", CONTROL_LANE, len(rows))
        self._insert(table, rows)

    def _add_policies(self, group: pa.Table) -> None:
        for text, part in zip(
            *(group[name].to_pylist() for name in ("record", "content")), strict=True
        ):
            row = record_from_json(schema.policies, text, without=("content",))
            if part is None:
                raise ValueError(f"the policy {row['digest']} has no content")
            if self._policy is None or self._policy[0] != row:
                self._add_policy()
                self._policy = (row, [])
            self._policy[1].append(part)
            if sum(map(len, self._policy[1])) > MAX_IMPORTED_POLICY_BYTES:
                raise ValueError(f"the policy {row['digest']} is too large")

    def _add_policy(self) -> None:
        """Add the policy whose last part has been read."""
        if self._policy is not None:
            row, parts = self._policy
            self._policy = None
            self._count("last_entry", CONTROL_LANE, 1)
            self._insert(schema.policies, [{**row, "content": b"".join(parts)}])

    def _add_entries(self, group: pa.Table) -> None:
        rows: Rows = group["entry"].to_pylist()
        for row in rows:
            for name, value in row.items():
                check_value(f"the {name} of an entry", schema.entries.c[name], value)
            if self._count("last_entry", row["lane"], 1, "entries") != row["number"]:
                raise ValueError(f"entry {row['number']} of lane {row['lane']} is out of order")
        self._insert(schema.entries, rows)

    def _add_actions(self, group: pa.Table) -> None:
        columns = {name: group[name].to_pylist() for name in ACTION_TYPES}
        for name in CONTENT_COLUMNS:
            content = from_arrow(name, getattr(self._codecs, name, None), _single(group[name]))
            columns[name] = content if content else [None] * len(group)
        self._check_columns(schema.actions, columns)
        for number in columns["id"]:
            lane = number >> LANE_BITS
            if first_id(lane) + self._count("last_action", lane, 1) != number:
                raise ValueError(f"action {number} is out of order")
        self._insert(schema.actions, _as_rows(columns))

    def _add_observations(self, group: pa.Table) -> None:
        sources = {"action": "id", "number": "observation"}
        sources |= {name: name for name in ("which", "loss", "reward", "reason")}
        columns = {name: group[source].to_pylist() for name, source in sources.items()}
        self._check_columns(schema.observations, columns)
        for number in columns["number"]:
            self._count("last_observation", number >> LANE_BITS, 1)
        self._insert(schema.observations, _as_rows(columns))

    def _add_scores(self, group: pa.Table) -> None:
        pieces = _single(group["scores"])
        lists = pieces.field("values")
        if lists.null_count or lists.flatten().null_count:
            raise ValueError("scores are missing")
        rows: Rows = []
        for row, values in zip(_without(pieces, "values"), lists, strict=True):
            content = np.asarray(values.values, dtype="<f8").tobytes()
            rows.append({**row, "values": content})
        names = [column.name for column in schema.columns.c]
        self._check_columns(schema.columns, {name: [row[name] for row in rows] for name in names})
        self._count("last_entry", SCORES_LANE, len(rows))
        self._insert(schema.columns, rows)

    def _count(self, limit: str, lane: int, more: int, what: str = "") -> int:
        """Count rows of a lane; more than it announces are an error."""
        if lane not in self._lanes:
            raise ValueError(f"there are rows of lane {lane}, which the run does not have")
        key = (what or limit, lane)
        self._added[key] += more
        if self._added[key] > self._lanes[lane][limit]:
            raise ValueError(f"there are more rows of lane {lane} than were written")
        return self._added[key]

    @staticmethod
    def _check_columns(table: sql.Table, columns: dict[str, Sequence[Any]]) -> None:
        for name, values in columns.items():
            for value in values:
                check_value(f"{table.name}.{name}", table.c[name], value)

    def _insert(self, table: sql.Table, rows: Rows) -> None:
        self._connection.execute(table.insert(), rows)


def _as_rows(columns: dict[str, Sequence[Any]]) -> Rows:
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def _single(column: pa.ChunkedArray) -> pa.Array:
    """A column without chunks."""
    return column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks)


def _without(structs: pa.StructArray, name: str) -> Rows:
    """The other fields of structs, as rows."""
    fields = {field.name: structs.field(field.name) for field in structs.type if field.name != name}
    return _as_rows({key: values.to_pylist() for key, values in fields.items()})
