"""The gateway of a release: OpenAI's endpoints in front of two upstreams.

Each request is a unit of the release: its system is decided and stored, its upstream asked, and the
answer passed on as it is. A row is of the system that was *decided* (intention to treat): "new" is
the pair "the new upstream, and the old one where it fails", "old" the old upstream alone. If rows
that the old upstream had to answer were counted for "old", or for none, the new system's rows would
be those on which it worked: selected by their outcome. A request that both upstreams refuse is the
client's error; one that only the new upstream refuses is a failure of the new system.

Two losses are reported from here, for the first unit of each row:

- failure: 1 if the system gave no answer or a broken one, if the old upstream had to answer for
  the new one, or if the client left, or the service ended, after a wait of more than `slow_after`;
- latency: 1 if the first byte took longer than `slow_after`, or the client left after that.
"""

from __future__ import annotations

import asyncio
import logging
import math
import secrets
import string
import time
from contextlib import aclosing, suppress
from typing import Any
from urllib.parse import quote

from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from tether.service.api import ApiError, decode, encode, endpoint, error_body
from tether.service.releases import KeyLosses, ServedRelease, read_key
from tether.service.settings import ReleaseGateway
from tether.service.upstreams import Answer, UpstreamClient, UpstreamError, has_error

KEY_HEADER = "x-tether-key"
"""The header with the key, of requests and of answers; it may be a user, a session or a request."""
NO_UPSTREAM, BROKEN = "no upstream has answered", "the upstream's stream has broken"
CLIENT_TAKES_WITHIN = 60.0
"""Seconds in which a client must take a part of its answer."""
CUT_OFF_WITHIN = 2.0
"""Seconds that answers take at most to end when the service cannot wait for them."""
REPORT_SECONDS = 86_400.0
"""How long a loss that the gateway reports may wait for the store."""
REPORT_EVERY = 0.05
"""Seconds in which losses gather, so that decisions need not wait for their transactions."""
_PRINTED = string.punctuation.replace("%", "")
_JSON = ((b"content-type", b"application/json"),)

log = logging.getLogger("tether.service")


class Asked(Struct):
    """The fields of a request that say who asks."""

    safety_identifier: str | int | None = None
    user: str | int | None = None


class GatewayRelease(ServedRelease):
    """A release between two upstreams."""

    def __init__(self, *given: Any, gateway: ReleaseGateway) -> None:
        super().__init__(*given)
        self.settings = gateway
        self.upstreams = {name: UpstreamClient(getattr(gateway, name)) for name in ("old", "new")}
        self.under_way = 0
        self._reports: list[KeyLosses] = []
        self._reporting: asyncio.Task[None] | None = None
        if gateway.failure_guardrail is None:
            log.warning(
                "gateway.failure_guardrail is not set: while the new upstream fails, what the old "
                "one answers for it counts for the new system"
            )

    @endpoint("POST", "/v1/chat/completions", "decide")
    async def chat(self, request: Request, body: bytes) -> Response:
        """Answer a chat (OpenAI)."""
        return Unit(self, "chat/completions", body, request)

    @endpoint("POST", "/v1/completions", "decide")
    async def complete(self, request: Request, body: bytes) -> Response:
        """Complete a text (OpenAI)."""
        return Unit(self, "completions", body, request)

    @endpoint("GET", "/v1/models", "decide")
    async def models(self, request: Request) -> Response:
        """The old upstream's models (OpenAI)."""
        try:
            answer = await self.upstreams["old"].ask("models", request.headers.raw)
        except UpstreamError as error:
            self.note_failure("old", error.reason)
            raise ApiError(502, NO_UPSTREAM) from None
        response = Response(answer.content, answer.status)
        response.raw_headers = [*answer.headers]
        return response

    async def close(self) -> None:
        """Report the losses that are known, also those of answers cut off; close everything."""
        loop = asyncio.get_running_loop()
        until = loop.time() + CUT_OFF_WITHIN
        while self.under_way and loop.time() < until:
            await asyncio.sleep(REPORT_EVERY)
        if self._reporting is not None:
            await asyncio.wait((self._reporting,), timeout=self.deadline)
        for each in self.upstreams.values():
            await each.close()
        await super().close()

    def report(self, unit: Unit) -> None:
        """Report the losses of a unit that has ended; it waits for nothing."""
        if not unit.is_first or not self.settings.reported:
            return
        is_slow = unit.waited is None or unit.waited > self.settings.slow_after
        found = {"failure": float(unit.failed), "latency": float(is_slow)}
        losses = {name: found[what] for name, what in self.settings.reported.items()}
        self._reports.append((unit.key, unit.system, losses))
        if self._reporting is None or self._reporting.done():
            self._reporting = asyncio.get_running_loop().create_task(self._report())

    def note_failure(self, upstream: str, reason: str) -> None:
        """Count and log a request that an upstream has not answered."""
        self.metrics.of("upstream_failures", self.title, upstream, reason).inc()
        log.warning("the %s upstream of %s has failed: %s", upstream, self.title, reason)

    async def _report(self) -> None:
        """Store losses, many at once, however long the store is away."""
        while self._reports:
            await asyncio.sleep(REPORT_EVERY)
            told, self._reports = self._reports, []
            try:
                await self.observe(told, keep_first=True, within=REPORT_SECONDS)
            except Exception as error:
                self.metrics.of("gateway_reports_dropped", self.title).inc(len(told))
                log.error("%d losses are given up, and count as the bound: %s", len(told), error)


