"""One upstream: a server that speaks OpenAI's protocol, asked within limits of time.

An answer that is not streamed is read to its end and checked before anyone sees it. Of a stream the
first event is, and the others are passed on as they come. The bare transport is used, not a client:
it follows no proxies of the environment, no `.netrc`, no redirects and no cookies.
"""

from __future__ import annotations

import asyncio
import ssl

import httpx2

from tether._version import __version__
from tether.service.gateway.answer_parts import AnswerParts, named_failures
from tether.service.gateway.passed_headers import RawHeaders, request_headers
from tether.service.gateway.upstream_answer import (
    Check,
    UpstreamAnswer,
    is_completion,
    is_completion_event,
    is_object,
    read_answer,
)
from tether.service.settings.gateway_table import UpstreamSettings

UPSTREAM_CONNECTIONS, UPSTREAM_IDLE_CONNECTIONS = 1_000, 20
"""How many requests may be under way at one upstream, and how many connections are kept.

Each request looks whether all those that are kept are still open, so they are few."""
IDLE_CONNECTION_SECONDS = 4.0
"""How long a connection is kept: less than the five seconds after which many servers close it."""
_USER_AGENT = f"tether/{__version__}".encode()


class Upstream:
    """Asks one upstream, for one event loop; `close` it at the end.

    All methods raise an `UpstreamError` if there is no answer. If their task is cancelled, so is
    the request.
    """

    def __init__(self, name: str, settings: UpstreamSettings) -> None:
        self.name, self.settings = name, settings
        self._own = [(b"accept-encoding", b"identity")]
        if settings.api_key is not None:
            self._own.append((b"authorization", b"Bearer " + settings.api_key.encode()))
        connect = settings.connect_within
        self._timeout = httpx2.Timeout(None, connect=connect, pool=connect).as_dict()
        self._transport = httpx2.AsyncHTTPTransport(
            verify=ssl.create_default_context(),  # what the system trusts, or SSL_CERT_FILE
            trust_env=False,
            limits=httpx2.Limits(
                max_connections=UPSTREAM_CONNECTIONS,
                max_keepalive_connections=UPSTREAM_IDLE_CONNECTIONS,
                keepalive_expiry=IDLE_CONNECTION_SECONDS,
            ),
        )
        self._urls: dict[str, httpx2.URL] = {}

    async def post(self, path: str, content: bytes, headers: RawHeaders = ()) -> UpstreamAnswer:
        """The answer to a completion or chat completion, at a path below the base URL.

        `headers` are those of the client; what must not leave this service is removed from them.
        """
        own = [*self._own, (b"content-type", b"application/json")]
        request = self._request("POST", path, headers, own, content)
        return await self._answer(request, is_completion, is_completion_event)

    async def get(self, path: str, headers: RawHeaders = ()) -> UpstreamAnswer:
        """What an upstream says at a path, such as "models"."""
        request = self._request("GET", path, headers, self._own)
        return await self._answer(request, is_object, is_object)

    async def close(self) -> None:
        """Close all connections."""
        await self._transport.aclose()

    def _request(
        self,
        method: str,
        path: str,
        headers: RawHeaders,
        own: list[tuple[bytes, bytes]],
        content: bytes | None = None,
    ) -> httpx2.Request:
        if (url := self._urls.get(path)) is None:
            url = self._urls[path] = httpx2.URL(f"{self.settings.url}/{path}")
        sent = dict([(b"user-agent", _USER_AGENT), *request_headers(headers), *own])
        return httpx2.Request(method, url, headers=list(sent.items()), content=content)

    async def _answer(
        self, request: httpx2.Request, check: Check, check_event: Check
    ) -> UpstreamAnswer:
        begun = asyncio.get_running_loop().time()
        with named_failures():
            async with asyncio.timeout_at(begun + self.settings.first_byte_within):
                response = await self._send(request)
        parts = AnswerParts(response, self.settings, begun)
        try:
            return await read_answer(response, parts, check, check_event)
        except BaseException:
            await parts.close()
            raise

    async def _send(self, request: httpx2.Request) -> httpx2.Response:
        """The response to a request, as far as its headers.

        A server may close a connection that it kept at the moment when a request is sent over it.
        Such a request is sent again, as often as this happens, at last over a new connection.
        """
        is_new = False

        async def trace(event: str, info: object) -> None:
            nonlocal is_new
            is_new |= event.startswith("connection.connect")

        request.extensions = {"timeout": self._timeout, "trace": trace}
        while True:
            try:
                response = await self._transport.handle_async_request(request)
            except (httpx2.RemoteProtocolError, httpx2.ReadError, httpx2.WriteError):
                if is_new:
                    raise
            else:
                response.request = request
                return response
