"""One upstream of a gateway: a server that speaks OpenAI's protocol, asked within limits of time.

An answer that is not streamed is read to its end and checked before anyone sees it. Of a stream the
first event is, and the others are passed on as they come, whole and unchanged.
"""

from __future__ import annotations

import re
import time
from collections.abc import AsyncGenerator, Iterable, Iterator
from contextlib import aclosing, contextmanager
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import httpx2
import msgspec

from tether._version import __version__
from tether.service.settings import Upstream

Headers = Iterable[tuple[bytes, bytes]]
Parts = AsyncGenerator[bytes, None]

LIMITS = httpx2.Limits(
    max_connections=1_000,
    max_keepalive_connections=20,
    keepalive_expiry=4.0,  # many servers close an idle connection after five seconds
)
"""Connections to one upstream."""
MOST_BYTES = 64_000_000  # of an answer, streamed or not
REFUSALS = {3: "garbled", 5: "server_error", 408: "slow"}
REFUSALS |= dict.fromkeys((401, 402, 407), "unauthorized")
"""Statuses, or hundreds of them, that are failures of the upstream or its settings and never the
client's errors."""
NOT_SENT_ON = frozenset(
    b"connection keep-alive proxy-authenticate proxy-authorization proxy-connection te trailer "
    b"transfer-encoding upgrade host content-length expect accept-encoding authorization "
    b"x-api-key api-key x-goog-api-key cookie origin referer forwarded via user-agent".split()
)
OWN_HEADERS = (b"x-tether-", b"x-forwarded-", b"sec-")
"""Headers of a request that an upstream does not see: above all the API key of this service."""
SENT_BACK = (b"content-type", b"openai-", b"retry-after", b"x-ratelimit-", b"x-request-id")
"""How headers of an answer begin that a client sees: what OpenAI's clients read."""
_END_OF_EVENT = re.compile(rb"\n\n|\r\n\r\n|\r\r")
_DATA = re.compile(rb"(?:^|(?<=[\r\n]))data: ?([^\r\n]*)")
_LAST = re.compile(rb'(?:^|(?<=[\r\n]))data: ?\[DONE\]|"finish_reason"\s*:\s*"')


class UpstreamError(Exception):
    """An upstream has not answered; `reason` is one of few words, for metrics and logs.

    "unreachable", "slow", "broken" (the connection ended), "server_error" (status 5xx),
    "unauthorized" (it refuses the key or the account) or "garbled" (it is not what the protocol
    says).
    """

    def __init__(self, reason: str) -> None:
        super().__init__(f"the upstream's answer: {reason}")
        self.reason = reason


async def nothing() -> Parts:
    """What follows on an answer that is whole."""
    return
    yield b""


@dataclass(frozen=True)
class Answer:
    """What an upstream has answered: status 200 to 299, or a refusal, 400 to 499.

    `content` is all of it; of a stream it is what came up to the first event, and `rest` yields
    whole events as they come, or raises an `UpstreamError`. Close the rest.
    """

    status: int
    headers: tuple[tuple[bytes, bytes], ...]
    content: bytes
    rest: Parts = field(default_factory=nothing)


class UpstreamClient:
    """Asks one upstream, for one event loop; `close` it at the end.

    If the task that asks is cancelled, so is the request.
    """

    def __init__(self, settings: Upstream) -> None:
        self._settings = settings
        agent = f"tether/{__version__}".encode()
        self._own = {b"user-agent": agent, b"accept-encoding": b"identity"}
        if settings.api_key is not None:
            self._own[b"authorization"] = b"Bearer " + settings.api_key.encode()
        connect, pause = settings.connect_within, settings.first_byte_within
        self._timeout = httpx2.Timeout(pause, connect=connect, pool=connect).as_dict()
        # no client around it, which would send the cookies of one user with what others ask
        self._transport = httpx2.AsyncHTTPTransport(trust_env=False, limits=LIMITS)
        self._url = cache(httpx2.URL(settings.url.rstrip("/") + "/").join)

    async def ask(self, path: str, headers: Headers, content: bytes | None = None) -> Answer:
        """The answer to a request below the base URL, or an `UpstreamError`.

        With content it is a POST, in which the model is replaced; otherwise a GET.
        """
        settings, until = self._settings, time.monotonic() + self._settings.finish_within
        sent = {
            name: value
            for name, value in headers
            if name not in NOT_SENT_ON and not name.startswith(OWN_HEADERS)
        }
        sent |= self._own
        if content is not None:
            sent[b"content-type"] = b"application/json"
            if settings.model is not None:  # every other value keeps its own text
                body = msgspec.json.decode(content, type=dict[str, msgspec.Raw])
                content = msgspec.json.encode({**body, "model": settings.model})
        request = httpx2.Request(
            "GET" if content is None else "POST",
            self._url(path),
            headers=list(sent.items()),
            content=content,
            extensions={"timeout": self._timeout},
        )
        with named_failures():
            try:
                response = await self._transport.handle_async_request(request)
            except (httpx2.RemoteProtocolError, httpx2.ReadError, httpx2.WriteError):
                # a server may close a connection that it kept at this very moment
                response = await self._transport.handle_async_request(request)
        parts = read_parts(response, until)
        try:
            return await read_answer(response, parts, is_completion=content is not None)
        except BaseException:
            await parts.aclose()
            await response.aclose()  # where no part was read
            raise

    async def close(self) -> None:
        """Close all connections."""
        await self._transport.aclose()


