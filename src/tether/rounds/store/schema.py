"""The tables of a store. Rows are only ever added, and every one of them is in the hash chain.

The exceptions are the numbers that a lane has reached and the state of the monitors, which both
follow from the rows. Everything is stored as numbers, text or bytes of numbers: nothing is ever
pickled.
"""

from __future__ import annotations

import sqlalchemy as sql
from sqlalchemy import Boolean, Column, Double, Integer, LargeBinary, String, Text

from tether.rounds.errors import StoreError

VERSION = 10
"""The version of the tables below. A change of the tables, or of a state in them, raises it."""

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
    Column("policy_digest", Text),  # under which the policy is stored,
    Column("policy_problem", Text),  # or why it is not
    Column("reference", Integer, nullable=False),  # the round whose policy beta is measured against
    Column("log_beta", Double, nullable=False),
    Column("log_psi", Double),  # the normalizer, where there are no contexts
    Column("log_psi_error", Double),  # its standard error
    Column("seen", Text, nullable=False),  # JSON: what the calibration saw of each lane
    Column("calibration", Text),  # JSON
    Column("note", Text, nullable=False),
    Column("begun", Text, nullable=False),
)

actions = sql.Table(
    "tether_actions",
    tables,
    Column("id", Identity, primary_key=True, autoincrement=False),
    Column("round", Integer, nullable=False),
    Column("served", Integer, nullable=False),  # 0: the safe policy; else of which round
    Column("calibration", Boolean, nullable=False),
    Column("context", LargeBinary),
    Column("candidates", LargeBinary),  # of a shortlist; the action is the position of one of them
    Column("action", LargeBinary, nullable=False),
    Column("log_safe", Double, nullable=False),
    Column("log_optimized", Double),
    Column("log_prob", Double),  # under the policy that served
    Column("context_score", Double),  # what the shift monitor sees
)
"""One row per action; an id is a lane and a number in it, see `lanes`."""

observations = sql.Table(
    "tether_observations",
    tables,
    Column("action", Identity, primary_key=True, autoincrement=False),
    Column("which", Integer, primary_key=True, autoincrement=False),  # of the run's losses, from 0
    Column("number", Identity, nullable=False, unique=True),
    Column("loss", Double),  # null: withdrawn, for the stated reason; then `which` is 0
    Column("reward", Double),
    Column("reason", Text),
)
"""Losses of actions, each at most once, numbered in each lane in the order of arrival."""

alarms = sql.Table(
    "tether_alarms",
    tables,
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("round", Integer, nullable=False),
    Column("monitor", String(16), nullable=False),
    Column("message", Text, nullable=False),
    Column("raised", Text, nullable=False),
)

audit = sql.Table(
    "tether_audit",
    tables,
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("act", String(16), nullable=False),  # "halt", "resume", "withdraw", "retire", …
    Column("actor", Text, nullable=False),
    Column("reason", Text, nullable=False),
    Column("subject", Identity),  # "resume": the last alarm that it clears; "retire": the round
    Column("done", Text, nullable=False),  # when
)
"""What people did to the run, and who."""

unstored = sql.Table(
    "tether_unstored",
    tables,
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("spool", Identity, nullable=False),  # in which the answers waited,
    Column("record", Identity, nullable=False),  # up to this record of it
    Column("count", Integer, nullable=False),
    Column("keys", Text, nullable=False),  # JSON: a list
    Column("first", Text, nullable=False),  # when the first and the last of them were given
    Column("last", Text, nullable=False),
)
"""Answers of the old system of a release while the store was unavailable: they count nowhere."""

columns = sql.Table(
    "tether_columns",
    tables,
    Column("round", Integer, primary_key=True, autoincrement=False),  # that began with it
    Column("name", String(32), primary_key=True),
    Column("start", Identity, primary_key=True, autoincrement=False),
    Column("policy", Integer, primary_key=True, autoincrement=False),  # the first of the numbers
    Column("count", Identity, nullable=False),
    Column("numbers", Text, nullable=False),  # JSON: the rounds whose policies gave the scores
    Column("values", LargeBinary, nullable=False),  # float64, little-endian, policy after policy
)
"""Scores of calibration rows, and of proposals, under the policies of rounds, in pieces."""

checkpoints = sql.Table(
    "tether_checkpoints",
    tables,
    Column("lane", Integer, primary_key=True, autoincrement=False),
    Column("first", Identity, primary_key=True, autoincrement=False),  # the entries that it covers
    Column("last", Identity, nullable=False),
    Column("place", Text, nullable=False),  # JSON: how far a reader of the lane is after it
    Column("content", LargeBinary, nullable=False),
)
"""The numbers of rows once more, all at once, so that a new process can read them quickly."""

policies = sql.Table(
    "tether_policies",
    tables,
    Column("digest", String(64), primary_key=True),
    Column("content", LargeBinary, nullable=False),
)
"""The safe policy, and the optimized policies of rounds, as far as they can be saved."""

lanes = sql.Table(
    "tether_lanes",
    tables,
    Column("lane", Integer, primary_key=True, autoincrement=False),
    Column("last_action", Identity, nullable=False),
    Column("last_observation", Identity, nullable=False),
    Column("last_entry", Identity, nullable=False),
    Column("head", LargeBinary, nullable=False),  # that of the last entry
)
"""How far each lane has come."""

entries = sql.Table(
    "tether_entries",
    tables,
    Column("lane", Integer, primary_key=True, autoincrement=False),
    Column("number", Identity, primary_key=True, autoincrement=False),
    Column("kind", String(16), nullable=False),
    Column("first", Identity),  # the rows that it covers
    Column("last", Identity),
    Column("round", Integer),  # of actions: their round,
    Column("served", Integer),  # who took them (of scores: the first of their policies),
    Column("calibration", Integer),  # how many are for calibration,
    Column("key", Text, unique=True),  # the caller's idempotency key,
    Column("attempt", Text, unique=True),  # a mark of the call, where it may be given up,
    Column("note", Text),  # and why the safe policy took them instead; else what is covered
    Column("digest", LargeBinary, nullable=False),  # of the rows' content
    Column("heads", Text),  # JSON: the heads of all lanes, in entries of the control lane
    Column("signature", Text),
    Column("head", LargeBinary, nullable=False),  # of this entry and all before it in its lane
)
"""The hash chain: one entry for each write."""

kept = sql.Table(
    "tether_kept",
    tables,
    Column("name", String(64), primary_key=True),
    Column("value", Text, nullable=False),  # JSON
)
"""The state of the monitors, and sums that status and report show; recomputable from the rows."""


def prepare(connection: sql.Connection, version: int | None) -> None:
    """Create the tables, or refuse a store of another version."""
    if version is None:
        tables.create_all(connection)
        connection.execute(settings.insert().values(name="version", value=str(VERSION)))
        return
    check_version(version)


def check_version(version: int) -> None:
    """Refuse a store, or an export, of another version."""
    if version > VERSION:
        raise StoreError(
            f"the store has version {version}, but this tether supports version {VERSION}: upgrade "
            f"tether"
        )
    if version < VERSION:
        raise StoreError(
            f"the store has version {version}, from before the first release, and this tether "
            f"supports version {VERSION} alone: finish the run with the tether that began it"
        )
