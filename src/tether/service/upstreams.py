"""One upstream of a gateway: a server that speaks OpenAI's protocol, asked within limits of time.

An answer that is not streamed is read to its end and checked before anyone sees it. Of a stream the
first event is, and the others are passed on as they come, whole and unchanged.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import httpx2
import msgspec

from tether._version import __version__
from tether.service.settings import Upstream

RawHeaders = Iterable[tuple[bytes, bytes]]

MOST_CONNECTIONS, IDLE_CONNECTIONS, IDLE_SECONDS = 1_000, 20, 4.0
"""Connections to one upstream; many servers close an idle one after five seconds."""
MAX_ANSWER_BYTES = 64_000_000
"""The longest answer, or event of a stream."""
REFUSALS = {3: "garbled", 5: "server_error", 408: "slow"}
REFUSALS |= dict.fromkeys((401, 402, 407), "unauthorized")
"""Statuses, or hundreds of them, that are failures of the upstream or its settings and never the
client's errors."""
NOT_SENT_ON = frozenset(
    b"connection keep-alive proxy-authenticate proxy-authorization proxy-connection te trailer "
    b"transfer-encoding upgrade host content-length expect accept-encoding authorization "
    b"x-api-key api-key x-goog-api-key cookie origin referer forwarded via user-agent".split()
)
"""Headers of a request that an upstream does not see: above all the API key of this service."""
SENT_BACK = (b"content-type", b"openai-", b"retry-after", b"x-ratelimit-", b"x-request-id")
"""How headers of an answer begin that a client sees."""
_END_OF_EVENT = re.compile(rb"\n\n|\r\n\r\n|\r\r")
_DATA = re.compile(rb"(?:^|(?<=[\r\n]))data: ?([^\r\n]*)")
_LAST = re.compile(rb'(?:^|(?<=[\r\n]))data: ?\[DONE\]|"finish_reason"\s*:\s*"')


class UpstreamError(Exception):
    """An upstream has not answered; `reason` is one of few words, for metrics and logs.

    "unreachable", "slow", "broken" (the connection ended), "server_error" (status 5xx),
    "unauthorized" (it refuses the key or the account), "rate_limited" or "garbled" (it is not what
    the protocol says).
    """

    def __init__(self, reason: str) -> None:
        super().__init__(f"the upstream's answer: {reason}")
        self.reason = reason


@dataclass(frozen=True)
class Answer:
    """What an upstream has answered: status 200 to 299, or 400 to 499.

    `content` is all of it; of a stream it is what came up to the first event, and `rest` yields
    whole events as they come, or raises an `UpstreamError`. Close an answer that has a rest.
    """

    status: int
    headers: tuple[tuple[bytes, bytes], ...]
    content: bytes
    rest: AsyncIterator[bytes] | None = None

    @property
    def is_success(self) -> bool:
        """Whether it is an answer, and no refusal."""
        return self.status < 300

    async def close(self) -> None:
        """End a stream that is not read to its end."""
        if self.rest is not None:
            await self.rest.aclose()  # type: ignore[attr-defined]


class UpstreamClient:
    """Asks one upstream, for one event loop; `close` it at the end.

    All methods raise an `UpstreamError` if there is no answer. If their task is cancelled, so is
    the request.
    """

    def __init__(self, settings: Upstream) -> None:
        self.settings = settings
        self._own = {b"user-agent": f"tether/{__version__}".encode()}
        self._own[b"accept-encoding"] = b"identity"
        if settings.api_key is not None:
            self._own[b"authorization"] = b"Bearer " + settings.api_key.encode()
        connect = settings.connect_within
        self._client = httpx2.AsyncClient(
            trust_env=False,
            timeout=httpx2.Timeout(None, connect=connect, pool=connect),
            limits=httpx2.Limits(
                max_connections=MOST_CONNECTIONS,
                max_keepalive_connections=IDLE_CONNECTIONS,
                keepalive_expiry=IDLE_SECONDS,
            ),
        )
        self._client.headers.clear()

    async def post(self, path: str, content: bytes, headers: RawHeaders = ()) -> Answer:
        """The answer to a request at a path below the base URL, in which a model is replaced."""
        if self.settings.model is not None:
            content = with_model(content, self.settings.model)
        return await self._ask("POST", path, headers, content)

    async def get(self, path: str, headers: RawHeaders = ()) -> Answer:
        """What an upstream says at a path, such as "models"."""
        return await self._ask("GET", path, headers)

    async def close(self) -> None:
        """Close all connections."""
        await self._client.aclose()

    async def _ask(
        self, method: str, path: str, headers: RawHeaders, content: bytes | None = None
    ) -> Answer:
        begun, limits = time.monotonic(), self.settings
        sent = dict(request_headers(headers)) | self._own
        if content is not None:
            sent[b"content-type"] = b"application/json"
        url, given = f"{limits.url.rstrip('/')}/{path}", list(sent.items())
        request = self._client.build_request(method, url, headers=given, content=content)
        with named_failures():
            async with asyncio.timeout(limits.first_byte_within):
                try:
                    response = await self._client.send(request, stream=True)
                except (httpx2.RemoteProtocolError, httpx2.ReadError, httpx2.WriteError):
                    # a server may close a connection that it kept at this very moment
                    response = await self._client.send(request, stream=True)
        parts = self._parts(response, begun)
        try:
            return await _read_answer(response, parts, completion=content is not None)
        except BaseException:
            await parts.aclose()
            raise

    async def _parts(self, response: httpx2.Response, begun: float) -> Any:
        """The parts of a body, each in time."""
        limits, stream, first = self.settings, response.aiter_bytes(), True
        try:
            while True:
                now = time.monotonic()
                left = begun + limits.first_byte_within - now if first else limits.chunk_within
                left = min(left, begun + limits.finish_within - now)
                with named_failures():
                    async with asyncio.timeout(max(left, 0.0)):
                        part = await anext(stream, None)
                if part is None:
                    return
                if part:
                    first = False
                    yield part
        finally:
            with named_failures():
                await response.aclose()


