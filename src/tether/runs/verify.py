"""Verification: the events are replayed, and all that follows from them is computed again."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import sqlalchemy as sql

from tether.runs.body import read_header
from tether.runs.event_log import (
    CACHED,
    NO_HEAD,
    Event,
    EventLog,
    Signer,
    cache,
    claims,
    is_cached,
    mark_claim,
    read_events,
    state_digest,
)
from tether.runs.settings import RELEASE
from tether.runs.state import State

if TYPE_CHECKING:
    from tether._core.signing import PublicKey

MOST_FINDINGS = 1000
"""A store with more is not looked at further."""


def verify_log(log: EventLog, key: PublicKey | None = None) -> list[str]:
    """Everything that is wrong with a log: its chain, rules, decisions, index and cache."""
    signer = log.signer if key is None else Signer(public=key)
    return log.read(lambda connection: _Replay(connection).findings(signer))


class _Replay:
    """The events folded anew, with what follows from each of them."""

    def __init__(self, connection: sql.Connection) -> None:
        self._connection, self._found = connection, list[str]()
        self._state, self._index = State(), dict[bytes, bytes]()
        self._cached: Event | None = None
        self._rules: Any = None

    def findings(self, signer: Signer | None) -> list[str]:
        """What is wrong, in the order of events; a broken chain ends it."""
        last = self._walk()
        if last is None and not self._found:
            return ["there is no event"]
        if last is not None and not self._found:
            self._check_signature(last, signer)
            self._compare_index()
            self._compare_cache()
        return self._found

    def _walk(self) -> Event | None:
        seq, head, event = 0, NO_HEAD, None
        for event in read_events(self._connection):
            if not event.follows(seq, head):
                self._found.append(f"event {event.seq} ({event.kind}) is not as it was written")
                return event
            try:
                self._found += self._check(event)
                self._state.fold(event)
            except Exception as error:
                self._found.append(f"event {event.seq} ({event.kind}) cannot follow: {error}")
                return event
            if len(self._found) >= MOST_FINDINGS:
                return event
            seq, head = event.seq, event.head
        if self._state.raises is not None:
            self._found.append(f"event {seq}: the alarm that it raises is missing")
        return event

    def _check(self, event: Event) -> Iterator[str]:
        state = self._state
        if event.kind == CACHED:
            self._cached = event
            if event.body != state_digest(state.dump()):
                yield f"event {event.seq}: the cached state is not that of the events"
            return
        if state.raises is not None and event.kind not in ("alarm", "losses", "rows"):
            yield f"event {event.seq}: the alarm that was raised before it is missing"
        if event.kind == "alarm":
            yield from _check_alarm(state, event)
        if state.settings is not None:
            rules = self._rules = self._rules or rules_of(state, self._connection)
            yield from rules.check(state, event, self._index)
            self._index |= mark_claim(event.mark) | rules.claims_of(event, self._index)

    def _check_signature(self, last: Event, signer: Signer | None) -> None:
        if signer is None:
            if self._state.is_signed and last.signature is None:
                self._found.append("the run is signed, but its last event is not")
        elif not signer.check(last.head, last.signature):
            self._found.append(f"event {last.seq}, the last one, is not signed with this key")

    def _compare_index(self) -> None:
        query = sql.select(claims)
        stored = {bytes(row[0]): bytes(row[1]) for row in self._connection.execute(query).all()}
        if stored != self._index:
            names = stored.keys() | self._index.keys()
            wrong = sum(stored.get(name) != self._index.get(name) for name in names)
            self._found.append(f"{wrong} entries of the index are not those of the events")

    def _compare_cache(self) -> None:
        row = self._connection.execute(sql.select(cache)).first()
        if row is None:
            return
        event = self._cached
        if event is None or event.seq != row[0] or not is_cached(event, bytes(row[1])):
            self._found.append("the cache is not the state that its event vouches for")


def _check_alarm(state: State, event: Event) -> Iterator[str]:
    header = read_header(event.body)
    if state.raises is None or (header["monitor"], header["message"]) != tuple(state.raises):
        yield f"event {event.seq}: an alarm that nothing before it raises"


def rules_of(state: State, connection: sql.Connection | None = None) -> Any:
    """What has the rules of a kind of run: `check` and `claims_of`."""
    if state.given.kind == RELEASE:
        from tether.runs import release

        return release
    from tether.runs.check_controller import ControllerCheck

    return ControllerCheck(connection)
