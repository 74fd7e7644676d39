"""Silence: how many actions were taken, and how long it has been, since each loss last arrived."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime

from tether.rounds.errors import as_tampering
from tether.rounds.kept import Kept
from tether.rounds.limits import ONLY_LOSS
from tether.rounds.run_settings import RunSettings
from tether.rounds.store import queries
from tether.rounds.store.lanes import Lane

SILENCE = "silence"
"""The name under which it is kept when each loss last arrived."""


def read_silence(kept: Kept) -> dict[str, tuple[int, str]]:
    """For each loss, how many actions there were when it last arrived, and when that was."""
    with as_tampering("the count of silence"):
        rows = json.loads(kept[SILENCE] or "[]")
        if any(type(count) is not int for _, count, _ in rows):
            raise TypeError(f"{rows!r:.100} counts from something that is no action")
        return {name: (count, since) for name, count, since in rows}


def write_silence(kept: Kept, last: Mapping[str, tuple[int, str]]) -> None:
    """Keep what `read_silence` reads."""
    kept[SILENCE] = json.dumps(
        [[name, count, since] for name, (count, since) in sorted(last.items())]
    )


def end_silence(kept: Kept, names: Iterable[str], lanes: Mapping[int, Lane]) -> None:
    """Count actions and time without some of the losses from now on."""
    write_silence(kept, read_silence(kept) | dict.fromkeys(names, (taken(lanes), queries.now())))


def find_silence(
    kept: Kept, settings: RunSettings, lanes: Mapping[int, Lane], now: datetime | None = None
) -> str:
    """Why a run has been without one of its losses for too long; empty if it has not."""
    actions, seconds = settings.max_silent_actions, settings.max_silent_seconds
    if actions is seconds is None:
        return ""
    last, total = read_silence(kept), taken(lanes)
    for name in settings.limits:
        loss = "loss" if name == ONLY_LOSS else f"loss {name!r}"
        count, since = last.get(name, (0, settings.created))
        if seconds is not None:
            passed = (now or datetime.now(UTC)) - datetime.fromisoformat(since)
            if passed.total_seconds() > seconds:
                return f"no {loss} has arrived since {since}, the limit is {seconds:g} s"
        if actions is not None and total - count >= actions:
            return f"{total - count:,} actions without a {loss}, the limit is {actions:,}"
    return ""


def taken(lanes: Mapping[int, Lane]) -> int:
    """How many actions were taken."""
    return sum(lane.last_action for lane in lanes.values())
