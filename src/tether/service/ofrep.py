"""OpenFeature over HTTP: OFREP 0.3, https://github.com/open-feature/protocol.

The targeting key is the key of the release; the variant is the system. An evaluation is an
assignment, and is stored before it is answered.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Literal

from msgspec import Struct
from starlette.requests import Request

from tether.service.api import ApiError, endpoint
from tether.service.releases import Key, ServedRelease, System, read_key
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


class EvaluationContext(Struct, frozen=True):
    """For whom a flag is evaluated (OFREP)."""

    targetingKey: Key | None = None  # noqa: N815


class EvaluationRequest(Struct):
    """A request of OFREP."""

    context: EvaluationContext = EvaluationContext()


class OfrepApi:
    """The two endpoints of the protocol; every release is a flag."""

    def __init__(self, releases: Mapping[str, tuple[Flag, ServedRelease]]) -> None:
        self._releases = releases

    @endpoint("POST", f"{OFREP_PATH}/{{flag}}", "decide")
    async def evaluate(self, request: Request, body: EvaluationRequest) -> Evaluation:
        """Evaluate a flag (OFREP)."""
        name = request.path_params["flag"]
        if name not in self._releases:
            raise refusal("FLAG_NOT_FOUND", f"there is no flag {name!r:.120}", name, 404)
        return await self._evaluation(name, targeting_key(body, name))

    @endpoint("POST", OFREP_PATH, "decide")
    async def evaluate_all(
        self, request: Request, body: EvaluationRequest
    ) -> dict[str, list[Evaluation]]:
        """Evaluate all flags (OFREP)."""
        key = targeting_key(body)
        found = await asyncio.gather(*(self._evaluation(name, key) for name in self._releases))
        return {"flags": found}

    async def _evaluation(self, name: str, key: bytes) -> Evaluation:
        flag, served = self._releases[name]
        ((system, _, stored),) = await served.decide([key])
        value, told = flag.new if system == "new" else flag.old, {"stored": stored}
        return Evaluation(name, value, "SPLIT" if stored else "UNKNOWN", system, told)


def targeting_key(asked: EvaluationRequest, flag: str | None = None) -> bytes:
    """The targeting key of a request."""
    key = asked.context.targetingKey
    if key is None or key == "":
        raise refusal("TARGETING_KEY_MISSING", "the context must have a targetingKey", flag)
    try:
        return read_key(key, "targetingKey")
    except ApiError as error:
        raise refusal("INVALID_CONTEXT", str(error), flag) from None


def refusal(code: str, details: str, flag: str | None, status: int = 400) -> ApiError:
    """An error of the protocol."""
    told = {"errorCode": code, "errorDetails": details}
    return ApiError(status, details, told if flag is None else told | {"key": flag})
