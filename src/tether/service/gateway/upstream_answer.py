"""What an upstream answers: whole and checked, or a stream whose first event is checked."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any

import httpx2

from tether.service.gateway.answer_parts import AnswerParts, UpstreamError
from tether.service.gateway.event_stream import WholeEvents, first_data, has_end
from tether.service.gateway.passed_headers import answer_headers

OPERATORS_ERRORS = frozenset({401, 402, 407})
"""Refusals of the key or the account, which are those of the settings and never the client's."""
REQUEST_TIMEOUT = 408
"""What a server says that has not read a request in time."""
MAX_ANSWER_BYTES = 64_000_000
"""The longest answer, or event of a stream."""

Check = Callable[[bytes], bool]


class StreamRest:
    """The events of a stream after the first, each block of them when it has come.

    One that ends without saying so is broken: where a server closes its connection to end an
    answer, one that has died looks the same.
    """

    def __init__(self, parts: AnswerParts, events: WholeEvents, *, has_end: bool) -> None:
        self._parts, self._events, self._has_end = parts, events, has_end

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        while part := await self._parts.next():
            if whole := self._events.take(part):
                self._has_end = self._has_end or has_end(whole)
                return whole
            if len(self._events) > MAX_ANSWER_BYTES:
                raise UpstreamError("garbled")
        last = self._events.end()
        if not last:
            if not self._has_end:
                raise UpstreamError("broken")
            raise StopAsyncIteration
        data = first_data(last)
        if data is not None and data != b"[DONE]" and parse_json(data) is None:
            raise UpstreamError("broken")  # it ends within an event
        self._has_end = self._has_end or has_end(last)
        return last

    async def close(self) -> None:
        """End it, also before its end."""
        await self._parts.close()


@dataclass(frozen=True)
class UpstreamAnswer:
    """What an upstream has answered: status 200 to 299, or 400 to 499.

    `content` is all of it; of a stream it is what came up to the first event, and `rest` yields
    whole events as they come, or raises an `UpstreamError`. Close an answer that has a rest.
    """

    status: int
    headers: tuple[tuple[bytes, bytes], ...]
    content: bytes
    rest: StreamRest | None = None

    @property
    def is_success(self) -> bool:
        """Whether it is an answer, and no refusal."""
        return self.status < 300

    async def close(self) -> None:
        """End a stream that is not read to its end."""
        if self.rest is not None:
            await self.rest.close()


async def read_answer(
    response: httpx2.Response, parts: AnswerParts, check: Check, check_event: Check
) -> UpstreamAnswer:
    """The answer that a response is; what is not refused must pass a check.

    `check` is that of a whole answer, `check_event` that of the first event of a stream.
    """
    status, headers = response.status_code, answer_headers(response.headers.raw)
    if status >= 500:
        raise UpstreamError("server_error")
    if status in OPERATORS_ERRORS:
        raise UpstreamError("unauthorized")
    if status == REQUEST_TIMEOUT:
        raise UpstreamError("slow")
    if 300 <= status < 400:
        raise UpstreamError("garbled")
    kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
    if status < 300 and kind == "text/event-stream":
        first, events = await _first_event(parts, check_event)
        rest = StreamRest(parts, events, has_end=has_end(first))
        return UpstreamAnswer(status, headers, first, rest)
    content = await _everything(parts)
    if status < 300 and not check(content):
        raise UpstreamError("garbled")
    return UpstreamAnswer(status, headers, content)


def parse_json(content: bytes) -> Any:
    """What JSON says; None if it is none."""
    try:
        return json.loads(content)
    except (ValueError, RecursionError):
        return None


def is_object(content: bytes) -> bool:
    """Whether something is a JSON object."""
    return isinstance(parse_json(content), dict)


def is_completion(content: bytes) -> bool:
    """Whether something is a completion or a chat completion, with at least one choice."""
    return is_completion_event(content) and bool(parse_json(content)["choices"])


def is_completion_event(content: bytes) -> bool:
    """Whether something is a part of a completion in a stream, which may have no choice yet."""
    found = parse_json(content)
    is_part = isinstance(found, dict) and isinstance(found.get("choices"), list)
    return is_part and found.get("error") is None


async def _everything(parts: AnswerParts) -> bytes:
    """The whole body."""
    content = bytearray()
    while part := await parts.next():
        parts.has_begun = True
        content += part
        if len(content) > MAX_ANSWER_BYTES:
            raise UpstreamError("garbled")
    return bytes(content)


async def _first_event(parts: AnswerParts, check: Check) -> tuple[bytes, WholeEvents]:
    """What comes up to the first event with data, which must be valid, and what follows it."""
    events, first = WholeEvents(), b""
    while (data := first_data(first)) is None:
        part = await parts.next()
        if not part or len(first) + len(events) > MAX_ANSWER_BYTES:
            raise UpstreamError("garbled")
        first += events.take(part)
    if not check(data):
        raise UpstreamError("garbled")
    parts.has_begun = True
    return first, events