@contextmanager
def named_failures() -> Iterator[None]:
    """Whatever the client raises, as an `UpstreamError`, without what might be secret."""
    try:
        yield
    except (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout):
        raise UpstreamError("unreachable") from None
    except (TimeoutError, httpx2.TimeoutException):
        raise UpstreamError("slow") from None
    except httpx2.DecodingError:
        raise UpstreamError("garbled") from None
    except (httpx2.HTTPError, httpx2.StreamError, OSError):
        raise UpstreamError("broken") from None


async def _read_answer(response: httpx2.Response, parts: Any, *, completion: bool) -> Answer:
    """The answer that a response is; what is not refused must be what the protocol says."""
    status, headers = response.status_code, answer_headers(response.headers.raw)
    if status >= 300 and (reason := REFUSALS.get(status) or REFUSALS.get(status // 100)):
        raise UpstreamError(reason)
    kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
    if status < 300 and kind == "text/event-stream":
        events, first, data = _whole_events(parts), b"", None
        async for part in events:
            first += part
            if (data := _DATA.search(first)) is not None:
                break
        if data is None or not _is_part(data[1]):
            raise UpstreamError("garbled")
        return Answer(status, headers, first, events)
    content = bytearray()
    async for part in parts:
        content += part
        if len(content) > MAX_ANSWER_BYTES:
            raise UpstreamError("garbled")
    found = parse_json(bytes(content))
    choices = found.get("choices") if isinstance(found, dict) else None
    is_answer = _is_part(content) and bool(choices) if completion else isinstance(found, dict)
    if status < 300 and not is_answer:
        raise UpstreamError("garbled")
    return Answer(status, headers, bytes(content))


async def _whole_events(parts: Any) -> Any:
    """A stream cut after events, so that nothing half is ever passed on.

    One that ends without saying so is broken: where a server closes its connection to end an
    answer, one that has died looks the same.
    """
    begun, has_end = bytearray(), False
    try:
        async for part in parts:
            searched = max(0, len(begun) - 3)  # the end of an event may itself be cut
            begun += part
            ends = [found.end() for found in _END_OF_EVENT.finditer(begun, searched)]
            if ends:
                whole = bytes(begun[: ends[-1]])
                has_end = has_end or _LAST.search(whole) is not None
                yield whole
                del begun[: ends[-1]]
            if len(begun) > MAX_ANSWER_BYTES:
                raise UpstreamError("garbled")
        if begun:  # the last empty line may be missing, but nothing else
            data = _DATA.search(begun)
            if data is not None and data[1] != b"[DONE]" and parse_json(data[1]) is None:
                raise UpstreamError("broken")
            has_end = has_end or _LAST.search(begun) is not None
            yield bytes(begun)
        if not has_end:
            raise UpstreamError("broken")
    finally:
        await parts.aclose()


def _is_part(content: bytes | bytearray) -> bool:
    """Whether something is a completion, or a part of one, which may have no choice yet."""
    found = parse_json(bytes(content))
    is_part = isinstance(found, dict) and isinstance(found.get("choices"), list)
    return is_part and found.get("error") is None


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


def with_model(content: bytes, model: str) -> bytes:
    """A JSON object with this model; every other value keeps its own text."""
    body = msgspec.json.decode(content, type=dict[str, msgspec.Raw])
    body["model"] = msgspec.Raw(msgspec.json.encode(model))
    return msgspec.json.encode(body)


def request_headers(given: RawHeaders) -> list[tuple[bytes, bytes]]:
    """The headers of a client's request that an upstream may see."""
    headers = [(name.lower(), value) for name, value in given]
    named = b",".join(value for name, value in headers if name == b"connection").lower().split(b",")
    hidden = NOT_SENT_ON.union(each.strip() for each in named)
    own = (b"x-tether-", b"x-forwarded-", b"sec-")
    return [each for each in headers if each[0] not in hidden and not each[0].startswith(own)]


def answer_headers(given: RawHeaders) -> tuple[tuple[bytes, bytes], ...]:
    """The headers of an upstream's answer that a client may see: what OpenAI's clients read."""
    headers = ((name.lower(), value) for name, value in given)
    return tuple(each for each in headers if each[0].startswith(SENT_BACK))
