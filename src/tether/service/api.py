"""What every endpoint has in common: its declaration, its body, its errors, and the schema.

Bodies and answers are msgspec structs: a wrong type or an unknown name is refused with its place,
and the OpenAPI schema is made from the same structs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

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
DRAINED_BYTES, DRAINED_SECONDS = 64_000_000, 5.0
"""How much of a body that is too long is read and thrown away: else its client would see a broken
connection instead of the answer."""

encode = msgspec.json.Encoder().encode


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


def error_response(
    status: int, message: str, made: Callable[[int, str], Any] = api_error
) -> Response:
    """An error as JSON, in the shape that `made` gives it."""
    headers: dict[str, str] = {}
    if status in (429, 503):
        headers["Retry-After"] = "1"
    if status in (408, 413):  # the rest of the body is not waited for
        headers["Connection"] = "close"
    if status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    return Response(encode(made(status, message)), status, headers, JSON_TYPE)


Answer = Callable[[Request, Any], Awaitable[Any]]


@dataclass(frozen=True)
class Endpoint:
    """What a service answers at one path.

    `answer` has the request and its body, and returns a response or a struct. `role` is what an API
    key needs; None if anyone may ask. `shape` makes the body of an error.
    """

    method: str
    path: str
    role: str | None
    answer: Answer
    summary: str
    body: Any = None
    results: Sequence[Any] = ()
    statuses: Sequence[int] = ()
    media: str = JSON_TYPE
    query: Sequence[str] = ()
    shape: Callable[[int, str], Any] = api_error

    def under(self, prefix: str) -> Endpoint:
        """The same below a path."""
        return Endpoint(**{**vars(self), "path": prefix + self.path})


class Bodies:
    """Reads bodies of requests, within a length and a time."""

    def __init__(self, most: int, seconds: float) -> None:
        self._most, self._seconds = most, seconds
        self._decoders: dict[Any, msgspec.json.Decoder[Any]] = {}

    async def read(self, request: Request) -> bytes:
        """The whole body."""
        headers = request.headers
        kind = headers.get("content-type", JSON_TYPE)
        if kind.partition(";")[0].strip().lower() != JSON_TYPE:
            raise ApiError(415, f"the content type must be application/json, got {kind!r:.80}")
        stated = headers.get("content-length", "0")
        if not stated.isdecimal() or len(stated) > 18 or int(stated) > self._most:
            raise await self._too_long(request)
        content: bytes = b""
        try:
            async with asyncio.timeout(self._seconds):
                while True:
                    message = await request.receive()
                    if message["type"] == "http.disconnect":
                        raise ApiError(400, "the client has closed the connection")
                    content += message.get("body", b"")
                    if len(content) > self._most:
                        raise await self._too_long(request, len(content))
                    if not message.get("more_body", False):
                        return content
        except TimeoutError:
            raise ApiError(408, f"the body was not complete after {self._seconds:g} s") from None

    def decode(self, content: bytes, kind: Any) -> Any:
        """A body as a struct."""
        decoder = self._decoders.get(kind)
        if decoder is None:
            decoder = self._decoders[kind] = msgspec.json.Decoder(kind)
        try:
            return decoder.decode(content)
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
            told = str(error) if isinstance(error, msgspec.ValidationError) else "not valid JSON"
            raise ApiError(400, f"the body is invalid: {told:.300}") from None

    async def _too_long(self, request: Request, read: int = 0) -> ApiError:
        try:
            async with asyncio.timeout(DRAINED_SECONDS):
                while read < DRAINED_BYTES:
                    message = await request.receive()
                    read += len(message.get("body", b""))
                    if message["type"] == "http.disconnect" or not message.get("more_body", False):
                        break
        except TimeoutError:
            pass
        return ApiError(413, f"a body may have at most {self._most:,} bytes")


def openapi(title: str, endpoints: Iterable[Endpoint]) -> dict[str, Any]:
    """The OpenAPI schema of endpoints."""
    endpoints = list(endpoints)
    kinds = {Error}
    for each in endpoints:
        kinds |= {each.body} if each.body not in (None, bytes) else set()
        kinds |= set(each.results)
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
