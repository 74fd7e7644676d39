"""Verification: the events are replayed, and all that follows from them is computed again."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import sqlalchemy as sql

from tether.runs.event_log import CACHED, Event, EventLog, claims
from tether.runs.settings import RELEASE
from tether.runs.state import State


def verify_log(log: EventLog) -> list[str]:
    """Everything that is wrong with a log: its chain, its rules, its decisions, its index."""
    expected: dict[bytes, bytes] = {}

    def check(state: State, event: Event) -> Iterator[str]:
        if state.raises is not None and event.kind not in ("alarm", "losses", "rows", CACHED):
            yield f"event {event.seq}: the alarm that the losses raise is missing"
        if event.kind == "alarm":
            yield from _check_alarm(state, event)
        if state.settings is not None:
            yield from _rules(state)(state, event)
            expected.update(_claims(state, event, expected))

    found = list(log.replay(check))

    def compare(connection: sql.Connection) -> list[str]:
        stored = {bytes(row[0]): bytes(row[1]) for row in connection.execute(sql.select(claims))}
        wrong = [
            name
            for name in stored.keys() | expected.keys()
            if stored.get(name) != expected.get(name)
        ]
        return [f"the index of {len(wrong)} keys is not that of the events"] if wrong else []

    return found if found else log.read(compare)


def _check_alarm(state: State, event: Event) -> Iterator[str]:
    from tether.runs.body import unpack

    header, _ = unpack(event.body)
    if header["monitor"] == "halt":
        if not state.acts or state.acts[-1].act != "halt":
            yield f"event {event.seq}: a halt that nobody asked for"
    elif state.raises is None or (header["monitor"], header["message"]) != tuple(state.raises):
        yield f"event {event.seq}: an alarm that the losses do not raise"


def _rules(state: State) -> Any:
    if state.given.kind == RELEASE:
        from tether.runs.release import check
    else:
        from tether.runs.controller import check
    return check


def _claims(state: State, event: Event, known: dict[bytes, bytes]) -> dict[bytes, bytes]:
    if state.given.kind == RELEASE:
        from tether.runs.release import claims_of

        return claims_of(event, known)
    return {}
