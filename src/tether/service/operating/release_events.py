"""What happens to what is served, as events: alarms, halts, resumptions, steps and outages.

Every service of a release sees the same alarms and steps and gives their events the same ids, so
that who receives them from several services can tell which ones are the same.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

from tether.rounds.history import Alarm
from tether.service.served import ServedState


@dataclass(frozen=True)
class ReleaseEvent:
    """Something that has happened.

    Parameters
    ----------
    id : str
        What the same event has in every service: the flag, the kind and a number.
    event : str
        The kind: "alarm", "halt", "resume", "step" (of a run: "round") or "store".
    time : str
        When this service noticed it, in UTC, as ISO 8601.
    text : str
        What has happened, in a sentence.
    share : float or None
        The share of the new system, or of the new policy, now; None if there is none, or the store
        does not tell.
    details : dict
        The alarm, the step, or whether the store is available.
    """

    id: str
    event: str
    time: str
    text: str
    share: float | None
    details: dict[str, Any]

    def to_dict(self) -> dict[str, Any]:
        """Convert to plain values."""
        return asdict(self)


class ReleaseEvents:
    """Turns states, one after the other, into events.

    An alarm that stands when the service starts is an event, since nobody may have been told; the
    step that it finds is none.
    """

    def __init__(self, flag: str) -> None:
        self._flag, self._outages = flag, 0
        self._process = uuid.uuid4().hex[:12]
        self._before: ServedState | None = None
        self._was_available: bool | None = None

    def noticed(self, state: ServedState | None) -> list[ReleaseEvent]:
        """The events that lead to a state; None if the store is silent."""
        found = list(self._outage(state)) + ([] if state is None else list(self._changes(state)))
        self._before = self._before if state is None else state
        if state is not None or self._was_available is not None:  # not if it never was
            self._was_available = state is not None
        return found

    def _outage(self, state: ServedState | None) -> Iterator[ReleaseEvent]:
        available = state is not None
        if self._was_available in (None, available):
            return
        self._outages += not available
        name = f"{self._process}/{self._outages}/{'over' if available else 'begun'}"
        text = "the store is available again" if available else "the store is unavailable"
        yield self._event("store", name, text, state, {"available": available})

    def _changes(self, state: ServedState) -> Iterator[ReleaseEvent]:
        before, now = None if self._before is None else self._before.alarm, state.alarm
        if before is not None and (now is None or now.number != before.number):
            text = f"the alarm is cleared; {state.sentence}"
            yield self._event("resume", before.number, text, state, {"alarm": before.number})
        if now is not None and (before is None or now.number != before.number):
            yield self._alarm(now, state)
        if self._before is not None and self._before.number != state.number:
            text = f"{state.unit} {state.number} has begun; {state.sentence}"
            yield self._event(state.unit, state.number, text, state, state.begun_details)

    def _alarm(self, alarm: Alarm, state: ServedState) -> ReleaseEvent:
        kind = "halt" if alarm.monitor == "halt" else "alarm"
        details = {
            "number": alarm.number,
            "monitor": alarm.monitor,
            "message": alarm.message,
            "raised": alarm.raised,
            state.unit: alarm.round,
        }
        text = f"{kind} {alarm.number}: {alarm.message}; {state.stopped}"
        return self._event(kind, alarm.number, text, state, details)

    def _event(
        self,
        kind: str,
        name: object,
        text: str,
        state: ServedState | None,
        details: dict[str, Any],
    ) -> ReleaseEvent:
        return ReleaseEvent(
            id=f"{self._flag}/{kind}/{name}",
            event=kind,
            time=datetime.now(UTC).isoformat(timespec="milliseconds"),
            text=f"{self._flag}: {text}",
            share=None if state is None else state.figures.get("share"),
            details=details,
        )
