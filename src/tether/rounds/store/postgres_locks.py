"""The advisory locks of PostgreSQL with which the writers of a run keep out of each other's way.

They are taken in the first statement of a transaction, one after the other, so that every later
statement sees what was committed by those who had them before.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sql

from tether.rounds.store.lanes import MAX_LANES

ROUND_LOCK, MONITOR_LOCK, LANE_LOCK, NEXT_MONITOR_LOCK = range(0x7E74E4, 0x7E74E8)
"""Who serves, the state of the monitors, one for each lane, and who updates the monitors next."""


def _free_lane() -> sql.ColumnElement[Any]:
    """The first lane that nobody else has taken, taken; NULL if there is none."""
    number = sql.func.generate_series(0, MAX_LANES - 1).column_valued("number")
    free = sql.func.pg_try_advisory_xact_lock(LANE_LOCK, number)
    return sql.select(number).where(free).limit(1).scalar_subquery()


def _turn_for_monitors() -> sql.ColumnElement[Any]:
    """Wait until the monitors can be updated, unless somebody else waits for it already.

    Whoever waits will begin to read later than now, and so reads what was committed before. It
    makes room for the next one as soon as it has its turn.
    """
    comes_next = sql.func.pg_try_advisory_lock(NEXT_MONITOR_LOCK)
    turn = sql.func.pg_advisory_xact_lock(MONITOR_LOCK)
    makes_room = sql.func.pg_advisory_unlock(NEXT_MONITOR_LOCK)
    waited = sql.case((turn.is_(None), sql.false()), else_=makes_room)
    return sql.case((comes_next, waited), else_=sql.false())


def _locks(*locks: sql.ColumnElement[Any]) -> sql.Select[Any]:
    """Take locks within `limit`; the last one may say what was taken.

    The server ends the transaction of a client that asks for nothing for as long as `idle`: one
    that was stopped while it had them would keep everybody else from raising alarms.
    """
    limits = {"lock_timeout": "limit", "idle_in_transaction_session_timeout": "idle"}
    set_limits = [
        sql.func.set_config(name, sql.bindparam(parameter, type_=sql.Text), True)
        for name, parameter in limits.items()
    ]
    return sql.select(*set_limits, *locks)


_shared = sql.func.pg_advisory_xact_lock_shared(ROUND_LOCK)
_exclusive = sql.func.pg_advisory_xact_lock(ROUND_LOCK)
# what is lost of the monitors in a crash is computed again
_at_once = sql.func.set_config("synchronous_commit", "off", True)

WRITING = _locks(_shared, _free_lane())
"""The locks of a transaction that acts or observes beside others; the last value is its lane."""
WRITING_ALONE = _locks(_exclusive, _free_lane())
"""The locks of a transaction beside which nobody else writes; the last value is its lane."""
UPDATING_MONITORS = _locks(_shared, _at_once, _turn_for_monitors())
"""The locks of a transaction that updates the monitors; the last value is whether it need be."""
FIRST_LANE = sql.select(sql.func.pg_advisory_xact_lock(LANE_LOCK, 0))
"""Wait for the first lane, if there was no free one."""
