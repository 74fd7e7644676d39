"""A circuit breaker: an upstream that is down costs its timeout now and then, not every time."""

from __future__ import annotations

import time
from collections.abc import Callable


class CircuitBreaker:
    """Opens after so many failures in a row; then one request tries after each pause.

    A success closes it. A try whose end is never told (its client has left) is followed by another
    one after the next pause.
    """

    def __init__(
        self, failures: int, pause: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._most, self._pause, self._clock = failures, pause, clock
        self._failures, self._try_at = 0, 0.0

    @property
    def is_open(self) -> bool:
        """Whether the upstream is not asked at present, but for tries."""
        return self._failures >= self._most

    def allows(self) -> bool:
        """Whether the upstream may be asked now."""
        if not self.is_open:
            return True
        now = self._clock()
        if now < self._try_at:
            return False
        self._try_at = now + self._pause
        return True

    def succeeded(self) -> None:
        """Note that the upstream has answered."""
        self._failures = 0

    def failed(self) -> None:
        """Note that it has not."""
        self._failures += 1
        if self.is_open:
            self._try_at = self._clock() + self._pause
