"""The tables of a store, and the migrations from older versions.

Everything is stored as numbers, text or bytes of numbers: nothing is ever pickled.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import sqlalchemy as sql
from sqlalchemy import Boolean, Column, Double, ForeignKey, Integer, LargeBinary, String, Text

from tether._core import records
from tether.rounds.errors import StoreError

VERSION = 4
"""The version of the tables below. A change raises it and adds a step to `MIGRATIONS`."""

tables = sql.MetaData()
Identity = sql.BigInteger().with_variant(Integer, "sqlite")

settings = sql.Table(
    "tether_settings",
    tables,
    Column("name", String(64), primary_key=True),
    Column("value", Text, nullable=False),  # JSON
)
"""What the run was created with: alpha, bound, the name of the safe policy, and so on."""

rounds = sql.Table(
    "tether_rounds",
    tables,
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("policy", Text),
    Column("fingerprint", Text),
    Column("reference", Integer, nullable=False),  # the round whose policy beta is measured against
    Column("log_beta", Double, nullable=False),
    Column("log_psi", Double),  # the normalizer, where there are no contexts
    Column("log_psi_error", Double),  # its standard error; null in older stores
    Column("last_action", Identity, nullable=False),  # what the calibration saw
    Column("last_observation", Identity, nullable=False),
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
    Column("candidates", LargeBinary),  # of a shortlist; the action is the position of one of them
    Column("action", LargeBinary, nullable=False),
    Column("log_safe", Double, nullable=False),
    Column("log_optimized", Double),
    Column("log_prob", Double),  # under the policy that served
)
"""One row per action, numbered from 1 without gaps."""

observations = sql.Table(
    "tether_observations",
    tables,
    Column("action", Identity, ForeignKey(actions.c.id), primary_key=True, autoincrement=False),
    Column("number", Identity, nullable=False, unique=True),
    Column("loss", Double),  # null: withdrawn, for the stated reason
    Column("reward", Double),
    Column("reason", Text),
)
"""The loss of an action, at most one per action, numbered in the order of arrival."""

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
    Column("last_action", Identity),  # at clearing: the monitors restart after it
    Column("last_observation", Identity),
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
"""Actions that the safe policy took because the round's policy failed, one row per call."""

columns = sql.Table(
    "tether_columns",
    tables,
    Column("round", Integer, primary_key=True, autoincrement=False),
    Column("name", String(32), primary_key=True),
    Column("start", Identity, primary_key=True, autoincrement=False),
    Column("count", Identity, nullable=False),
    Column("values", LargeBinary, nullable=False),  # float64, little-endian, row after row
)
"""Scores of calibration rows, and of proposals, under the policy of a round, in pieces."""

OLD_SETTINGS_TABLE = "tether_terms"
"""The name of the settings table before version 3."""
SHORTLIST_SETTING = "shortlist"
"""The name of the setting that holds the number of candidates; null without shortlists."""
RENAMED_SETTINGS = {
    "enough": "min_observed_share",
    "watched": "alarm_risk",
    "delta": "false_alarm_probability",
}
RENAMED_CALIBRATION_KEYS = {
    "allowed": "log_beta_by_constraint",
    "beyond": "rows_beyond_draws",
    "guarantee": "promise",
    "guarantees": "promises",
}


def with_new_keys(entries: dict[str, Any], new_names: dict[str, str]) -> dict[str, Any]:
    """The same entries under their new names."""
    return {new_names.get(name, name): value for name, value in entries.items()}


def calibration_with_new_keys(text: str | None) -> str | None:
    """A stored calibration with the keys of version 3."""
    if text is None:
        return None
    return json.dumps(with_new_keys(json.loads(text), RENAMED_CALIBRATION_KEYS))


def calibration_with_terms(text: str | None) -> str | None:
    """A stored calibration with the entries of version 4: the terms of its promise, and others."""
    if text is None:
        return None
    entries = json.loads(text)
    terms = {}
    for each in entries["constraints"]:
        factor = max(each["alpha"], each["bound"] - each["alpha"])
        stability = float(entries["stability"]) * factor
        kept = {"alpha": each["alpha"], "bound": each["bound"], "safe_excess": 0.0}
        terms[each["name"]] = {**kept, "stability": stability}
    missing = dict.fromkeys(
        ("asked_promise", "confidence", "upper_bounds", "actions", "approximate")
    )
    added = {"blend": 0.0, "robustness": 1.0, "promise_terms": terms, **missing}
    return json.dumps(records.encode({**added, **entries}))


def _rename_to_version_3(connection: sql.Connection) -> None:
    for statement in (
        f"ALTER TABLE {OLD_SETTINGS_TABLE} RENAME TO tether_settings",
        "ALTER TABLE tether_reports RENAME TO tether_observations",
        "ALTER TABLE tether_rounds RENAME COLUMN last_report TO last_observation",
        "ALTER TABLE tether_alarms RENAME COLUMN last_report TO last_observation",
    ):
        connection.execute(sql.text(statement))
    for old, new in RENAMED_SETTINGS.items():
        connection.execute(settings.update().where(settings.c.name == old).values(name=new))
    query = sql.select(rounds.c.number, rounds.c.calibration)
    for number, text in connection.execute(query).fetchall():
        renamed = rounds.update().where(rounds.c.number == number)
        connection.execute(renamed.values(calibration=calibration_with_new_keys(text)))


def _add_candidates(connection: sql.Connection) -> None:
    """Version 4: a row may have candidates, and a promise has terms; no older run has any."""
    for column in (actions.c.candidates, rounds.c.log_psi_error):
        kind = column.type.compile(dialect=connection.dialect)
        statement = f"ALTER TABLE {column.table.name} ADD COLUMN {column.name} {kind}"
        connection.execute(sql.text(statement))
    connection.execute(settings.insert().values(name=SHORTLIST_SETTING, value="null"))
    query = sql.select(rounds.c.number, rounds.c.calibration)
    for number, text in connection.execute(query).fetchall():
        stored = rounds.update().where(rounds.c.number == number)
        connection.execute(stored.values(calibration=calibration_with_terms(text)))


MIGRATIONS: dict[int, Callable[[sql.Connection], None]] = {
    1: failures.create,
    2: _rename_to_version_3,
    3: _add_candidates,
}
"""From each older version to the next: how to change the tables."""
ADDITIVE_VERSIONS = frozenset({1})
"""Versions to which the next one only adds a table, so that they can be read unchanged."""


def prepare(connection: sql.Connection, version: int | None) -> None:
    """Create the tables, or migrate an older store to the present version, in one transaction."""
    if version is None:
        tables.create_all(connection)
        connection.execute(settings.insert().values(name="version", value=str(VERSION)))
        return
    if version > VERSION:
        raise StoreError(
            f"the store has version {version}, but this tether supports versions up to {VERSION}: "
            f"upgrade tether"
        )
    for step in range(version, VERSION):
        MIGRATIONS[step](connection)
    if version < VERSION:
        stored = settings.update().where(settings.c.name == "version")
        connection.execute(stored.values(value=str(VERSION)))


def readable(version: int) -> bool:
    """Whether a store of this version can be read without migrating it."""
    return version <= VERSION and all(step in ADDITIVE_VERSIONS for step in range(version, VERSION))
