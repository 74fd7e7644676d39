"""Which requests are the first units of their rows: the ones whose losses a release asks for.

A loss belongs to the first unit of a key that a system answered. If a key has several requests at
once, the one that ends first need not be the one that came first: failures by timeouts end last, so
"whichever comes first" would prefer the successes. So a request reports only if it was the one for
which the row was made.
"""

from __future__ import annotations

from collections.abc import Sequence
from threading import Lock

MAX_UNCLAIMED_ROWS = 100_000
"""How many rows are remembered that no request has claimed, such as those of other endpoints."""


class FirstUnits:
    """Rows that were made in this process, each claimed by one request."""

    def __init__(self, most: int = MAX_UNCLAIMED_ROWS) -> None:
        self._rows: dict[tuple[bytes, str], None] = {}
        self._most, self._lock = most, Lock()

    def made(self, rows: Sequence[tuple[bytes, str]]) -> None:
        """Remember rows that were made just now; the oldest are forgotten, if there are many."""
        with self._lock:
            self._rows |= dict.fromkeys(rows)
            while len(self._rows) > self._most:
                del self._rows[next(iter(self._rows))]

    def claim(self, key: bytes, system: str) -> bool:
        """Whether a request is the first to ask for a row that was made.

        If the request that a row was made for has given up waiting for the store, this is the next
        one of its key: also for the release the row begins with that.
        """
        with self._lock:
            if (key, system) not in self._rows:
                return False
            del self._rows[key, system]
            return True
