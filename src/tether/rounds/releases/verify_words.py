"""Whether what a step says beside its numbers follows from them: who bound it, why, and of what."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from tether.release.ramp_calibration import binding_guardrail, reason_of_zero
from tether.release.ramp_result import RampShare
from tether.rounds.releases.step import Step

FOLLOWS_FROM_ELSEWHERE = ("number", "seen", "calibration", "begun")
"""Columns of a step that other checks compare."""


def find_wrong_words(name: str, share: RampShare, stops: str | None) -> Iterator[str]:
    """A binding guardrail or a reason that the numbers stored with it do not give.

    `stops` says why the share is 0 whatever the rows say, if it is.
    """
    binding = binding_guardrail(share.guardrails)
    if share.binding != binding:
        yield f"{name}: it says that {share.binding!r} binds its share, but {binding!r} does"
    reason = reason_of_zero(share.guardrails, share.confidence) if stops is None else stops
    if share.reason != reason:
        yield f"{name}: its reason is {share.reason!r}, but its numbers say {reason!r}"


def find_wrong_columns(row: Mapping[str, Any], step: Step) -> Iterator[str]:
    """Columns of a step of a release that have anything else than such a step has."""
    written = step.to_row()
    for name, value in row.items():
        if name not in FOLLOWS_FROM_ELSEWHERE and value != written.get(name):
            yield (
                f"step {step.number}: its {name} is {value!r}, and a step of a release has "
                f"{written.get(name)!r}"
            )
    yield from find_wrong_time(f"step {step.number}", step.begun)


def find_wrong_time(name: str, begun: str) -> Iterator[str]:
    """A moment that is none, or of no time zone."""
    try:
        is_moment = datetime.fromisoformat(begun).tzinfo is not None
    except ValueError:
        is_moment = False
    if not is_moment:
        yield f"{name}: it began at {begun!r}, which is no moment in UTC as ISO 8601"
