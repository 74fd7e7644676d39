"""Decisions of a release and their outcomes, as JSON and over OpenFeature (OFREP 0.3).

All of it may be repeated: a key that comes back in a step has its system, and a loss that is stored
already is not stored again. OFREP: https://github.com/open-feature/protocol. The targeting key is
the key of the release; the variant is the system. An evaluation is an assignment, and is stored
before it is answered.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType
from starlette.requests import Request
from starlette.responses import Response

from tether.service.api import JSON_TYPE, ApiError, encode, endpoint, json_response
from tether.service.metrics import ServiceMetrics
from tether.service.served import ServedRelease, check_count, loss_columns
from tether.service.settings import Flag

LONGEST_KEY = 500
"""How many bytes a key may have."""
OFREP_PATH = "/ofrep/v1/evaluate/flags"
"""Where all flags are evaluated, and below which each one is."""

Key = Annotated[str, Meta(min_length=1, max_length=LONGEST_KEY)] | int
System = Literal["old", "new"]


class OneKey(Struct, forbid_unknown_fields=True):
    """A key."""

    key: Key


class ManyKeys(Struct, forbid_unknown_fields=True):
    """Several keys."""

    keys: list[Key]


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


class OneOutcome(Outcome, forbid_unknown_fields=True):
    """An outcome; with `keep_first` another value for a loss that is known is passed over."""

    keep_first: bool = False


class ManyOutcomes(Struct, forbid_unknown_fields=True):
    """Several outcomes."""

    outcomes: list[Outcome]
    keep_first: bool = False


class OutcomeResult(Struct):
    """How many losses are new, and how many outcomes the system has no row of in the store."""

    new: int
    without_row: int


class Evaluation(Struct):
    """A flag of OFREP; without the store its reason is "UNKNOWN"."""

    key: str
    value: str | bool | float
    reason: Literal["SPLIT", "UNKNOWN"]
    variant: System
    metadata: dict[str, bool]


class Evaluations(Struct):
    """All flags of OFREP."""

    flags: list[Evaluation]


class EvaluationContext(Struct, frozen=True):
    """For whom a flag is evaluated (OFREP)."""

    targetingKey: str = ""  # noqa: N815


class EvaluationRequest(Struct):
    """A request of OFREP."""

    context: EvaluationContext = EvaluationContext()


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

    def __init__(self, served: ServedRelease, metrics: ServiceMetrics) -> None:
        self._served, self._metrics = served, metrics

    @endpoint("POST", "/v1/decisions", "decide")
    async def decide(self, request: Request, body: OneKey | ManyKeys) -> Decision | Decisions:
        """Which system answers a key, or each of many."""
        given = [body.key] if isinstance(body, OneKey) else body.keys
        check_count(given, "keys")
        keys = [read_key(each) for each in given]
        found = await self._served.decide(keys) if keys else []
        self._metrics.decisions(self._served.title, found, len(keys))
        systems: Any = ["old"] * len(keys) if found is None else [each.system for each in found]
        pairs = zip(given, systems, strict=True)
        made = [Decision(key, system, found is not None) for key, system in pairs]
        return made[0] if isinstance(body, OneKey) else Decisions(made)

    @endpoint("POST", "/v1/outcomes", "report")
    async def outcomes(self, request: Request, body: OneOutcome | ManyOutcomes) -> OutcomeResult:
        """Store the losses of a key, or of each of many: all of them or nothing."""
        given: Sequence[Outcome] = [body] if isinstance(body, OneOutcome) else body.outcomes
        check_count(given, "outcomes")
        if not given:
            return OutcomeResult(0, 0)
        named = (((read_key(each.key), each.system), each.losses) for each in given)
        limits = self._served.run.settings.limits
        rows, columns = loss_columns(named, limits, body.keep_first)
        keys, systems = [key for key, _ in rows], [system for _, system in rows]
        keep = {"keep_first": body.keep_first}
        found = OutcomeResult(*await self._served.observe(keys, systems, columns, **keep))
        self._metrics.outcomes(self._served.title, found.new, found.without_row)
        return found


class OfrepApi:
    """The two endpoints of the protocol; every release is a flag."""

    def __init__(
        self, releases: Mapping[str, tuple[Flag, ServedRelease]], metrics: ServiceMetrics
    ) -> None:
        self._releases, self._metrics = releases, metrics

    @endpoint("POST", f"{OFREP_PATH}/{{flag}}", "decide")
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

    @endpoint("POST", OFREP_PATH, "decide")
    async def evaluate_all(self, request: Request, body: bytes) -> Evaluations | Response:
        """Evaluate all flags (OFREP)."""
        key = _targeting_key(body)
        if isinstance(key, EvaluationError):
            return json_response(key, 400)
        found = await asyncio.gather(*(self._evaluation(name, key) for name in self._releases))
        content = encode(Evaluations(list(found)))
        tag = f'"{sha256(content).hexdigest()[:32]}"'
        is_known = request.headers.get("if-none-match", "").removeprefix("W/") == tag
        headers = {"ETag": tag, "Content-Type": JSON_TYPE}
        return Response(b"" if is_known else content, 304 if is_known else 200, headers)

    async def _evaluation(self, name: str, key: bytes) -> Evaluation:
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
        key = msgspec.json.decode(content, type=EvaluationRequest).context.targetingKey
        if key:
            return read_key(key, "targetingKey")
        told = "the context must have a targetingKey"
        return EvaluationError("TARGETING_KEY_MISSING", told, name)
    except (msgspec.ValidationError, ApiError) as error:
        return EvaluationError("INVALID_CONTEXT", str(error), name)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return EvaluationError("PARSE_ERROR", "the body must be JSON", name)