class Unit(Response):
    """One request: decided, asked for, passed on as it comes, and its losses reported.

    `served` is the upstream that has answered, `failed` whether the system that was decided has,
    and `waited` the seconds to the first byte, or until the client left without one.

    A client that leaves does not count as a failure, unless it has waited for longer than
    `slow_after` for the next part of its answer: clients give up on a system that hangs, and that
    must not look as if all were well. The same holds where the service ends before the answer does.
    """

    def __init__(
        self, gateway: GatewayRelease, path: str, content: bytes, request: Request
    ) -> None:
        self._gateway, self._path, self._content = gateway, path, content
        self._sent = request.headers.raw
        self.key = unit_key(request.headers.get(KEY_HEADER), decode(content, [Asked]))
        self.system, self.served, self.is_stored, self.is_first = "old", "none", False, False
        self.failed, self._is_broken = False, False
        self.waited: float | None = None
        self._begun = self._waits_since = time.perf_counter()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer until the client leaves; then the request to the upstream ends too."""
        gateway = self._gateway
        ((self.system, self.is_first, self.is_stored),) = await gateway.decide([self.key])
        gateway.under_way += 1
        try:
            with suppress(OSError):  # the client has left: a TimeoutError, or of the web server
                async with asyncio.timeout(None) as limit:
                    watching = asyncio.ensure_future(until_left(receive, limit))
                    try:
                        await self._answer(send)
                    finally:
                        watching.cancel()
        except asyncio.CancelledError:  # the service ends, and cannot wait
            log.info("an answer was cut off by the end of the service")
        except Exception:
            self.failed = True
            raise
        finally:
            now = time.perf_counter()
            self.failed |= now - self._waits_since > gateway.settings.slow_after
            if self.waited is None:
                self.waited = now - self._begun
            gateway.under_way -= 1
            gateway.report(self)

    async def _answer(self, send: Send) -> None:
        answer = await self._ask()
        async with aclosing(answer.rest):
            self.waited = time.perf_counter() - self._begun
            title, metrics = self._gateway.title, self._gateway.metrics
            metrics.of("gateway_answers", title, self.system, self.served).inc()
            metrics.of("gateway_first_byte_seconds", title, self.system).observe(self.waited)
            own = {
                "x-tether-system": self.system,
                "x-tether-served": self.served,
                "x-tether-stored": str(self.is_stored).lower(),
                KEY_HEADER: quote(self.key, safe=_PRINTED),  # as a header can have it
            }
            headers = [*answer.headers, *((k.encode(), v.encode()) for k, v in own.items())]
            start = {"type": "http.response.start", "status": answer.status, "headers": headers}
            await send(start)
            await self._pass_on(answer, send)
            self._waits_since = math.inf  # it is complete

    async def _ask(self) -> Answer:
        """The answer of the system: status 502 if no upstream has answered.

        While the old upstream is asked for the new one, that is a failure, also if nobody waits for
        the end; if both refuse, it is not counted.
        """
        refusal = None
        if self.system == "new":
            refusal = await self._try("new")
            if refusal is not None and refusal.status < 300:
                return refusal
            if refusal is not None and refusal.status == 429:
                refusal = None
            self.failed = True
        answer = await self._try("old")
        if answer is None:
            self.failed = True
            if refusal is not None:
                return refusal
            self.served = "none"
            return Answer(502, _JSON, encode(error_body(502, NO_UPSTREAM)))
        if refusal is not None and answer.status < 300:
            self._gateway.note_failure("new", "refused")
        if self.system == "old":
            self.failed = answer.status == 429
        elif refusal is not None:  # if both refuse, it is the client's error
            self.failed = answer.status < 300 or answer.status == 429
        return answer

    async def _try(self, name: str) -> Answer | None:
        """The answer or refusal of an upstream; None if it has failed."""
        upstream = self._gateway.upstreams[name]
        try:
            answer = await upstream.ask(self._path, self._sent, self._content)
        except UpstreamError as error:
            self._gateway.note_failure(name, error.reason)
            return None
        if answer.status == 429:
            self._gateway.note_failure(name, "rate_limited")
        self.served = name
        return answer

    async def _pass_on(self, answer: Answer, send: Send) -> None:
        """Give the parts to the client; a stream that breaks ends with an error that it sees."""
        await self._give(send, answer.content)
        try:
            async for events in answer.rest:
                await self._give(send, events)
        except UpstreamError:
            if not self._is_broken:  # otherwise the upstream has said so itself
                await self._give(send, b"data: " + encode(error_body(502, BROKEN)) + b"\n\n")
        await send({"type": "http.response.body", "body": b""})

    async def _give(self, send: Send, part: bytes) -> None:
        """Send a part of the answer; a client that does not take it has left (a TimeoutError)."""
        if has_error(part) and not self._is_broken:
            self._is_broken = self.failed = True
            self._gateway.note_failure(self.served, "broken_stream")
        self._waits_since = math.inf  # now it is waited for the client
        async with asyncio.timeout(CLIENT_TAKES_WITHIN):
            await send({"type": "http.response.body", "body": part, "more_body": True})
        self._waits_since = time.perf_counter()


async def until_left(receive: Receive, limit: asyncio.Timeout) -> None:
    """Wait until the client of a request leaves, and end then what goes on within the limit."""
    while (await receive())["type"] != "http.disconnect":
        pass
    limit.reschedule(0)


def unit_key(header: str | None, asked: Asked) -> bytes:
    """The key of the header, or of a field of the body; otherwise a new one, for this request."""
    if header is not None:
        try:
            return read_key(header.encode("latin-1").decode(), KEY_HEADER)
        except UnicodeDecodeError:
            raise ApiError(400, f"{KEY_HEADER} must be text in UTF-8") from None
    for key in (asked.safety_identifier, asked.user):
        if key not in (None, ""):
            return read_key(key)
    return secrets.token_hex(16).encode()
