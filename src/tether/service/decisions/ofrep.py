"""The OpenFeature Remote Evaluation Protocol, version 0.3: a release as one feature flag.

https://github.com/open-feature/protocol. The targeting key is the key of the release; the variant
is the system, "old" or "new". An evaluation is an assignment, and is stored before it is answered.
"""

from __future__ import annotations

from hashlib import sha256
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from tether.service.api_errors import ApiError
from tether.service.content_answer import ContentAnswer
from tether.service.endpoint import Endpoint
from tether.service.json_schemas import SYSTEM_SCHEMA, TEXT_SCHEMA, list_schema, object_schema
from tether.service.request_body import encode_json, parse_object, read_content, read_key
from tether.service.service import Service

OFREP_PATH = "/ofrep/v1/evaluate/flags"
"""Where all flags are evaluated, and below which each one is."""
_PARSE_ERROR, _INVALID, _NO_KEY = "PARSE_ERROR", "INVALID_CONTEXT", "TARGETING_KEY_MISSING"


class EvaluationError(Exception):
    """A request that the protocol has an error code for."""

    def __init__(self, code: str, details: str) -> None:
        super().__init__(details)
        self.code, self.details = code, details


class Ofrep:
    """The two endpoints of the protocol."""

    def __init__(self, service: Service) -> None:
        self._service, self._settings = service, service.settings

    def endpoints(self) -> list[Endpoint]:
        """What is answered here."""
        flag = object_schema(
            {
                "key": {"type": "string", "const": self._settings.flag},
                "value": {"type": ["string", "number", "boolean"]},
                "reason": {"type": "string", "enum": ["SPLIT", "UNKNOWN"]},
                "variant": SYSTEM_SCHEMA,
                "metadata": {"type": "object"},
            }
        )
        context = object_schema({"targetingKey": TEXT_SCHEMA}, closed=False)
        body = object_schema({"context": context}, closed=False)
        flags = object_schema({"flags": list_schema(flag)})
        one, every = "Evaluate the flag (OFREP).", "Evaluate all flags (OFREP)."
        return [
            Endpoint(
                "POST", f"{OFREP_PATH}/{{key}}", "decide",
                ContentAnswer(self.evaluate, self._settings.limits.body_bytes), one, body, flag,
                statuses=[404],
            ),
            Endpoint(
                "POST", OFREP_PATH, "decide", self.evaluate_all, every, body, flags, statuses=[304]
            ),
        ]  # fmt: skip

    async def evaluate(self, content: bytes, flag: str) -> tuple[int, bytes]:
        """Evaluate one flag."""
        if flag != self._settings.flag:
            missing = {"key": flag, "errorCode": "FLAG_NOT_FOUND"}
            missing["errorDetails"] = f"there is no flag {flag!r:.120}"
            return 404, encode_json(missing)
        try:
            return 200, encode_json(await self._evaluation(_key(content)))
        except EvaluationError as error:
            wrong = {"key": flag, "errorCode": error.code, "errorDetails": error.details}
            return 400, encode_json(wrong)

    async def evaluate_all(self, request: Request) -> Response:
        """Evaluate all flags: the one that there is."""
        try:
            limit = self._settings.limits.body_bytes
            content = await read_content(request.headers, request.receive, limit)
            evaluation = await self._evaluation(_key(content))
        except EvaluationError as error:
            return JSONResponse({"errorCode": error.code, "errorDetails": error.details}, 400)
        tag = f'"{sha256(repr(sorted(evaluation.items())).encode()).hexdigest()[:32]}"'
        if _is_among(tag, request.headers.get("if-none-match", "")):
            return Response(status_code=304, headers={"ETag": tag})
        return JSONResponse({"flags": [evaluation]}, headers={"ETag": tag})

    async def _evaluation(self, key: bytes) -> dict[str, Any]:
        """The flag for a key; without the store its reason is "UNKNOWN"."""
        system = (await self._service.decide([key]))[0]
        variant = system or "old"
        return {
            "key": self._settings.flag,
            "value": self._settings.values[variant],
            "reason": "UNKNOWN" if system is None else "SPLIT",
            "variant": variant,
            "metadata": {"stored": system is not None},
        }


def _key(content: bytes) -> bytes:
    """The targeting key of a request."""
    try:
        body = parse_object(content)
    except ApiError as error:
        raise EvaluationError(_PARSE_ERROR, error.message) from None
    context = body.get("context")
    if context is None or (isinstance(context, dict) and "targetingKey" not in context):
        raise EvaluationError(_NO_KEY, "the context must have a targetingKey")
    if not isinstance(context, dict):
        raise EvaluationError(_INVALID, f"context must be an object, got {context!r:.80}")
    key = context["targetingKey"]
    if key == "":
        raise EvaluationError(_NO_KEY, "the targetingKey is empty")
    if not isinstance(key, str):
        raise EvaluationError(_INVALID, f"targetingKey must be text, got {key!r:.80}")
    try:
        return read_key(key, "targetingKey")
    except ApiError as error:
        raise EvaluationError(_INVALID, error.message) from None


def _is_among(tag: str, header: str) -> bool:
    """Whether a tag is one of If-None-Match, compared weakly; clients may leave out the quotes."""
    listed = [each.strip().removeprefix("W/") for each in header.split(",")]
    return "*" in listed or tag in listed or tag.strip('"') in listed
