"""The JSON API: decisions, outcomes and the status, alone and in bulk.

All of it may be repeated: a key that comes back has its system, and a loss that is stored already
is not stored again.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import asdict
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from tether._version import __version__
from tether.rounds.errors import FinalLossError
from tether.rounds.history import Alarm
from tether.rounds.releases.assigned_systems import assigned_systems
from tether.rounds.releases.observing import ObservedKeys, skipped_text
from tether.rounds.releases.served_release import ReleaseState
from tether.service.api_errors import ApiError
from tether.service.content_answer import ContentAnswer
from tether.service.decisions.reported_outcomes import (
    FLAGS,
    ReportedOutcomes,
    listed_items,
    read_outcomes,
)
from tether.service.endpoint import Endpoint
from tether.service.json_schemas import (
    FLAG_SCHEMA,
    INTEGER_SCHEMA,
    KEY_SCHEMA,
    NUMBER_SCHEMA,
    SYSTEM_SCHEMA,
    list_schema,
    object_schema,
)
from tether.service.request_body import (
    encode_key,
    parse_object,
    read_key,
    read_object,
    refuse_others,
)
from tether.service.service import Service

SYSTEMS = ("old", "new")
OBSERVED_FIELDS = ("new", "without_row")
"""What is counted of outcomes."""


class JsonApi:
    """The endpoints for programs."""

    def __init__(self, service: Service) -> None:
        self._service, self._limits = service, service.settings.limits
        self._told: list[str] = []
        guardrails = service.release.settings.limits
        service.metrics.outcomes({(each, name): 0 for each in SYSTEMS for name in guardrails})

    def endpoints(self) -> list[Endpoint]:
        """What is answered here."""
        decision = object_schema(
            {"key": KEY_SCHEMA, "system": SYSTEM_SCHEMA, "stored": FLAG_SCHEMA}
        )
        limits = self._service.release.settings.limits
        losses = object_schema(
            {name: NUMBER_SCHEMA | {"minimum": 0} for name in limits}, optional=list(limits)
        )
        outcome = {
            "key": KEY_SCHEMA,
            "system": SYSTEM_SCHEMA,
            "losses": losses | {"minProperties": 1},
        }
        kept = dict.fromkeys(FLAGS, FLAG_SCHEMA)
        several = {"outcomes": list_schema(object_schema(outcome)), **kept}
        asked = [
            object_schema({"key": KEY_SCHEMA}),
            object_schema({"keys": list_schema(KEY_SCHEMA)}),
        ]
        decided = [decision, object_schema({"decisions": list_schema(decision)})]
        reported = [object_schema(each, optional=list(kept)) for each in (outcome | kept, several)]
        counts: dict[str, Any] = dict.fromkeys(OBSERVED_FIELDS, INTEGER_SCHEMA)
        skipped = {
            "key": KEY_SCHEMA,
            "system": SYSTEM_SCHEMA,
            "assigned": list_schema(SYSTEM_SCHEMA),
        }
        told = {"message": {"type": "string"}, "skipped": list_schema(object_schema(skipped))}
        observed = object_schema(counts | told, optional=list(told))
        return [
            Endpoint(
                "POST", "/v1/decisions", "decide",
                ContentAnswer(self.decide, self._limits.body_bytes), "Which system answers.",
                {"oneOf": asked}, {"oneOf": decided},
            ),
            Endpoint(
                "POST", "/v1/outcomes", "report", self.outcomes, "Store losses.",
                {"oneOf": reported}, observed, statuses=[409, 503],
            ),
            Endpoint(
                "GET", "/v1/status", "read", self.status, "What holds now.",
                result=object_schema({"share": NUMBER_SCHEMA}, closed=False), statuses=[503],
            ),
        ]  # fmt: skip

    async def decide(self, content: bytes, _: str) -> tuple[int, bytes]:
        """Say which system answers a key, or each of many."""
        body = parse_object(content)
        refuse_others(body, ("key", "keys"))
        if ("key" in body) == ("keys" in body):
            raise ApiError(400, "the body must have either key or keys")
        if "key" in body:
            systems = await self._service.decide([read_key(body["key"])])
            return 200, _decision(body["key"], systems[0]).encode()
        keys = listed_items(body, "keys", self._limits.items_per_request)
        contents = [read_key(key, f"keys[{place}]") for place, key in enumerate(keys)]
        systems = await self._service.decide(contents) if contents else []
        made = ",".join(_decision(key, each) for key, each in zip(keys, systems, strict=True))
        return 200, f'{{"decisions":[{made}]}}'.encode()

    async def outcomes(self, request: Request) -> Response:
        """Store the losses of a key, or of each of many: all of them or nothing."""
        body = await read_object(request, self._limits.body_bytes)
        limits = self._service.release.settings.limits
        reported = read_outcomes(body, limits, self._limits.items_per_request)
        await self._service.settle([each.key for each in reported.outcomes])
        try:
            found, skipped = await self._service.call(lambda: self._observe(reported))
        except (ValueError, TypeError) as error:
            is_final = isinstance(error.__cause__, FinalLossError)
            raise ApiError(409 if is_final else 400, str(error)) from None
        self._service.metrics.outcomes(found.counts, found.without_row + len(skipped))
        answer: dict[str, Any] = {"new": found.new, "without_row": found.without_row + len(skipped)}
        if found.without_row:
            answer["message"] = skipped_text(found)
        if reported.skip_unknown:
            answer["skipped"] = skipped
        return JSONResponse(answer)

    def _observe(self, reported: ReportedOutcomes) -> tuple[ObservedKeys, list[dict[str, Any]]]:
        """Store outcomes; if asked to, without those that have no row, which are listed."""
        outcomes, skipped = reported.outcomes, []
        if reported.skip_unknown:
            known = assigned_systems(self._service.release, [each.key for each in outcomes])
            skipped = [
                {"key": each.given, "system": each.system, "assigned": list(systems)}
                for each, systems in zip(outcomes, known, strict=True)
                if each.system not in systems
            ]
            outcomes = [
                each
                for each, systems in zip(outcomes, known, strict=True)
                if each.system in systems
            ]
        losses = {
            name: [each.losses[name] for each in outcomes]
            for name in (outcomes[0].losses if outcomes else ())
        }
        found = self._service.release.observe_counted(
            [each.key for each in outcomes],
            losses,
            [each.system for each in outcomes],
            keep_first=reported.keep_first,
        )
        return found, skipped

    async def status(self, request: Request) -> Response:
        """Say what holds now, as of a moment ago."""
        follower, settings = self._service.follower, self._service.release.settings
        unstored = self._service.unstored
        state = follower.state
        if not isinstance(state, ReleaseState):
            raise ApiError(503, "the store has not answered yet")
        outage, ramp = self._service.outage, state.step.ramp_share
        share = state.share if outage is None else 0.0
        promises = ramp.promises if share > 0 else {}  # else the old system alone answers
        warnings = await self._warnings()
        guardrails = {
            name: {"tolerated": limit.alpha, "bound": limit.bound, "alarm_risk": limit.alarm_risk}
            | {"promise": promises.get(name)}
            | {"missing_outcomes": {each: state.counted[each, name].pending for each in SYSTEMS}}
            for name, limit in settings.limits.items()
        }
        ends = state.ends(settings)
        return JSONResponse(
            {
                "flag": self._service.settings.flag,
                "state": state.told(settings) if outage is None else outage.told,
                "warnings": warnings if outage is None else [outage.told, *warnings],
                "share": share,
                "step": {
                    "number": state.step.number,
                    "begun": state.step.begun,
                    "ends": None if ends is None else ends.isoformat(),
                    "keys": state.keys,
                    "computed_share": state.step.share,
                    "why": state.step.why,
                },
                "alarm": None if state.alarm is None else _shown_alarm(state.alarm),
                "target": settings.target,
                "confidence": settings.confidence,
                "guardrails": guardrails,
                "store_available": outage is None,
                "unstored_waiting": 0 if unstored is None else unstored.waiting,
                "version": __version__,
            }
        )

    async def _warnings(self) -> list[str]:
        """What keeps the share down or looks wrong; without the store, what was known last."""
        if self._service.is_store_available:
            with suppress(ApiError):  # the store is lost just now
                found = await self._service.call(self._service.release.warnings)
                self._told = list(found.values())
        return self._told


def _shown_alarm(alarm: Alarm) -> dict[str, Any]:
    """An alarm in the words of a release: what is called its round is a step."""
    shown = asdict(alarm)
    return shown | {"step": shown.pop("round")}


def _decision(key: str | int, system: str | None) -> str:
    """The answer for a key, as JSON."""
    return f'{{"key":{encode_key(key)},{_ANSWERS[system]}}}'


_ANSWERS = {
    system: f'"system":"{system or "old"}","stored":{"false" if system is None else "true"}'
    for system in ("old", "new", None)
}