@contextmanager
def named_failures() -> Iterator[None]:
    """Whatever the client raises, as an `UpstreamError`, without what might be secret."""
    try:
        yield
    except (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout):
        raise UpstreamError("unreachable") from None
    except httpx2.TimeoutException:
        raise UpstreamError("slow") from None
    except (httpx2.HTTPError, httpx2.StreamError, OSError):
        raise UpstreamError("broken") from None


async def read_parts(response: httpx2.Response, until: float) -> Parts:
    """The parts of a body, as they come; one that is compressed counts as what it unpacks to."""
    left = MOST_BYTES
    with named_failures():
        try:
            async for part in response.aiter_bytes():
                left -= len(part)
                if (late := time.monotonic() > until) or left < 0:
                    raise UpstreamError("slow" if late else "garbled")
                yield part
        finally:
            await response.aclose()


async def read_answer(response: httpx2.Response, parts: Parts, *, is_completion: bool) -> Answer:
    """The answer that a response is; what is not refused must be what the protocol says."""
    status, given = response.status_code, response.headers
    raw = [(name.lower(), value) for name, value in given.raw]
    headers = tuple(each for each in raw if each[0].startswith(SENT_BACK))
    if status >= 300 and (reason := REFUSALS.get(status) or REFUSALS.get(status // 100)):
        raise UpstreamError(reason)
    kind = given.get("content-type", "").partition(";")[0].strip().lower()
    if status < 300 and kind == "text/event-stream":
        events, first = whole_events(parts), b""
        async for part in events:
            first += part
            if _DATA.search(first) is not None:
                break
        if b'"choices"' not in first or has_error(first):
            raise UpstreamError("garbled")
        return Answer(status, headers, first, events)
    content = b"".join([part async for part in parts])
    found = parse_json(content)
    is_right = bool(found)
    if is_completion:
        answered = found if isinstance(found, dict) and found.get("error") is None else {}
        is_right = isinstance(answered.get("choices"), list) and bool(answered["choices"])
    if status < 300 and not is_right:
        raise UpstreamError("garbled")
    length = b"content-length", b"%d" % len(content)  # otherwise it would be sent in chunks
    return Answer(status, (*headers, length), content)


async def whole_events(parts: Parts) -> Parts:
    """A stream cut after events, so that nothing half is ever passed on.

    One that ends without saying so is broken: where a server closes its connection to end an
    answer, one that has died looks the same.
    """
    begun, has_end = b"", False
    async with aclosing(parts):
        async for part in parts:
            begun += part
            if ends := [found.end() for found in _END_OF_EVENT.finditer(begun)]:
                whole, begun = begun[: ends[-1]], begun[ends[-1] :]
                has_end = has_end or _LAST.search(whole) is not None
                yield whole
        if begun.strip() == b"data: [DONE]":  # the last empty line may be missing
            yield begun
        elif begun.strip() or not has_end:
            raise UpstreamError("broken")


def parse_json(content: bytes) -> Any:
    """Parsed JSON, or None if it is invalid."""
    try:
        return msgspec.json.decode(content)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return None


def has_error(events: bytes) -> bool:
    """Whether one of the events says that the answer failed, as servers do amid a stream."""
    if b'"error"' not in events:
        return False
    found = map(parse_json, _DATA.findall(events))
    return any(isinstance(each, dict) and each.get("error") is not None for each in found)
