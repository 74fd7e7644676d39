"""The answer to one request: decided, asked for, passed on as it comes, and its losses reported."""

from __future__ import annotations

import asyncio
import json
import math
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from tether.service.gateway.answer_parts import UpstreamError
from tether.service.gateway.client_connection import serve_while_connected
from tether.service.gateway.event_stream import error_event, has_error
from tether.service.gateway.gateway_metrics import GatewayMetrics
from tether.service.gateway.openai_errors import (
    BROKEN_STREAM,
    NO_UPSTREAM,
    SERVICE_ENDS,
    openai_error,
)
from tether.service.gateway.relay import Question, Relay, Relayed
from tether.service.gateway.unit_key import KEY_HEADER, shown_key
from tether.service.gateway.upstream_answer import UpstreamAnswer

CLIENT_TAKES_WITHIN = 60.0
"""Seconds in which a client must take a part of its answer."""
_JSON = ((b"content-type", b"application/json"),)


@dataclass
class Unit:
    """One request and what becomes of it.

    Parameters
    ----------
    key : bytes
        The key.
    system : str
        The system that was decided, "old" or "new".
    is_stored : bool
        Whether the decision is stored.
    is_first : bool
        Whether it is the first unit of its row, whose losses count.
    begun : float
        When the request had arrived.
    failed : bool
        Whether the system has failed: its upstream gave no answer, or a broken one.
    waited : float or None
        The seconds to the first byte, or until the client left without one.
    """

    key: bytes
    system: str
    is_stored: bool
    is_first: bool
    begun: float
    failed: bool = False
    waited: float | None = None


class UnitResponse(Response):
    """Answers one request; in the end `ended` is called with its unit, whatever happens.

    A client that leaves is no failure, unless it has waited for longer than its `patience` for the
    next part of its answer: clients give up on a system that hangs, and that must not look as if
    all were well.
    """

    def __init__(
        self,
        question: Question,
        decide: Callable[[], Awaitable[Unit]],
        relay: Relay,
        metrics: GatewayMetrics,
        ended: Callable[[Unit], None],
        patience: float,
    ) -> None:
        self._question, self._decide, self._ended = question, decide, ended
        self._relay, self._metrics, self._patience = relay, metrics, patience
        self._has_begun = self._is_streaming = self._is_complete = False
        self._waits_since = 0.0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer until the client leaves; then the request to the upstream ends too."""
        unit = await self._decide()
        self._waits_since = unit.begun
        try:
            with suppress(OSError):  # what some web servers raise when the client has left
                await serve_while_connected(receive, self._answer(unit, send))
            if not self._is_complete:  # the client has left
                unit.failed |= time.perf_counter() - self._waits_since > self._patience
        except asyncio.CancelledError:  # the service ends, and cannot wait
            unit.failed = True
            await self._cut_off(send)
        except Exception:
            unit.failed = True
            raise
        finally:
            if unit.waited is None:
                unit.waited = time.perf_counter() - unit.begun
            self._ended(unit)

    async def _answer(self, unit: Unit, send: Send) -> None:
        def fell_back() -> None:
            unit.failed = True

        try:
            relayed = await self._relay.ask(unit.system, self._question, fell_back)
        except UpstreamError:
            content = json.dumps(openai_error(502, NO_UPSTREAM)).encode()
            relayed = Relayed(UpstreamAnswer(502, _JSON, content), "none", failed=True)
        unit.failed, answer = relayed.failed, relayed.answer
        try:
            unit.waited = time.perf_counter() - unit.begun
            self._metrics.first_byte(unit.system, relayed.served, unit.waited)
            headers = [*answer.headers, *_own_headers(unit, relayed.served)]
            if answer.rest is None:
                headers.append((b"content-length", str(len(answer.content)).encode()))
            self._has_begun = True
            await send(_start(answer.status, headers))
            if answer.rest is None:
                await self._give(send, {"body": answer.content})
                self._is_complete = True
            else:
                await self._stream(unit, relayed, send)
        finally:
            await answer.close()

    async def _stream(self, unit: Unit, relayed: Relayed, send: Send) -> None:
        """Pass events on; if the stream breaks, end it with an error that clients understand."""
        answer, is_broken = relayed.answer, False

        async def pass_on(events: bytes) -> None:
            nonlocal is_broken
            if has_error(events) and not is_broken:
                is_broken = unit.failed = True
                self._relay.broke(relayed.served)
            await self._give(send, {"body": events, "more_body": True})

        self._is_streaming = True
        await pass_on(answer.content)
        try:
            assert answer.rest is not None
            async for events in answer.rest:
                await pass_on(events)
        except UpstreamError:
            if not is_broken:  # otherwise the upstream has said so itself
                await pass_on(error_event(openai_error(502, BROKEN_STREAM)))
        self._is_streaming, self._is_complete = False, True
        await send({"type": "http.response.body", "body": b""})

    async def _give(self, send: Send, part: dict[str, Any]) -> None:
        """Send a part of the answer; a client that does not take it has left (a TimeoutError)."""
        self._waits_since = math.inf  # now it is waited for the client
        async with asyncio.timeout(CLIENT_TAKES_WITHIN):
            await send({"type": "http.response.body", **part})
        self._waits_since = time.perf_counter()

    async def _cut_off(self, send: Send) -> None:
        """End an answer at once, with an error."""
        error = openai_error(503, SERVICE_ENDS)
        if self._is_streaming:
            await send({"type": "http.response.body", "body": error_event(error)})
        elif not self._has_begun:
            await send(_start(503, [*_JSON]))
            await send({"type": "http.response.body", "body": json.dumps(error).encode()})


def _start(status: int, headers: list[tuple[bytes, bytes]]) -> Message:
    return {"type": "http.response.start", "status": status, "headers": headers}


def _own_headers(unit: Unit, served: str) -> list[tuple[bytes, bytes]]:
    """What a client needs to report an outcome, and who has really answered."""
    own = {
        "x-tether-system": unit.system,
        "x-tether-served": served,
        "x-tether-stored": "true" if unit.is_stored else "false",
        KEY_HEADER: shown_key(unit.key),
    }
    return [(name.encode(), value.encode()) for name, value in own.items()]
