"""The tables of a store, and how an older store becomes a newer one.

Numbers, text and bytes of numbers: nothing is ever pickled.
"""

from __future__ import annotations

from collections.abc import Callable

import sqlalchemy as sql
from sqlalchemy import Boolean, Column, Double, ForeignKey, Integer, LargeBinary, String, Text

from tether.rounds.errors import StoreError

VERSION = 2
"""The version of the tables below. A change raises it and adds a step to `MIGRATIONS`."""

tables = sql.MetaData()
Identity = sql.BigInteger().with_variant(Integer, "sqlite")

terms = sql.Table(
    "tether_terms",
    tables,
    Column("name", String(64), primary_key=True),
    Column("value", Text, nullable=False),  # JSON
)
"""What the run was made with: alpha, bound, the safe policy's name and fingerprint, and so on."""

rounds = sql.Table(
    "tether_rounds",
    tables,
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("policy", Text),
    Column("fingerprint", Text),
    Column("reference", Integer, nullable=False),  # the round whose policy beta is measured against
    Column("log_beta", Double, nullable=False),
    Column("log_psi", Double),  # the one normalizer, where there are no contexts
    Column("last_action", Identity, nullable=False),  # what the calibration saw
    Column("last_report", Identity, nullable=False),
    Column("calibration", Text),  # JSON
    Column("note", Text, nullable=False),
    Column("begun", Text, nullable=False),
)

actions = sql.Table(
    "tether_actions",
    tables,
    Column("id", Identity, primary_key=True, autoincrement=False),
    Column("round", Integer, ForeignKey(rounds.c.number), nullable=False),
    Column("served", Integer, nullable=False),  # 0: the safe policy; else the round's own
    Column("calibration", Boolean, nullable=False),
    Column("context", LargeBinary),
    Column("action", LargeBinary, nullable=False),
    Column("log_safe", Double, nullable=False),
    Column("log_optimized", Double),
    Column("log_prob", Double),  # under the policy that served
)
"""One row an action, numbered from 1 without gaps."""

reports = sql.Table(
    "tether_reports",
    tables,
    Column("action", Identity, ForeignKey(actions.c.id), primary_key=True, autoincrement=False),
    Column("number", Identity, nullable=False, unique=True),
    Column("loss", Double),  # null: withdrawn, for this reason
    Column("reward", Double),
    Column("reason", Text),
)
"""What an action cost, once for each action, numbered in the order of arrival."""

alarms = sql.Table(
    "tether_alarms",
    tables,
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("round", Integer, ForeignKey(rounds.c.number), nullable=False),
    Column("monitor", String(16), nullable=False),
    Column("message", Text, nullable=False),
    Column("raised", Text, nullable=False),
    Column("cleared", Text),
    Column("reason", Text),
    Column("last_action", Identity),  # when it was cleared: the monitors begin anew after these
    Column("last_report", Identity),
)

failures = sql.Table(
    "tether_failures",
    tables,
    Column("number", Identity, primary_key=True, autoincrement=False),
    Column("round", Integer, ForeignKey(rounds.c.number), nullable=False),
    Column("first_action", Identity, ForeignKey(actions.c.id), nullable=False),
    Column("last_action", Identity, ForeignKey(actions.c.id), nullable=False),
    Column("message", Text, nullable=False),
    Column("failed", Text, nullable=False),  # when
)
"""Actions that the safe policy took since the round's policy failed, a row for each call."""

columns = sql.Table(
    "tether_columns",
    tables,
    Column("round", Integer, primary_key=True, autoincrement=False),
    Column("name", String(32), primary_key=True),
    Column("start", Identity, primary_key=True, autoincrement=False),
    Column("count", Identity, nullable=False),
    Column("values", LargeBinary, nullable=False),  # float64, little-endian, row after row
)
"""Scores of calibration rows, and of proposals, under the policy of a round; in parts."""

MIGRATIONS: dict[int, Callable[[sql.Connection], None]] = {1: failures.create}
"""From each older version to the next: what to do to the tables."""
ADDING = frozenset({1})
"""Versions whose next only adds a table: what is there can be read as it is."""


def prepare(connection: sql.Connection, version: int | None) -> None:
    """Make the tables, or bring an older store to the present version, in one transaction."""
    if version is None:
        tables.create_all(connection)
        connection.execute(terms.insert().values(name="version", value=str(VERSION)))
        return
    if version > VERSION:
        raise StoreError(
            f"the store has version {version}, and this tether knows up to {VERSION}: upgrade it"
        )
    while version < VERSION:
        MIGRATIONS[version](connection)
        version += 1
        connection.execute(
            terms.update().where(terms.c.name == "version").values(value=str(version))
        )


def readable(version: int) -> bool:
    """Whether a store of this version can be read without a change to it."""
    return version <= VERSION and all(step in ADDING for step in range(version, VERSION))


def find_version(connection: sql.Connection) -> int | None:
    """The version of a store; None where there is none yet."""
    return read_version(connection) if sql.inspect(connection).has_table(terms.name) else None


def read_version(connection: sql.Connection) -> int:
    """The version of a store that is there."""
    found = connection.scalar(sql.select(terms.c.value).where(terms.c.name == "version"))
    if found is None or not found.isdecimal():
        raise StoreError(f"the database has a table {terms.name} that is not tether's")
    return int(found)
