"""What every request passes first: who asks, whether they may, and what the answer must say.

It counts and logs requests, adds headers to every answer, and turns errors into JSON. Nothing of a
request's headers or body is logged.
"""

from __future__ import annotations

import base64
import binascii
import ipaddress
import logging
import time
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from starlette.datastructures import MutableHeaders
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tether.service.access.api_keys import ROLES
from tether.service.access.body_deadline import with_deadline
from tether.service.access.rate_limit import RateLimit
from tether.service.api_errors import ApiError, error_response
from tether.service.endpoint import OTHER_ROUTE, Endpoints
from tether.service.operating.service_metrics import ServiceMetrics
from tether.service.settings.service_settings import ServiceSettings, is_loopback

ANYONE = "anyone on this machine"
"""Who acts where there are no API keys."""
SECURITY_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
"""What every answer has that says nothing else: it is not to be run, embedded or kept."""
_RAW_HEADERS = [(name.lower().encode(), each.encode()) for name, each in SECURITY_HEADERS.items()]
_ALLOWED_HEADERS = "Authorization, Content-Type, If-None-Match, X-API-Key, X-Tether-Key"
_EXPOSED_HEADERS = (
    "ETag, X-Tether-Draws, X-Tether-Id, X-Tether-Key, X-Tether-Served, X-Tether-Stored, "
    "X-Tether-System"
)

log = logging.getLogger("tether.service")


NO_KEY = "a valid API key is needed, as the header `Authorization: Bearer …` or `X-API-Key: …`"
"""What a request without a valid key is told."""


class AccessControl:
    """An ASGI application in front of another one."""

    def __init__(
        self,
        app: ASGIApp,
        settings: ServiceSettings,
        metrics: ServiceMetrics,
        endpoints: Endpoints,
    ) -> None:
        self._app, self._settings, self._metrics = app, settings, metrics
        self._endpoints = endpoints
        limits = settings.limits
        self._rate = RateLimit(limits.requests_per_second, limits.burst)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request pass, or answer it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        begun, status, route = time.perf_counter(), 0, self._endpoints.route_of(scope["path"])
        headers = _read_headers(scope)
        origin = headers.get("origin")

        async def answer(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                given = message.get("headers", ())
                names = {name.lower() for name, _ in given}
                usual = [header for header in _RAW_HEADERS if header[0] not in names]
                message["headers"] = [*given, *usual]
                if origin in self._settings.origins:
                    _allow_origin(message, origin or "")
            await send(message)

        try:
            refused = self._refused(scope, headers, route)
            quick = self._endpoints.quick_answer(scope["method"], route)
            if refused is None:
                receive = with_deadline(receive, self._settings.limits.body_seconds)
            if refused is None and quick is not None:
                adds = answer if origin is not None else send
                usual = [] if origin is not None else _RAW_HEADERS
                status = await quick.send(scope["path"], headers, receive, adds, usual)
            elif refused is None:
                await self._app(scope, receive, answer)
            else:
                await refused(scope, receive, answer)
        except ApiError as error:
            await error_response(error.status, error.message)(scope, receive, answer)
        except Exception:
            log.exception("a request failed", extra={"fields": {"route": route}})
            if status:  # the answer has begun: the connection can only be closed
                raise
            await error_response(500, "something went wrong: see the log")(scope, receive, answer)
        seconds = time.perf_counter() - begun
        self._metrics.request(route, status, seconds)
        if self._settings.log_requests:
            self._log_request(scope, route, status, seconds)

    def _refused(self, scope: Scope, headers: Mapping[str, str], route: str) -> Response | None:
        """The answer to a request that may not pass; None if it may."""
        if "transfer-encoding" in headers and "content-length" in headers:
            return _ambiguous()
        if route == OTHER_ROUTE:  # nothing passes whose role is not known
            return error_response(404, "there is no such path")
        if scope["method"] == "OPTIONS":
            return self._preflight(headers)
        keys, role = self._settings.keys, self._endpoints.role_of(route)
        if keys is None:
            client = scope.get("client")
            if client is not None and _is_elsewhere(
                client[0]
            ):  # another web server may listen everywhere
                return error_response(403, "only this machine may connect: there are no API keys")
            if not _is_local(headers.get("host", "")):
                return error_response(403, "the host must be this machine: there are no API keys")
            name, roles = ANYONE, frozenset(ROLES)
        elif role is None:
            return None  # also at any rate: whoever watches over the service asks here
        else:
            found = keys.find(_secret(headers))
            if found is None:
                if not self._rate.allows(""):
                    return error_response(429, "too many requests without a valid API key")
                return error_response(401, NO_KEY)
            name, roles = found.name, found.roles
            scope["tether.key"] = found
        if role is not None and role not in roles:
            return error_response(403, f"the API key {name!r} has not the role {role!r}")
        if not self._rate.allows(name):
            return error_response(429, "too many requests")
        scope["tether.name"], scope["tether.roles"] = name, roles
        return None

    def _preflight(self, headers: Mapping[str, str]) -> Response:
        """The answer to a browser that asks whether a page may send a request."""
        if headers.get("origin") not in self._settings.origins:
            return error_response(403, "requests from this origin are not allowed")
        allowed = {
            "Access-Control-Allow-Methods": "GET, POST",
            "Access-Control-Allow-Headers": _ALLOWED_HEADERS,
            "Access-Control-Max-Age": "600",
        }
        return Response(status_code=204, headers=allowed)

    def _log_request(self, scope: Scope, route: str, status: int, seconds: float) -> None:
        fields: dict[str, Any] = {
            "method": scope["method"],
            "route": route,
            "status": status,
            "milliseconds": round(1000 * seconds, 3),
            "name": scope.get("tether.name"),
        }
        log.info("request", extra={"fields": fields})


def _ambiguous() -> Response:
    """The answer to a request with two lengths: a proxy may take it for another one than we do.

    What follows on its connection may be part of it, and is not read.
    """
    text = "a request has either a Content-Length or a Transfer-Encoding"
    refused = error_response(400, text)
    refused.headers["Connection"] = "close"
    return refused


def _allow_origin(message: Message, origin: str) -> None:
    headers = MutableHeaders(raw=message["headers"])
    headers["Access-Control-Allow-Origin"] = origin
    headers["Access-Control-Expose-Headers"] = _EXPOSED_HEADERS
    headers["Cross-Origin-Resource-Policy"] = "cross-origin"
    headers.add_vary_header("Origin")
    message["headers"] = headers.raw


def _read_headers(scope: Scope) -> dict[str, str]:
    """The headers of a request; of those that are there twice, the first."""
    found: dict[str, str] = {}
    for name, value in scope["headers"]:
        found.setdefault(name.decode("latin-1").lower(), value.decode("latin-1"))
    return found


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


@lru_cache(maxsize=256)
def _is_elsewhere(client: str) -> bool:
    """Whether a request comes from another machine, as far as the web server tells."""
    try:
        return not ipaddress.ip_address(client).is_loopback
    except ValueError:  # no address, such as that of a local socket
        return False
