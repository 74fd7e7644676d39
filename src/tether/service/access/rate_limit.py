"""How many requests a client may send: a token bucket for each."""

from __future__ import annotations

import time
from collections.abc import Callable


class RateLimit:
    """Lets each client send `per_second` requests on average, and `burst` of them at once.

    The names are those of API keys, so there are few.
    """

    def __init__(
        self, per_second: float, burst: int, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._per_second, self._burst, self._clock = per_second, float(burst), clock
        self._buckets: dict[str, tuple[float, float]] = {}

    def allows(self, name: str) -> bool:
        """Whether a client may send a request now, which is then counted."""
        now = self._clock()
        left, before = self._buckets.get(name, (self._burst, now))
        left = min(self._burst, left + (now - before) * self._per_second)
        allowed = left >= 1
        self._buckets[name] = (left - 1 if allowed else left), now
        return allowed
