"""Decisions of a release and their outcomes, as JSON and over OpenFeature (OFREP 0.3).

All of it may be repeated: a key that comes back in a step has its system, and a loss that is stored
already is not stored again. OFREP: https://github.com/open-feature/protocol. The targeting key is
the key of the release; the variant is the system. An evaluation is an assignment, and is stored
before it is answered.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from hashlib import sha256
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType
from starlette.requests import Request
from starlette.responses import Response

from tether.runs.errors import FinalLossError
from tether.service.api import JSON_TYPE, ApiError, encode, endpoint, json_response
from tether.service.metrics import ServiceMetrics
from tether.service.served import (
    Observe,
    OutcomeResult,
    ServedRelease,
    loss_columns,
    one_or_many,
)
from tether.service.settings import Flag

LONGEST_KEY = 500
"""How many bytes a key may have."""
OFREP_PATH = "/ofrep/v1/evaluate/flags"
"""Where all flags are evaluated, and below which each one is."""

KeyText = Annotated[str, Meta(min_length=1, max_length=LONGEST_KEY)]
Key = KeyText | int
System = Literal["old", "new"]


class DecisionRequest(Struct, forbid_unknown_fields=True):
    """One key, or several."""

    key: Key | UnsetType = UNSET
    keys: list[Key] | UnsetType = UNSET


class Decision(Struct):
    """Which system answers a key; without the store the old one does, and nothing counts."""

    key: Key
    system: System
    stored: bool


class Decisions(Struct):
    """Decisions in the order of the keys."""

    decisions: list[Decision]


class Outcome(Struct, forbid_unknown_fields=True):
    """What a key cost under the system that answered it, by guardrail."""

    key: Key
    system: System
    losses: Annotated[dict[str, float], Meta(min_length=1)]


class OutcomeRequest(Struct, forbid_unknown_fields=True):
    """One outcome, or several; with `keep_first` another value for a known loss is passed over."""

    key: Key | UnsetType = UNSET
    system: System | UnsetType = UNSET
    losses: Annotated[dict[str, float], Meta(min_length=1)] | UnsetType = UNSET
    outcomes: list[Outcome] | UnsetType = UNSET
    keep_first: bool = False


class Evaluation(Struct):
    """A flag of OFREP."""

    key: str
    value: str | bool | float
    reason: Literal["SPLIT", "UNKNOWN"]
    variant: System
    metadata: dict[str, bool]


class Evaluations(Struct):
    """All flags of OFREP."""

    flags: list[Evaluation]


class EvaluationError(Struct, omit_defaults=True):
    """An error of OFREP."""

    errorCode: str  # noqa: N815
    errorDetails: str  # noqa: N815
    key: str | UnsetType = UNSET


def read_key(key: str | int, name: str = "key") -> bytes:
    """A key as bytes."""
    content = str(key).encode("utf-8", "surrogatepass")
    if not 0 < len(content) <= LONGEST_KEY:
        raise ApiError(400, f"{name} must have 1 to {LONGEST_KEY} bytes, got {len(content)}")
    return content


class DecisionsApi:
    """Decisions and outcomes of one release, as JSON."""

    def __init__(self, served: ServedRelease, metrics: ServiceMetrics, most: int) -> None:
        self._served, self._metrics, self._most = served, metrics, most

    @endpoint("POST", "/v1/decisions", "decide")
    async def decide(self, request: Request, body: DecisionRequest) -> Decision | Decisions:
        """Which system answers a key, or each of many."""
        given = one_or_many(body.key, body.keys, "keys", self._most)
        keys = [read_key(each) for each in given]
        found = await self._served.decide(keys) if keys else []
        self._metrics.decisions(self._served.title, found, len(keys))
        systems: Any = ["old"] * len(keys) if found is None else [each.system for each in found]
        pairs = zip(given, systems, strict=True)
        made = [Decision(key, system, found is not None) for key, system in pairs]
        return made[0] if body.keys is UNSET else Decisions(made)

    @endpoint("POST", "/v1/outcomes", "report", 409, 503)
    async def outcomes(self, request: Request, body: OutcomeRequest) -> OutcomeResult:
        """Store the losses of a key, or of each of many: all of them or nothing."""
        one: Any = (body.key, body.system, body.losses)
        if body.outcomes is UNSET and UNSET in one:
            raise ApiError(400, "an outcome has key, system and losses; or send outcomes")
        single = UNSET if all(each is UNSET for each in one) else Outcome(*one)
        given = one_or_many(single, body.outcomes, "outcomes", self._most)
        if not given:
            return OutcomeResult(0, 0)
        named = (((read_key(x.key), x.system), f"key {x.key!r}", x.losses) for x in given)
        rows, columns = loss_columns(named, self._served.run.settings.limits, body.keep_first)
        keys, systems = [key for key, _ in rows], [system for _, system in rows]
        try:
            found = await self._served.observe(Observe(keys, columns, systems, body.keep_first))
        except FinalLossError as error:
            raise ApiError(409, str(error)) from None
        except ValueError as error:
            raise ApiError(400, str(error)) from None
        self._metrics.outcomes(self._served.title, found.new, found.without_row)
        return found


class OfrepApi:
    """The two endpoints of the protocol; every release is a flag."""

    def __init__(
        self, releases: Mapping[str, tuple[Flag, ServedRelease]], metrics: ServiceMetrics
    ) -> None:
        self._releases, self._metrics = releases, metrics

    @endpoint("POST", f"{OFREP_PATH}/{{flag}}", "decide", 404)
    async def evaluate(self, request: Request, body: bytes) -> Evaluation | Response:
        """Evaluate a flag (OFREP)."""
        name = request.path_params["flag"]
        if name not in self._releases:
            details = f"there is no flag {name!r:.120}"
            return json_response(EvaluationError("FLAG_NOT_FOUND", details, name), 404)
        key = _targeting_key(body, name)
        if isinstance(key, EvaluationError):
            return json_response(key, 400)
        return await self._evaluation(name, key)

    @endpoint("POST", OFREP_PATH, "decide", 304, results=(Evaluations,))
    async def evaluate_all(self, request: Request, body: bytes) -> Response:
        """Evaluate all flags (OFREP)."""
        key = _targeting_key(body)
        if isinstance(key, EvaluationError):
            return json_response(key, 400)
        found = await asyncio.gather(*(self._evaluation(name, key) for name in self._releases))
        content = encode(Evaluations(list(found)))
        tag = f'"{sha256(content).hexdigest()[:32]}"'
        asked = request.headers.get("if-none-match", "")
        listed = [each.strip().removeprefix("W/") for each in asked.split(",")]
        if "*" in listed or tag in listed or tag.strip('"') in listed:
            return Response(status_code=304, headers={"ETag": tag})
        return Response(content, headers={"ETag": tag}, media_type=JSON_TYPE)

    async def _evaluation(self, name: str, key: bytes) -> Evaluation:
        """The flag for a key; without the store its reason is "UNKNOWN"."""
        flag, served = self._releases[name]
        found = await served.decide([key])
        self._metrics.decisions(served.title, found, 1)
        variant: Any = "old" if found is None else found[0].system
        reason: Any = "UNKNOWN" if found is None else "SPLIT"
        value = flag.new if variant == "new" else flag.old
        return Evaluation(name, value, reason, variant, {"stored": found is not None})


def _targeting_key(content: bytes, name: str | UnsetType = UNSET) -> bytes | EvaluationError:
    """The targeting key of a request, or the protocol's error."""
    try:
        body = msgspec.json.decode(content)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return EvaluationError("PARSE_ERROR", "the body must be JSON", name)
    context = body.get("context", {}) if isinstance(body, dict) else None
    key = context.get("targetingKey", "") if isinstance(context, dict) else None
    if key == "":
        told = "the context must have a targetingKey"
        return EvaluationError("TARGETING_KEY_MISSING", told, name)
    if not isinstance(key, str):
        told = f"context must be an object whose targetingKey is text, got {key!r:.80}"
        return EvaluationError("INVALID_CONTEXT", told, name)
    try:
        return read_key(key, "targetingKey")
    except ApiError as error:
        return EvaluationError("INVALID_CONTEXT", error.message, name)
