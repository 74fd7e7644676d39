"""Whether the state of the shift monitor follows from the contexts: computed again, and compared.

With several lanes the order in which their contexts were seen is not known. Then only where the
monitor began, how far it is, and how many contexts it has seen are checked.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import sqlalchemy as sql

from tether._core import records
from tether.monitor import ShiftMonitor
from tether.rounds.contexts_seen import SHIFT, read_scores, start_monitor
from tether.rounds.kept import Kept
from tether.rounds.replayed_monitors import Numbers, find_restart
from tether.rounds.run_settings import RunSettings
from tether.rounds.store import schema
from tether.rounds.store.lanes import read_lanes

LOG_WEALTH_TOLERANCE = 1e-9
"""By how much a wealth may differ that was computed on another machine."""
_LOG_WEALTHS = ("log_bets", "log_wealth", "log_peak", "log_lowest")


def find_wrong_shift(connection: sql.Connection, settings: RunSettings) -> Iterator[str]:
    """What is kept of the contexts but does not follow from the rows.

    Contexts that wait to be seen by the monitor are left out.
    """
    text, restart = Kept(connection)[SHIFT], find_restart(connection)
    last = {n: lane.last_action for n, lane in read_lanes(connection).items() if n >= 0}
    if text is None:
        if restart is not None or _must_have_seen(connection, last):
            yield "the state of the shift monitor was removed"
        return
    start, seen, saved = json.loads(text)
    begun, reached = ({int(n): row for n, row in each.items()} for each in (start, seen))
    for lane in begun.keys() | reached.keys() | (restart or {}).keys():
        if begun.get(lane, 0) != (restart or {}).get(lane, 0):
            yield f"the shift monitor begins in lane {lane} where it was not restarted"
            return
        if not begun.get(lane, 0) <= reached.get(lane, 0) <= last.get(lane, 0):
            yield f"the shift monitor is at action {reached.get(lane, 0)} of lane {lane}"
            return
    scores = read_scores(connection, start, seen)
    fresh = start_monitor(settings, start, scores)
    if (saved is None) != (fresh is None):
        yield "the shift monitor does not begin after the first contexts"
    if saved is None or fresh is None:
        return
    kept = ShiftMonitor._from_saved({**records.decode_plain(saved), "scores": scores})
    in_order = sum(row > 0 for row in last.values()) <= 1
    if not _same(kept.state(), fresh.state(), in_order):
        yield "the shift monitor does not follow from the contexts"


def _must_have_seen(connection: sql.Connection, last: Numbers) -> bool:
    """Whether the monitor has seen contexts: in a file each call shows it its own, at once.

    While an alarm stands it sees none; and another lane may hold what was delivered a moment ago.
    """
    alone = connection.dialect.name == "sqlite" and sum(row > 0 for row in last.values()) <= 1
    scored = sql.select(schema.actions.c.id).where(schema.actions.c.context_score.is_not(None))
    return (
        alone
        and connection.scalar(sql.select(schema.alarms.c.number).limit(1)) is None
        and connection.scalar(scored.limit(1)) is not None
    )


def _same(kept: dict[str, Any], fresh: dict[str, Any], in_order: bool) -> bool:
    """Whether two states of a monitor are the same, up to rounding."""
    ours, theirs = kept["e_process"], fresh["e_process"]
    if any(ours[name] != theirs[name] for name in ("false_alarm_probability", "seen")):
        return False
    if not in_order:
        return True
    if kept["generator"] != fresh["generator"]:
        return False
    if any(ours[name] != theirs[name] for name in ("alarm_at", "lowest_at")):
        return False
    first, second = (
        np.hstack([records.decode_plain(each[name]) for name in _LOG_WEALTHS])
        for each in (ours, theirs)
    )
    return np.allclose(first, second, rtol=LOG_WEALTH_TOLERANCE, atol=LOG_WEALTH_TOLERANCE)
