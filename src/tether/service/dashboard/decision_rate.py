"""How many decisions a process makes in a second, over the last seconds."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable

RATE_SECONDS = 10.0
"""Over how long the rate is averaged."""


class DecisionRate:
    """The rate of a count that grows, as far as it was asked for in the last seconds."""

    def __init__(
        self, count: Callable[[], int], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._count, self._clock = count, clock
        self._seen: deque[tuple[float, int]] = deque()

    def per_second(self) -> float | None:
        """The rate now; None if it was not asked for a moment ago."""
        now, count = self._clock(), self._count()
        while self._seen and self._seen[0][0] < now - RATE_SECONDS:
            self._seen.popleft()
        self._seen.append((now, count))
        passed = now - self._seen[0][0]
        return (count - self._seen[0][1]) / passed if passed > 0 else None
