"""Two upstreams as two systems: which of them answers a request, and what counts as a failure.

The release compares two systems, and a row is of the system that was *decided* (as in a trial that
is analysed by intention to treat). "New" is the pair "the new upstream, and the old one where it
fails"; "old" is the old upstream alone. Both are systems like any other: each has its own rows, so
that what a release promises about shares of them holds for what users are served, failures of the
new upstream included. If rows that the old upstream answered were counted for "old", or for none,
the new system's rows would be those on which it worked: selected by their outcome.

A request that the new upstream refuses (status 400 to 499) is asked of the old one. If that refuses
it too it is the client's error; if it answers, it was a failure of the new upstream, such as a
wrong key of the operator's, an unknown model or a shorter context. So no client is refused by the
new system what the old one would have answered.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass

from tether.service.gateway.answer_parts import UpstreamError
from tether.service.gateway.circuit_breaker import CircuitBreaker
from tether.service.gateway.gateway_metrics import GatewayMetrics
from tether.service.gateway.model_name import with_model
from tether.service.gateway.passed_headers import RawHeaders
from tether.service.gateway.upstream import Upstream
from tether.service.gateway.upstream_answer import UpstreamAnswer
from tether.service.settings.gateway_table import GatewaySettings

TOO_MANY_REQUESTS = 429
"""The one refusal that is no error of the client's: the upstream has too much to do."""

log = logging.getLogger("tether.service")


@dataclass(frozen=True)
class Question:
    """What a client asks: the path below the base URL, the body as it came, and its headers."""

    path: str
    content: bytes
    headers: RawHeaders


@dataclass(frozen=True)
class Relayed:
    """An answer, the upstream that gave it, and whether the system that was decided has failed."""

    answer: UpstreamAnswer
    served: str
    failed: bool


class Relay:
    """Asks the upstreams, for one event loop; `close` it at the end."""

    def __init__(self, settings: GatewaySettings, metrics: GatewayMetrics) -> None:
        self.old, self.new = Upstream("old", settings.old), Upstream("new", settings.new)
        self._metrics = metrics
        self._breaker = CircuitBreaker(settings.failures_until_pause, settings.pause)

    async def ask(
        self, system: str, question: Question, fell_back: Callable[[], None] = lambda: None
    ) -> Relayed:
        """The answer of a system; an `UpstreamError` if no upstream has answered.

        `fell_back` is called when the new upstream has not answered, before the old one is asked:
        until it turns out that both refuse, that is a failure, also if nobody waits for the end.
        """
        refusal = None
        if system == "new":
            found = await self._ask_new(question)
            if found is not None and found.is_success:
                return Relayed(found, "new", failed=False)
            refusal = found
            fell_back()
        try:
            answer = await self._ask(self.old, question)
        except UpstreamError as error:
            self._metrics.failure("old", error.reason)
            if refusal is None:
                raise
            return Relayed(refusal, "new", failed=True)
        is_busy = answer.status == TOO_MANY_REQUESTS
        if is_busy:
            self._metrics.failure("old", "rate_limited")
        if refusal is not None and answer.is_success:
            self._metrics.failure("new", "refused")
        is_clients_error = not answer.is_success and not is_busy
        failed = is_busy if system == "old" else not (refusal is not None and is_clients_error)
        return Relayed(answer, "old", failed)

    def broke(self, served: str) -> None:
        """Note that a stream has broken after it began, which nothing can replace."""
        self._metrics.failure(served, "broken_stream")
        if served == "new":
            self._breaker.failed()

    async def close(self) -> None:
        """Close all connections."""
        await self.old.close()
        await self.new.close()

    async def _ask_new(self, question: Question) -> UpstreamAnswer | None:
        """The new upstream's answer or refusal; None if it has failed, or is not asked now."""
        was_open = self._breaker.is_open
        if not self._breaker.allows():
            self._metrics.failure("new", "paused")
            return None
        try:
            answer = await self._ask(self.new, question)
            if answer.status == TOO_MANY_REQUESTS:
                raise UpstreamError("rate_limited")
        except UpstreamError as error:
            self._metrics.failure("new", error.reason)
            self._breaker.failed()
            if self._breaker.is_open and not was_open:
                log.warning("the new upstream is not asked for a while: the old one answers")
            return None
        self._breaker.succeeded()
        if was_open:
            log.info("the new upstream answers again")
        return answer

    async def _ask(self, upstream: Upstream, question: Question) -> UpstreamAnswer:
        content, model = question.content, upstream.settings.model
        if model is not None:
            content = with_model(content, model)
        return await upstream.post(question.path, content, question.headers)
