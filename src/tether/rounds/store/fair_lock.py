"""A lock that threads get in the order in which they asked for it."""

from __future__ import annotations

from collections import deque
from threading import Lock


class FairLock:
    """Mutual exclusion in order of arrival.

    A `threading.Lock` is often taken again by the thread that has just released it, before those
    that wait have woken up.
    """

    def __init__(self) -> None:
        self._guard = Lock()
        self._is_held = False
        self._waiting: deque[Lock] = deque()

    def acquire(self, seconds: float) -> bool:
        """Wait for the lock, at most so many seconds; whether it was obtained."""
        with self._guard:
            if not self._is_held:
                self._is_held = True
                return True
            call = Lock()
            call.acquire()
            self._waiting.append(call)
        try:
            called = call.acquire(timeout=seconds)
        except BaseException:
            if self._stop_waiting(call):
                self.release()
            raise
        return called or self._stop_waiting(call)

    def release(self) -> None:
        """Hand the lock to the thread that has waited longest, if there is one."""
        with self._guard:
            if self._waiting:
                self._waiting.popleft().release()
            else:
                self._is_held = False

    def _stop_waiting(self, call: Lock) -> bool:
        """Leave the line; True if the lock was handed over at the last moment."""
        with self._guard:
            if call not in self._waiting:
                return True
            self._waiting.remove(call)
            return False
