"""The outcomes in the body of a request: checked, each of them once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tether.rounds.limits import Limits
from tether.rounds.releases.repeated_outcomes import counted_places
from tether.service.api_errors import ApiError
from tether.service.request_body import read_key, refuse_others
from tether.service.shown_loss import shown_loss

OUTCOME_FIELDS = ("key", "system", "losses")
"""What an outcome consists of."""
FLAGS = ("keep_first", "skip_unknown")
"""What a request may say about all of its outcomes."""


@dataclass(frozen=True)
class Outcome:
    """The losses of a key under the system that answered; `given` is the key as it was sent."""

    given: str | int
    key: bytes
    system: str
    losses: Mapping[str, float]


@dataclass(frozen=True)
class ReportedOutcomes:
    """What a request reports, with losses of the same guardrails in each outcome."""

    outcomes: list[Outcome]
    keep_first: bool
    skip_unknown: bool


def read_outcomes(body: dict[str, Any], limits: Limits, most: int) -> ReportedOutcomes:
    """Read the one outcome that a body is, or its list of at most so many."""
    is_one = "outcomes" not in body
    refuse_others(body, (*(OUTCOME_FIELDS if is_one else ("outcomes",)), *FLAGS))
    keep_first, skip_unknown = (_flag(body, name) for name in FLAGS)
    given = [body] if is_one else listed_items(body, "outcomes", most)
    found: list[Outcome] = []
    for place, each in enumerate(given):
        where = "the body" if is_one else f"outcomes[{place}]"
        outcome = _outcome(each, where, limits)
        if found and outcome.losses.keys() != found[0].losses.keys():
            raise ApiError(
                400,
                f"all outcomes of a request must have the same losses, got {list(outcome.losses)} "
                f"in {where} and {list(found[0].losses)} before: send them separately",
            )
        found.append(outcome)
    return ReportedOutcomes(_each_once(found, keep_first), keep_first, skip_unknown)


def listed_items(body: dict[str, Any], name: str, most: int) -> list[Any]:
    """A list in a body, of at most so many items."""
    items = body[name]
    if not isinstance(items, list) or len(items) > most:
        got = f"{len(items):,}" if isinstance(items, list) else type(items).__name__
        raise ApiError(400, f"{name} must be a list of at most {most:,}, got {got}")
    return items


def _each_once(outcomes: list[Outcome], keep_first: bool) -> list[Outcome]:
    """The outcomes without those that repeat one of the same key and system before."""
    counted: list[int] = []
    for system in ("old", "new"):
        own = [place for place, each in enumerate(outcomes) if each.system == system]
        keys, losses = [outcomes[k].key for k in own], [outcomes[k].losses for k in own]
        try:
            counted += [own[k] for k in counted_places(keys, losses, keep_first=keep_first)]
        except ValueError as error:
            raise ApiError(400, str(error)) from None
    return [outcomes[place] for place in sorted(counted)]


def _flag(body: dict[str, Any], name: str) -> bool:
    flag = body.get(name, False)
    if not isinstance(flag, bool):
        raise ApiError(400, f"{name} must be true or false, got {flag!r:.80}")
    return flag


def _outcome(given: Any, where: str, limits: Limits) -> Outcome:
    if not isinstance(given, dict):
        raise ApiError(400, f"{where} must be an object, got {type(given).__name__}")
    if where != "the body":
        refuse_others(given, OUTCOME_FIELDS, where)
    key = read_key(given.get("key"), f"key of {where}")
    system, losses = given.get("system"), given.get("losses")
    if system not in ("old", "new"):
        raise ApiError(
            400, f'system of {where} must be "old" or "new", as decided, got {system!r:.80}'
        )
    if not isinstance(losses, dict) or not losses or not losses.keys() <= limits.keys():
        raise ApiError(
            400, f"losses of {where} must have some of {list(limits)}, got {losses!r:.80}"
        )
    for name, loss in losses.items():
        is_number = isinstance(loss, int | float) and not isinstance(loss, bool)
        if not is_number or not 0 <= loss <= limits[name].bound:
            raise ApiError(
                400,
                f"loss {name!r} of {where} must be a number from 0 to {limits[name].bound:g}, "
                f"got {shown_loss(loss, limits[name].bound)}",
            )
    return Outcome(given["key"], key, system, {name: float(loss) for name, loss in losses.items()})
