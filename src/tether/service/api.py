"""What every endpoint has in common: its declaration, its body, its errors, and the schema.

Bodies and answers are msgspec structs: a wrong type or an unknown name is refused with its place,
and the OpenAPI schema is made from the same structs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from types import NoneType
from typing import Any, TypeVar, get_args, get_type_hints

import msgspec
from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response

from tether._version import __version__

JSON_TYPE = "application/json"
CODES = {
    400: "invalid",
    401: "unauthorized",
    403: "forbidden",
    404: "not_found",
    405: "method_not_allowed",
    408: "too_slow",
    409: "conflict",
    412: "gate_closed",
    413: "too_large",
    415: "unsupported_media_type",
    429: "too_many_requests",
    500: "internal",
    502: "bad_gateway",
    503: "unavailable",
}
"""The code that stands for each status."""
HEADERS = {
    401: {"WWW-Authenticate": "Bearer"},
    408: {"Connection": "close"},  # the rest of the body is not waited for
    413: {"Connection": "close"},
    429: {"Retry-After": "1"},
    503: {"Retry-After": "1"},
}
"""What a refusal says beside its body."""
DRAINED_BYTES, DRAINED_SECONDS = 64_000_000, 5.0
"""How much of a body that is too long is read and thrown away: else its client would see a broken
connection instead of the answer."""

encode = msgspec.json.Encoder().encode
Function = TypeVar("Function", bound=Callable[..., Any])


class ApiError(Exception):
    """A request that is refused."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status, self.message = status, message


class ErrorDetails(Struct):
    """What went wrong: a code for programs, a message for people."""

    code: str
    message: str


class Error(Struct):
    """An error."""

    error: ErrorDetails


def api_error(status: int, message: str) -> Any:
    """The body of an error."""
    return Error(ErrorDetails(CODES[status], message))


def json_response(
    content: Any, status: int = 200, headers: dict[str, str] | None = None
) -> Response:
    """A struct, or anything else that JSON can have, as a response."""
    return Response(encode(content), status, headers, JSON_TYPE)


def error_response(
    status: int, message: str, made: Callable[[int, str], Any] = api_error
) -> Response:
    """An error as JSON, in the shape that `made` gives it."""
    return json_response(made(status, message), status, HEADERS.get(status))


@dataclass(frozen=True)
class Endpoint:
    """What a service answers at one path.

    `answer` has the request and its body, and returns a response or a struct. `role` is what an API
    key needs; None if anyone may ask. `shape` makes the body of an error.
    """

    method: str
    path: str
    role: str | None
    statuses: Sequence[int] = ()
    results: Sequence[Any] = ()
    media: str = JSON_TYPE
    query: Sequence[str] = ()
    shape: Callable[[int, str], Any] = api_error
    answer: Callable[[Request, Any], Awaitable[Any]] = NotImplemented
    summary: str = ""
    body: Any = None


def endpoint(
    method: str, path: str, role: str | None, *statuses: int, **more: Any
) -> Callable[[Function], Function]:
    """Declare that a method answers at a path; `statuses` are refusals of its own.

    Its docstring is the summary, and its annotations are the body and what is answered.
    """

    def declare(function: Function) -> Function:
        function.declared = Endpoint(method, path, role, statuses, **more)  # type: ignore[attr-defined]
        return function

    return declare


def endpoints_of(api: object, prefix: str = "") -> list[Endpoint]:
    """What the methods of an object answer, below a path."""
    found = []
    for name, function in vars(type(api)).items():
        if (declared := getattr(function, "declared", None)) is None:
            continue
        hints = get_type_hints(function)
        listed = (hints["return"], *get_args(hints["return"]))
        structs = [each for each in listed if isinstance(each, type) and issubclass(each, Struct)]
        made = replace(
            declared,
            path=prefix + declared.path,
            results=declared.results or structs,
            answer=getattr(api, name),
            summary=function.__doc__,
            body=None if hints["body"] is NoneType else hints["body"],
        )
        found.append(made)
    return found


