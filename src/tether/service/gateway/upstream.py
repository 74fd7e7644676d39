"""One upstream: a server that speaks OpenAI's protocol, asked within limits of time.

An answer that is not streamed is read to its end and checked before anyone sees it. Of a stream the
first event is, and the others are passed on as they come. Nothing else that the environment or the
upstream says is followed: no proxies, no `.netrc`, no redirects, no cookies.
"""

from __future__ import annotations

import asyncio
import ssl
from http.cookiejar import CookieJar, DefaultCookiePolicy

import httpx2

from tether._version import __version__
from tether.service.gateway.answer_parts import AnswerParts, named_failures
from tether.service.gateway.passed_headers import RawHeaders, request_headers
from tether.service.gateway.upstream_answer import (
    Check,
    UpstreamAnswer,
    is_completion,
    is_object,
    read_answer,
)
from tether.service.settings.gateway_table import UpstreamSettings

UPSTREAM_CONNECTIONS, UPSTREAM_IDLE_CONNECTIONS = 1_000, 100
"""How many requests may be under way at one upstream, and how many connections are kept."""
IDLE_CONNECTION_SECONDS = 4.0
"""How long a connection is kept: less than the five seconds after which many servers close it."""


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
        self._client = httpx2.AsyncClient(
            headers={"User-Agent": f"tether/{__version__}"},
            cookies=CookieJar(DefaultCookiePolicy(allowed_domains=[])),
            verify=ssl.create_default_context(),  # what the system trusts, or SSL_CERT_FILE
            timeout=httpx2.Timeout(None, connect=connect, pool=connect),
            limits=httpx2.Limits(
                max_connections=UPSTREAM_CONNECTIONS,
                max_keepalive_connections=UPSTREAM_IDLE_CONNECTIONS,
                keepalive_expiry=IDLE_CONNECTION_SECONDS,
            ),
            follow_redirects=False,
            trust_env=False,
        )

    async def post(self, path: str, content: bytes, headers: RawHeaders = ()) -> UpstreamAnswer:
        """The answer to a completion or chat completion, at a path below the base URL.

        `headers` are those of the client; what must not leave this service is removed from them.
        """
        sent = [*request_headers(headers), *self._own, (b"content-type", b"application/json")]
        request = self._client.build_request(
            "POST",
            f"{self.settings.url}/{path}",
            content=content,
            headers=list(dict(sent).items()),  # its own, where a client has sent another
        )
        return await self._answer(request, is_completion)

    async def get(self, path: str, headers: RawHeaders = ()) -> UpstreamAnswer:
        """What an upstream says at a path, such as "models"."""
        sent = [*request_headers(headers), *self._own]
        request = self._client.build_request("GET", f"{self.settings.url}/{path}", headers=sent)
        return await self._answer(request, is_object)

    async def close(self) -> None:
        """Close all connections."""
        await self._client.aclose()

    async def _answer(self, request: httpx2.Request, check: Check) -> UpstreamAnswer:
        begun = asyncio.get_running_loop().time()
        with named_failures():
            async with asyncio.timeout_at(begun + self.settings.first_byte_within):
                response = await self._client.send(request, stream=True)
        parts = AnswerParts(response, self.settings, begun)
        try:
            return await read_answer(response, parts, check)
        except BaseException:
            await parts.close()
            raise
