"""OpenFeature over HTTP: OFREP 0.3, https://github.com/open-feature/protocol.

The targeting key is the key of the release; the variant is the system. An evaluation is an
assignment, and is stored before it is answered.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from hashlib import sha256
from typing import Any, Literal

import msgspec
from msgspec import UNSET, Struct, UnsetType
from starlette.requests import Request
from starlette.responses import Response

from tether.service.api import JSON_TYPE, ApiError, encode, endpoint, json_response
from tether.service.releases import ServedRelease, System, read_key
from tether.service.settings import Flag

OFREP_PATH = "/ofrep/v1/evaluate/flags"
"""Where all flags are evaluated, and below which each one is."""


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


class OfrepApi:
    """The two endpoints of the protocol; every release is a flag."""

    def __init__(self, releases: Mapping[str, tuple[Flag, ServedRelease]]) -> None:
        self._releases = releases

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
