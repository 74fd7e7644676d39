"""What a cleared alarm means for the present round, which knew of the alarm when it began."""

from __future__ import annotations

from collections.abc import Iterable

from tether.rounds.history import AuditRecord
from tether.rounds.round_start import alarm_note
from tether.rounds.store.serving import RESUME

RAMP_OVER = "an alarm was cleared since the round began: the next action begins another one"
"""The note of the present round of a ramp that a cleared alarm has ended."""


def last_cleared(audit: Iterable[AuditRecord]) -> int:
    """The last alarm that was cleared; 0 if none was."""
    return max((each.subject or 0 for each in audit if each.act == RESUME), default=0)


def present_note(note: str, cleared: int) -> str:
    """The note of the present round; that of an alarm which no longer stands says what is next.

    The round of a ramp is then over, and has the note `RAMP_OVER`.
    """
    for alarm in range(1, cleared + 1):
        if note == alarm_note(alarm):
            return (
                f"alarm {alarm} stood when the round began, and was cleared since: the safe policy "
                f"serves until the next round begins"
            )
    return note
