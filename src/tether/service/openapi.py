"""The OpenAPI schema of a service."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tether._version import __version__
from tether.service.ofrep import OFREP_PATH

_TEXT, _NUMBER, _FLAG = {"type": "string"}, {"type": "number"}, {"type": "boolean"}
_SYSTEM = {"type": "string", "enum": ["old", "new"]}
_KEY = {"oneOf": [{"type": "string", "minLength": 1}, {"type": "integer"}]}
_REASON = {"type": "string", "minLength": 1, "maxLength": 1000}
_REFUSED = {
    "400": "The request is invalid.",
    "401": "A valid API key is needed.",
    "403": "The API key has not the role.",
    "413": "The body is too long.",
    "429": "Too many requests.",
}


def openapi(flag: str, guardrails: Sequence[str]) -> dict[str, Any]:
    """The schema, for the flag and the guardrails of a release."""
    losses = {
        "type": "object",
        "minProperties": 1,
        "additionalProperties": False,
        "properties": {name: {"type": "number", "minimum": 0} for name in guardrails},
    }
    decision = _object({"key": _KEY, "system": _SYSTEM, "stored": _FLAG})
    outcome = _object({"key": _KEY, "system": _SYSTEM, "losses": losses})
    context = {
        "type": "object",
        "required": ["targetingKey"],
        "properties": {"targetingKey": _TEXT},
    }
    evaluation = _object(
        {
            "key": {"type": "string", "const": flag},
            "value": {"type": ["string", "number", "boolean"]},
            "reason": {"type": "string", "enum": ["SPLIT", "UNKNOWN"]},
            "variant": _SYSTEM,
            "metadata": {"type": "object"},
        }
    )
    evaluate = _object({"context": context}, closed=False)
    one_or_many = {
        "oneOf": [_object({"key": _KEY}), _object({"keys": {"type": "array", "items": _KEY}})]
    }
    outcomes = {"type": "array", "items": outcome}
    kept = {"keep_first": _FLAG}
    reported = {
        "oneOf": [
            _object({**outcome["properties"], **kept}, optional=("keep_first",)),
            _object({"outcomes": outcomes, **kept}, optional=("keep_first",)),
        ]
    }
    decided = {"oneOf": [decision, _object({"decisions": {"type": "array", "items": decision}})]}
    status = {"type": "object", "properties": {"share": _NUMBER}}
    halted, act = _object({"halted": _FLAG}), _object({"reason": _REASON})
    advance = _object({"step": {"type": "integer"}, "reason": _REASON})
    begun = _object({"step": {"type": "integer"}, "share": _NUMBER})
    flags = _object({"flags": {"type": "array", "items": evaluation}})
    key_parameter = {"name": "key", "in": "path", "required": True, "schema": _TEXT}
    one_flag = _post("decide", "Evaluate the flag (OFREP).", evaluate, evaluation, "404")
    paths = {
        f"{OFREP_PATH}/{{key}}": {"post": one_flag["post"] | {"parameters": [key_parameter]}},
        OFREP_PATH: _post("decide", "Evaluate all flags (OFREP).", evaluate, flags, "304"),
        "/v1/decisions": _post("decide", "Which system answers.", one_or_many, decided),
        "/v1/outcomes": _post(
            "report", "Store losses.", reported, _object({"new": {"type": "integer"}}), "409", "503"
        ),
        "/v1/status": _get("read", "What holds now.", status),
        "/v1/halt": _post("operate", "Let the old system answer all keys.", act, halted, "503"),
        "/v1/resume": _post("operate", "Clear the alarms.", act, halted, "409", "503"),
        "/v1/advance": _post("operate", "End the present step.", advance, begun, "409", "503"),
        "/metrics": _get("read", "Metrics for Prometheus.", _TEXT, "text/plain"),
        "/healthz": _get(None, "Whether the process answers.", {"type": "object"}),
        "/readyz": _get(None, "Whether requests may be sent.", {"type": "object"}),
        "/openapi.json": _get(None, "This schema.", {"type": "object"}),
    }
    schemes = {
        "bearer": {"type": "http", "scheme": "bearer"},
        "header": {"type": "apiKey", "in": "header", "name": "X-API-Key"},
    }
    return {
        "openapi": "3.1.0",
        "info": {"title": f"tether: {flag}", "version": __version__},
        "paths": paths,
        "components": {"securitySchemes": schemes},
    }


def _object(
    properties: Mapping[str, Any], *, optional: Sequence[str] = (), closed: bool = True
) -> dict[str, Any]:
    """The schema of an object."""
    required = [name for name in properties if name not in optional]
    made: dict[str, Any] = {"type": "object", "required": required, "properties": dict(properties)}
    return made | {"additionalProperties": False} if closed else made


def _operation(role: str | None, summary: str, answer: Any, media: str) -> dict[str, Any]:
    answers = {"200": {"description": "Done.", "content": {media: {"schema": answer}}}}
    made: dict[str, Any] = {"summary": summary, "responses": answers}
    if role is not None:
        made["description"] = f"Needs the role {role!r}."
        made["security"] = [{"bearer": []}, {"header": []}]
    return made


def _get(role: str | None, summary: str, answer: Any, media: str = "application/json") -> Any:
    return {"get": _operation(role, summary, answer, media)}


def _post(role: str, summary: str, body: Any, answer: Any, *more: str) -> Any:
    made = _operation(role, summary, answer, "application/json")
    made["requestBody"] = {"required": True, "content": {"application/json": {"schema": body}}}
    others = {
        "304": "Nothing has changed.",
        "404": "There is no such flag.",
        "409": "It contradicts what is stored.",
        "503": "The store is unavailable: repeat the request.",
    }
    refused = _REFUSED | {status: others[status] for status in more}
    made["responses"] |= {status: {"description": text} for status, text in refused.items()}
    return {"post": made}