async def read_body(request: Request, most: int, seconds: float) -> bytes:
    """The whole body of a request, within a length and a time."""
    kind = request.headers.get("content-type", JSON_TYPE)
    if kind.partition(";")[0].strip().lower() != JSON_TYPE:
        raise ApiError(415, f"the content type must be application/json, got {kind!r:.80}")
    stated = request.headers.get("content-length", "0")
    is_long = not stated.isdecimal() or len(stated) > 18 or int(stated) > most
    content, read, more = b"", 0, True
    try:
        async with asyncio.timeout(seconds):
            while more and not is_long:
                part, more = await _receive(request)
                content += part
                is_long = len(content) > most
    except TimeoutError:
        raise ApiError(408, f"the body was not complete after {seconds:g} s") from None
    if not is_long:
        return content
    with suppress(TimeoutError):
        async with asyncio.timeout(DRAINED_SECONDS):
            while more and read < DRAINED_BYTES:
                part, more = await _receive(request)
                read += len(part)
    raise ApiError(413, f"a body may have at most {most:,} bytes")


async def _receive(request: Request) -> tuple[bytes, bool]:
    """The next part of a body, and whether there are more."""
    message = await request.receive()
    if message["type"] == "http.disconnect":
        raise ApiError(400, "the client has closed the connection")
    return message.get("body", b""), message.get("more_body", False)


def decode(content: bytes, kind: Any) -> Any:
    """A body as a struct."""
    try:
        return msgspec.json.decode(content, type=kind)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        told = str(error) if isinstance(error, msgspec.ValidationError) else "not valid JSON"
        raise ApiError(400, f"the body is invalid: {told:.300}") from None


def openapi(title: str, endpoints: Iterable[Endpoint]) -> dict[str, Any]:
    """The OpenAPI schema of endpoints."""
    endpoints = list(endpoints)
    kinds = {
        Error,
        *(each.body for each in endpoints),
        *(r for each in endpoints for r in each.results),
    }
    kinds -= {None, bytes}
    made, components = msgspec.json.schema_components(
        kinds, ref_template="#/components/schemas/{name}"
    )
    schemas = dict(zip(kinds, made, strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for each in endpoints:
        paths.setdefault(each.path, {})[each.method.lower()] = _operation(each, schemas)
    schemes = {
        "bearer": {"type": "http", "scheme": "bearer"},
        "header": {"type": "apiKey", "in": "header", "name": "X-API-Key"},
    }
    return {
        "openapi": "3.1.0",
        "info": {"title": f"tether: {title}", "version": __version__},
        "paths": paths,
        "components": {"securitySchemes": schemes, "schemas": components},
    }


def _operation(endpoint: Endpoint, schemas: dict[Any, Any]) -> dict[str, Any]:
    anything = {"type": "object"}
    result: Any = {"type": "string"} if endpoint.media != JSON_TYPE else anything
    if endpoint.results:
        result = {"oneOf": [schemas[each] for each in endpoint.results]}
    content = {endpoint.media: {"schema": result}}
    responses: dict[str, Any] = {"200": {"description": "Done.", "content": content}}
    made: dict[str, Any] = {"summary": endpoint.summary, "responses": responses}
    refused = set(endpoint.statuses)
    if endpoint.role is not None:
        made["description"] = f"Needs the role {endpoint.role!r}."
        made["security"] = [{"bearer": []}, {"header": []}]
        refused |= {401, 403, 429}
    if endpoint.body is not None:
        schema = schemas.get(endpoint.body, anything)
        made["requestBody"] = {"required": True, "content": {JSON_TYPE: {"schema": schema}}}
        refused |= {400, 408, 413, 415}
    path = [part[1:-1] for part in endpoint.path.split("/") if part.startswith("{")]
    text = {"type": "string"}
    parameters = [{"name": n, "in": "path", "required": True, "schema": text} for n in path]
    parameters += [{"name": n, "in": "query", "schema": text} for n in endpoint.query]
    if parameters:
        made["parameters"] = parameters
    error = {JSON_TYPE: {"schema": schemas[Error]}}
    for status in sorted(refused):
        about = CODES.get(status, "unchanged").replace("_", " ").capitalize() + "."
        responses[str(status)] = {"description": about}
        if endpoint.shape is api_error and status >= 400:
            responses[str(status)]["content"] = error
    return made
