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
from tether.rounds.releases.observing import ObservedKeys, skipped_text
from tether.rounds.releases.served_release import ReleaseState
from tether.service.api_errors import ApiError
from tether.service.content_answer import ContentAnswer
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
from tether.service.shown_loss import shown_loss

SYSTEMS = ("old", "new")
OUTCOME_FIELDS = ("key", "system", "losses")
"""What an outcome consists of."""
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
        kept = {"keep_first": FLAG_SCHEMA}
        several = {"outcomes": list_schema(object_schema(outcome)), **kept}
        asked = [
            object_schema({"key": KEY_SCHEMA}),
            object_schema({"keys": list_schema(KEY_SCHEMA)}),
        ]
        decided = [decision, object_schema({"decisions": list_schema(decision)})]
        reported = [object_schema(each, optional=list(kept)) for each in (outcome | kept, several)]
        counts: dict[str, Any] = dict.fromkeys(OBSERVED_FIELDS, INTEGER_SCHEMA)
        observed = object_schema(counts | {"message": {"type": "string"}}, optional=["message"])
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
        keys = self._items(body, "keys")
        contents = [read_key(key, f"keys[{place}]") for place, key in enumerate(keys)]
        systems = await self._service.decide(contents) if contents else []
        made = ",".join(_decision(key, each) for key, each in zip(keys, systems, strict=True))
        return 200, f'{{"decisions":[{made}]}}'.encode()

    async def outcomes(self, request: Request) -> Response:
        """Store the losses of a key, or of each of many: all of them or nothing."""
        body = await read_object(request, self._limits.body_bytes)
        is_one = "outcomes" not in body
        refuse_others(body, (*(OUTCOME_FIELDS if is_one else ("outcomes",)), "keep_first"))
        keep_first = body.pop("keep_first", False)
        if not isinstance(keep_first, bool):
            raise ApiError(400, f"keep_first must be true or false, got {keep_first!r:.80}")
        given = [body] if is_one else self._items(body, "outcomes")
        keys, systems = [], []
        losses: dict[str, list[float]] = {}
        for place, each in enumerate(given):
            where = "the body" if is_one else f"outcomes[{place}]"
            key, system, named = self._outcome(each, where)
            if place and named.keys() != losses.keys():
                raise ApiError(
                    400,
                    f"all outcomes of a request must have the same losses, got {list(named)} in "
                    f"{where} and {list(losses)} before: send them separately",
                )
            keys.append(key)
            systems.append(system)
            for name, loss in named.items():
                losses.setdefault(name, []).append(loss)

        def observe() -> ObservedKeys:
            return self._service.release.observe_counted(
                keys, losses, systems, keep_first=keep_first
            )

        await self._service.settle(keys)
        try:
            found = await self._service.call(observe)
        except (ValueError, TypeError) as error:
            is_final = isinstance(error.__cause__, FinalLossError)
            raise ApiError(409 if is_final else 400, str(error)) from None
        self._service.metrics.outcomes(found.counts, found.without_row)
        answer: dict[str, Any] = {name: getattr(found, name) for name in OBSERVED_FIELDS}
        if found.without_row:
            answer["message"] = skipped_text(found)
        return JSONResponse(answer)

    async def status(self, request: Request) -> Response:
        """Say what holds now, as of a moment ago."""
        follower, settings = self._service.follower, self._service.release.settings
        unstored = self._service.unstored
        state = follower.state
        if not isinstance(state, ReleaseState):
            raise ApiError(503, "the store has not answered yet")
        ramp = state.step.ramp_share
        promises = ramp.promises if state.share > 0 else {}  # else the old system alone answers
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
                "state": state.told(settings),
                "warnings": await self._warnings(),
                "share": state.share,
                "step": {
                    "number": state.step.number,
                    "begun": state.step.begun,
                    "ends": None if ends is None else ends.isoformat(),
                    "keys": state.keys,
                    "computed_share": state.step.share,
                    "why": state.step.why,
                },
                "alarm": None if state.alarm is None else asdict(state.alarm),
                "target": settings.target,
                "confidence": settings.confidence,
                "guardrails": guardrails,
                "store_available": self._service.is_store_available,
                "unstored_waiting": 0 if unstored is None else unstored.waiting,
                "version": __version__,
            }
        )

    async def _warnings(self) -> list[str]:
        """What keeps the share down or looks wrong; without the store, what was known last."""
        if self._service.is_store_available:
            with suppress(ApiError):  # the store is lost just now
                self._told = list(await self._service.call(self._service.release.warnings))
        return self._told

    def _items(self, body: dict[str, Any], name: str) -> list[Any]:
        items, most = body[name], self._limits.items_per_request
        if not isinstance(items, list) or len(items) > most:
            got = f"{len(items):,}" if isinstance(items, list) else type(items).__name__
            raise ApiError(400, f"{name} must be a list of at most {most:,}, got {got}")
        return items

    def _outcome(self, given: Any, where: str) -> tuple[bytes, str, dict[str, float]]:
        if not isinstance(given, dict):
            raise ApiError(400, f"{where} must be an object, got {type(given).__name__}")
        refuse_others(given, OUTCOME_FIELDS, where)
        key = read_key(given.get("key"), f"key of {where}")
        system, losses = given.get("system"), given.get("losses")
        if system not in ("old", "new"):
            raise ApiError(
                400, f'system of {where} must be "old" or "new", as decided, got {system!r:.80}'
            )
        known = self._service.release.settings.limits
        if not isinstance(losses, dict) or not losses or not losses.keys() <= known.keys():
            raise ApiError(
                400, f"losses of {where} must have some of {list(known)}, got {losses!r:.80}"
            )
        for name, loss in losses.items():
            is_number = isinstance(loss, int | float) and not isinstance(loss, bool)
            if not is_number or not 0 <= loss <= known[name].bound:
                raise ApiError(
                    400,
                    f"loss {name!r} of {where} must be a number from 0 to {known[name].bound:g}, "
                    f"got {shown_loss(loss, known[name].bound)}",
                )
        return key, system, {name: float(loss) for name, loss in losses.items()}


def _decision(key: str | int, system: str | None) -> str:
    """The answer for a key, as JSON."""
    return f'{{"key":{encode_key(key)},{_ANSWERS[system]}}}'


_ANSWERS = {
    system: f'"system":"{system or "old"}","stored":{"false" if system is None else "true"}'
    for system in ("old", "new", None)
}
