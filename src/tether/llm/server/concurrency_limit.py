"""How many requests are under way at a time: as many as the server gains from.

A server that batches requests answers more of them per second the more it has, up to a point that
only the server knows. So the limit is doubled while the rate of answers grows with it, goes back
where it does not, and is halved when the server says that it is overloaded.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import deque
from collections.abc import Callable

FIRST_CONCURRENCY, MAX_CONCURRENCY = 8, 256
"""How many requests are sent at a time at first, and at most, if the limit adapts."""
WORTHWHILE_GAIN = 1.1
"""The limit is doubled as long as that raises the rate of answers by at least this factor."""
WINDOW_ROUNDS = 3
"""A rate is measured over so many answers per request under way."""


class ConcurrencyLimit:
    """A limit for requests under way; for one event loop.

    With `fixed` it stays as it is. Only answers that arrived while requests were waiting for their
    turn are counted: others say nothing about the limit.
    """

    def __init__(
        self, fixed: int | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.limit = FIRST_CONCURRENCY if fixed is None else fixed
        self._adapts, self._clock = fixed is None, clock
        self._under_way = 0
        self._turns: deque[asyncio.Future[None]] = deque()
        self._last_limit, self._last_rate = 0, 0.0  # the best so far
        self._is_settled = False
        self._answers, self._begun = 0, math.nan
        self._sent_before = 0  # requests that were under way when the limit was halved

    async def __aenter__(self) -> None:
        """Wait for a turn."""
        if self._under_way < self.limit and not self._turns:
            self._under_way += 1
            return
        turn = asyncio.get_running_loop().create_future()
        self._turns.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if not turn.cancelled():  # it was this request's turn already
                self._leave()
            raise

    async def __aexit__(self, *_: object) -> None:
        """End a request, and let those enter for which there is room now."""
        self._leave()

    def answered(self) -> None:
        """Count an answer."""
        self._sent_before = max(0, self._sent_before - 1)
        if not self._adapts or self._is_settled:
            return
        if not self._turns:
            self._answers, self._begun = 0, math.nan
            return
        if math.isnan(self._begun):
            self._begun = self._clock()
            return
        self._answers += 1
        if self._answers >= WINDOW_ROUNDS * self.limit:
            self._adapt(self._answers / max(self._clock() - self._begun, 1e-9))

    def overloaded(self) -> None:
        """Halve the limit, once for all requests that are under way: the server has too many."""
        if self._sent_before:
            self._sent_before -= 1
        elif self._adapts:
            self._sent_before = self._under_way - 1
            self.limit = max(1, self.limit // 2)
            self._last_limit, self._last_rate, self._is_settled = 0, 0.0, False
            self._restart()

    def _leave(self) -> None:
        self._under_way -= 1
        while self._turns and self._under_way < self.limit:
            turn = self._turns.popleft()
            if not turn.done():  # nobody has given it up
                self._under_way += 1
                turn.set_result(None)

    def _adapt(self, rate: float) -> None:
        if rate >= WORTHWHILE_GAIN * self._last_rate:
            self._last_limit, self._last_rate = self.limit, rate
            self.limit = min(MAX_CONCURRENCY, 2 * self.limit)
            self._is_settled = self.limit == self._last_limit
        else:
            self.limit, self._is_settled = self._last_limit, True
        self._restart()

    def _restart(self) -> None:
        self._answers, self._begun = 0, math.nan
