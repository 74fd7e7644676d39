"""What every request passes: who asks, whether they may, and what the answer must say.

It counts requests, adds headers to every answer, and turns errors into JSON. Nothing of a
request's headers or body is logged.
"""

from __future__ import annotations

import base64
import binascii
import logging
import time
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tether.service.api import ApiError, Endpoint, decode, error_response, json_response, read_body
from tether.service.keys import ROLES, KeyFile
from tether.service.metrics import ServiceMetrics
from tether.service.settings import ServiceSettings, is_loopback

ANYONE = "anyone on this machine"
"""Who acts where there are no API keys."""
SECURITY_HEADERS = (
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cache-control", b"no-store"),
)
"""What every answer has that says nothing else: it is not to be run, embedded or kept."""
ALLOWED_HEADERS = ("Authorization", "Content-Type", "If-None-Match", "X-API-Key", "X-Tether-Key")
OWN_HEADERS = ("Draws", "Id", "Key", "Served", "Stored", "System")
EXPOSED_HEADERS = ("ETag", *(f"X-Tether-{name}" for name in OWN_HEADERS))
NO_KEY = "a valid API key is needed, as the header `Authorization: Bearer …` or `X-API-Key: …`"
MOST_CLIENTS = 10_000
"""How many clients the rates of which are remembered."""

log = logging.getLogger("tether.service")


class RateLimit:
    """Lets each client send `per_second` requests on average, and `burst` of them at once."""

    def __init__(self, per_second: float, burst: float) -> None:
        self._per_second, self._burst = per_second, burst
        self._buckets: dict[str, tuple[float, float]] = {}

    def allows(self, name: str) -> bool:
        """Whether a client may send a request now, which is then counted."""
        now = time.monotonic()
        left, before = self._buckets.get(name, (self._burst, now))
        left = min(self._burst, left + (now - before) * self._per_second)
        allowed = left >= 1
        if name not in self._buckets and len(self._buckets) >= MOST_CLIENTS:
            del self._buckets[next(iter(self._buckets))]
        self._buckets[name] = (left - 1 if allowed else left), now
        return allowed


class Access:
    """Who may ask for what, and what every answer says; it answers unknown paths."""

    def __init__(
        self, settings: ServiceSettings, keys: KeyFile | None, metrics: ServiceMetrics
    ) -> None:
        self.settings, self.keys, self.metrics = settings, keys, metrics
        per_minute = settings.limits.wrong_keys_per_minute
        self._wrong = RateLimit(per_minute / 60, max(5, per_minute / 6))

    def around(self, router: ASGIApp) -> ASGIApp:
        """The router with the headers of every answer, and with errors outside of any endpoint."""

        async def application(scope: Scope, receive: Receive, send: Send) -> None:
            async def add(message: Message) -> None:
                if message["type"] == "http.response.start":
                    given = message.get("headers", [])
                    names = {name for name, _ in given}
                    usual = [each for each in SECURITY_HEADERS if each[0] not in names]
                    message["headers"] = [*given, *usual]
                await send(message)

            try:
                await router(scope, receive, add if scope["type"] == "http" else send)
            except HTTPException as error:
                status = error.status_code
                words = {404: "there is no such path", 405: "another method is needed here"}
                self.metrics.request("other", status, 0.0)
                response = error_response(status, words.get(status, error.detail))
                await response(scope, receive, add)

        if not (origins := self.settings.access.origins):
            return application
        return CORSMiddleware(
            application,
            allow_origins=origins,
            allow_methods=("GET", "POST"),
            allow_headers=ALLOWED_HEADERS,
            expose_headers=EXPOSED_HEADERS,
        )

    def admit(self, request: Request, role: str | None) -> None:
        """Note who asks; an error if they may not."""
        scope, headers = request.scope, request.headers
        if "transfer-encoding" in headers and "content-length" in headers:
            raise ApiError(400, "a request has either a Content-Length or a Transfer-Encoding")
        client = scope.get("client")
        if self.keys is None:
            if client is not None and client[0] and not is_loopback(client[0]):
                raise ApiError(403, "only this machine may connect: there are no API keys")
            if not _is_local(headers.get("host", "")):  # another name that leads here
                raise ApiError(403, "the host must be this machine: there are no API keys")
            name, roles = ANYONE, frozenset(ROLES)
        elif role is None:
            return
        else:
            found = self.keys.find(_secret(headers))
            if found is None:
                if not self._wrong.allows("" if client is None else client[0]):
                    raise ApiError(429, "too many requests without a valid API key")
                raise ApiError(401, NO_KEY)
            name, roles = found.name, frozenset[str](found.roles)
            scope["tether.key"] = found
        if role is not None and role not in roles:
            raise ApiError(403, f"the API key {name!r} lacks the role {role!r}")
        scope["tether.name"], scope["tether.roles"] = name, roles


class Handler:
    """An endpoint as an application, for whoever may ask; everything else is an error as JSON.

    It is a class, since a route takes a function for something else.
    """

    def __init__(self, access: Access, endpoint: Endpoint) -> None:
        self._access, self._endpoint = access, endpoint

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        access, endpoint = self._access, self._endpoint
        begun, status = time.perf_counter(), 0

        async def answer(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        request, limits = Request(scope, receive), access.settings.limits
        try:
            access.admit(request, endpoint.role)
            body: Any = None
            if endpoint.body is not None:
                body = await read_body(request, limits.body_bytes, limits.body_seconds)
                if endpoint.body is not bytes:
                    body = decode(body, endpoint.body)
            made = await endpoint.answer(request, body)
            response = made if isinstance(made, Response) else json_response(made)
            await response(scope, receive, answer)
        except Exception as error:
            told, message = 500, "something went wrong: see the log"
            if isinstance(error, ApiError):
                told, message = error.status, error.message
            else:
                log.exception("a request failed", extra={"fields": {"route": endpoint.path}})
            if status:  # the answer has begun: the connection can only be closed
                raise
            await error_response(told, message, endpoint.shape)(scope, receive, answer)
        access.metrics.request(endpoint.path, status, time.perf_counter() - begun)


def _secret(headers: Mapping[str, str]) -> str:
    """The API key that a request has; empty if it has none.

    Some programs can only send the user and password of a URL: the key is then the password.
    """
    scheme, _, token = headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer":
        return token.strip()
    if scheme.lower() == "basic":
        try:
            return base64.b64decode(token.strip(), validate=True).decode().partition(":")[2]
        except (binascii.Error, ValueError):
            return ""
    return headers.get("x-api-key", "")


@lru_cache(maxsize=256)
def _is_local(host: str) -> bool:
    """Whether a Host header names this machine, and not a name that leads here."""
    name = host.rpartition(":")[0] if host.rpartition(":")[2].isdecimal() else host
    return is_loopback(name.removeprefix("[").removesuffix("]").lower())
