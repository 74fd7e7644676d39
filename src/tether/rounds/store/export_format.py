"""The layout of an exported run: one Parquet table whose rows are of several kinds.

Each row group has rows of one kind, and the kinds follow each other in the order of `KINDS`. An
"observation" has one loss of an action, or the reason why the action was withdrawn. "scores" are
pieces of the columns of scores and draws. An "entry" is a link of the hash chain. All other rows
are JSON, in the column "record".
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa
import sqlalchemy as sql

from tether._core import records
from tether.rounds.store import chain, schema
from tether.rounds.store.arrow_content import content_type
from tether.rounds.store.codecs import Codec, RowCodecs

COMPRESSION = "SNAPPY"
"""How all columns are compressed: at most about 20 times, so that no small file becomes large."""
METADATA_KEY = b"tether"
"""Under which the file's metadata say what it is."""

LANE, SETTING, POLICY = "lane", "setting", "policy"
ENTRY, ACTION, OBSERVATION, SCORES = "entry", "action", "observation", "scores"
RECORDS: dict[str, sql.Table] = {
    LANE: schema.lanes,
    SETTING: schema.settings,
    "round": schema.rounds,
    "alarm": schema.alarms,
    "audit": schema.audit,
    "unstored": schema.unstored,
    POLICY: schema.policies,
}
"""The small tables, a row of which is a record."""
KINDS = (*RECORDS, ENTRY, ACTION, OBSERVATION, SCORES)
"""What a row can be, in the column "kind", in the order of the file."""

CONTENT_COLUMNS = ("context", "candidates", "action")
ACTION_TYPES: dict[str, pa.DataType] = {
    "id": pa.int64(),
    "round": pa.int32(),
    "served": pa.int32(),
    "calibration": pa.bool_(),
    "log_safe": pa.float64(),
    "log_optimized": pa.float64(),
    "log_prob": pa.float64(),
    "context_score": pa.float64(),
}
OBSERVATION_TYPES: dict[str, pa.DataType] = {
    "observation": pa.int64(),
    "which": pa.int32(),
    "loss": pa.float64(),
    "reward": pa.float64(),
    "reason": pa.string(),
}
SCORES_TYPE = pa.struct(
    {
        "round": pa.int32(),
        "name": pa.string(),
        "start": pa.int64(),
        "policy": pa.int32(),
        "count": pa.int64(),
        "numbers": pa.string(),
        "values": pa.list_(pa.float64()),
    }
)
ENTRY_TYPE = pa.struct(
    {
        "lane": pa.int32(),
        "number": pa.int64(),
        "kind": pa.string(),
        "first": pa.int64(),
        "last": pa.int64(),
        "round": pa.int32(),
        "served": pa.int32(),
        "calibration": pa.int32(),
        "key": pa.string(),
        "attempt": pa.string(),
        "note": pa.string(),
        "digest": pa.binary(),
        "heads": pa.string(),
        "signature": pa.string(),
        "head": pa.binary(),
    }
)
COLUMNS_BY_KIND: dict[str, frozenset[str]] = {
    **{kind: frozenset({"record"}) for kind in RECORDS},
    POLICY: frozenset({"record", "content"}),
    ENTRY: frozenset({"entry"}),
    ACTION: frozenset({*ACTION_TYPES, *CONTENT_COLUMNS}),
    OBSERVATION: frozenset({"id", *OBSERVATION_TYPES}),
    SCORES: frozenset({"scores"}),
}
"""The columns that rows of a kind have; the others are null."""


def export_schema(codecs: RowCodecs | None) -> pa.Schema:
    """The columns of the table; those of contexts and actions depend on the run."""
    content: dict[str, Codec | None] = dict.fromkeys(CONTENT_COLUMNS)
    if codecs is not None:
        content = {name: getattr(codecs, name) for name in CONTENT_COLUMNS}
    first = ("id", "round", "served", "calibration")
    scores = [name for name in ACTION_TYPES if name not in first]
    types = {"kind": pa.string()}
    types |= {name: ACTION_TYPES[name] for name in first}
    types |= {name: content_type(codec) for name, codec in content.items()}
    types |= OBSERVATION_TYPES | {name: ACTION_TYPES[name] for name in scores}
    types |= {"scores": SCORES_TYPE, "entry": ENTRY_TYPE}
    types |= {"record": pa.string(), "content": pa.binary()}
    return pa.schema(types)


def digest_heads(lanes: Iterable[Mapping[str, Any]]) -> bytes:
    """The canonical digest of how far all lanes have come: what a signature of an export is of."""
    counts = ("last_action", "last_observation", "last_entry")
    heads = {
        int(row["lane"]): (*(row[name] for name in counts), bytes(row["head"]).hex())
        for row in lanes
    }
    text = json.dumps(sorted(heads.items()))
    return chain.digest_bytes(text.encode())


def record_to_json(row: Mapping[str, Any]) -> str:
    """A row of a small table as JSON, with bytes in hexadecimal."""
    plain = {
        name: value.hex() if isinstance(value, bytes) else value for name, value in row.items()
    }
    return json.dumps(records.encode(plain), allow_nan=False)
