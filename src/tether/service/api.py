"""What every endpoint has in common: its declaration, its body, its errors, and the schema.

Bodies and answers are msgspec structs: a wrong type or an unknown name is refused with its place,
and the OpenAPI schema is made from the same structs. Nothing of a request's headers or body is
logged.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from types import UnionType
from typing import Any, TypeVar, get_args, get_type_hints

import msgspec
from msgspec import Struct
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from tether._version import __version__

JSON_TYPE = "application/json"
HEADERS = {
    401: {"WWW-Authenticate": "Bearer"},
    413: {"Connection": "close"},
    429: {"Retry-After": "60"},
    503: {"Retry-After": "1"},
}
"""What a refusal says beside its body."""
DRAINED_BYTES = 64_000_000
"""How much of a body that is too long is read and thrown away: otherwise its client would see a
broken connection instead of the answer."""

Error = dict[str, dict[str, str | None]]
encode = msgspec.json.Encoder().encode
Function = TypeVar("Function", bound=Callable[..., Any])
log = logging.getLogger("tether.service")


class ApiError(Exception):
    """A request that is refused, with its response; `body` is that of another protocol."""

    def __init__(self, status: int, message: str, body: dict[str, Any] | None = None) -> None:
        super().__init__(message)
        self.response = json_response(
            body or error_body(status, message), status, HEADERS.get(status)
        )


def error_body(status: int, message: str) -> dict[str, Any]:
    """The body of an error, which OpenAI's clients understand too."""
    kind = "invalid_request_error" if status < 500 else "server_error"
    return {"error": {"message": message, "type": kind, "param": None, "code": None}}


def json_response(
    content: Any, status: int = 200, headers: dict[str, str] | None = None
) -> Response:
    """A struct, or anything else that JSON can have, as a response."""
    return Response(encode(content), status, headers, JSON_TYPE)


class Endpoint:
    """What a method of `api` answers at a path, as an application.

    `role` is what an API key needs; None if anyone may ask. `status` is that of an answer. The
    query is one type; of those of bodies and results one is sent.
    """

    def __init__(self, api: object, function: Any, prefix: str) -> None:
        self.method, path, self.role, self.status, self.media = function.declared
        self.path, self.summary = prefix + path, function.__doc__
        self.answer: Callable[..., Awaitable[Any]] = function.__get__(api)
        hints = get_type_hints(function)
        self.query: type[Struct] | None = hints.get("query")
        self.bodies = kinds_of(hints["body"]) if "body" in hints else []
        self.results = kinds_of(hints["return"])

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, if whoever asks may; every error is JSON."""
        service, request = scope["app"].state.service, Request(scope, receive)
        begun, status = time.perf_counter(), 0

        async def answer(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            service.access.admit(request, self.role)
            given: dict[str, Any] = {}
            if self.query is not None:
                given["query"] = read_query(request, self.query)
            if self.bodies:
                given["body"] = decode(await read_body(request, service.most_bytes), self.bodies)
            made = await self.answer(request, **given)
            response = made if isinstance(made, Response) else json_response(made, self.status)
            await response(scope, receive, answer)
        except Exception as error:
            refused = error
            if not isinstance(refused, ApiError):
                log.exception("a request to %s failed", self.path)
                refused = ApiError(500, "something went wrong: see the log")
            if status:  # the answer has begun: the connection can only be closed
                raise
            await refused.response(scope, receive, answer)
        service.metrics.of("http_requests", self.path, str(status)).inc()
        spent = time.perf_counter() - begun
        service.metrics.of("http_request_seconds", self.path).observe(spent)


def endpoint(
    method: str, path: str, role: str | None, status: int = 200, media: str = JSON_TYPE
) -> Callable[[Function], Function]:
    """Declare that a method answers at a path.

    Its docstring is the summary. Its annotations say what it gets beside the request (`query` and
    `body`, where it has them) and what is answered. A body may be one of several structs, which
    are told apart by their first fields.
    """

    def declare(function: Function) -> Function:
        function.declared = method, path, role, status, media  # type: ignore[attr-defined]
        return function

    return declare


def endpoints_of(api: object, prefix: str = "") -> list[Endpoint]:
    """What the methods of an object answer, below a path."""
    functions = (getattr(type(api), name) for name in dir(type(api)))
    return [Endpoint(api, each, prefix) for each in functions if hasattr(each, "declared")]


def kinds_of(hint: Any) -> list[Any]:
    """The types that an annotation allows, as far as the schema describes them."""
    given = get_args(hint) if isinstance(hint, UnionType) else (hint,)
    return [each for each in given if each is not Response]


async def read_body(request: Request, most: int) -> bytes:
    """The whole body of a request, within a length."""
    kind = request.headers.get("content-type", JSON_TYPE)
    if kind.partition(";")[0].strip().lower() != JSON_TYPE:
        raise ApiError(415, f"the content type must be application/json, got {kind!r:.80}")
    content, read = bytearray(), 0
    try:
        async for part in request.stream():
            read += len(part)
            if read <= most:
                content += part
            elif read > DRAINED_BYTES:
                break
    except ClientDisconnect:
        raise ApiError(400, "the client has closed the connection") from None
    if read > most:
        raise ApiError(413, f"a body may have at most {most:,} bytes")
    return bytes(content)


def decode(content: bytes, kinds: Sequence[Any]) -> Any:
    """A body as the struct whose first field it has, or as the only kind that there is."""
    kind = kinds[0]
    try:
        content.decode()  # not all of it is looked at below
        if kind is bytes:
            return content
        if len(kinds) > 1:
            given = msgspec.json.decode(content, type=dict[str, msgspec.Raw])
            names = [each.__struct_fields__[0] for each in kinds]
            if not any(name in given for name in names):
                raise ApiError(400, f"the body must have either {' or '.join(names)}")
            kind = kinds[[name in given for name in names].index(True)]
        return msgspec.json.decode(content, type=kind)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        told = str(error) if isinstance(error, msgspec.ValidationError) else "not valid JSON"
        raise ApiError(400, f"the body is invalid: {told:.300}") from None


def read_query(request: Request, kind: type[Struct]) -> Struct:
    """The query of a URL as a struct."""
    try:
        return msgspec.convert(dict(request.query_params), kind, strict=False)
    except msgspec.ValidationError as error:
        raise ApiError(400, f"the query is invalid: {error}") from None


def openapi(title: str, endpoints: Sequence[Endpoint]) -> dict[str, Any]:
    """The OpenAPI schema of endpoints."""
    sent = {kind for each in endpoints for kind in (*each.bodies, *each.results)}
    kinds = [Error, *(sent - {bytes})]
    made, components = msgspec.json.schema_components(
        kinds, ref_template="#/components/schemas/{name}"
    )
    schemas = dict(zip(kinds, made, strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for each in endpoints:
        paths.setdefault(each.path, {})[each.method.lower()] = _operation(each, schemas)
    schemes = {"bearer": {"type": "http", "scheme": "bearer"}}
    return {
        "openapi": "3.1.0",
        "info": {"title": f"tether: {title}", "version": __version__},
        "paths": paths,
        "components": {"securitySchemes": schemes, "schemas": components},
    }


def _operation(endpoint: Endpoint, schemas: dict[Any, Any]) -> dict[str, Any]:
    """One endpoint in the schema; errors are described by the hundreds of their statuses."""

    def content(kinds: Iterable[Any], media: str = JSON_TYPE) -> dict[str, Any]:
        known = [schemas[each] for each in kinds if each in schemas]
        anything = {"type": "object" if media == JSON_TYPE else "string"}
        return {media: {"schema": {"oneOf": known} if known else anything}}

    refusal = {"description": "Refused, or failed.", "content": content([Error])}
    done = {"description": "Done.", "content": content(endpoint.results, endpoint.media)}
    responses = {str(endpoint.status): done, "4XX": refusal, "5XX": refusal}
    path = [part[1:-1] for part in endpoint.path.split("/") if part.startswith("{")]
    query = () if endpoint.query is None else endpoint.query.__struct_fields__
    text = {"schema": {"type": "string"}}
    parameters = [{"name": name, "in": "path", "required": True, **text} for name in path]
    parameters += [{"name": name, "in": "query", **text} for name in query]
    made = {"summary": endpoint.summary, "responses": responses, "parameters": parameters}
    if endpoint.role is not None:
        made["description"] = f"Needs the role {endpoint.role!r}."
        made["security"] = [{"bearer": []}]
    if endpoint.bodies:
        made["requestBody"] = {"required": True, "content": content(endpoint.bodies)}
    return made
