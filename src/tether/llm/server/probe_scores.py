"""The fingerprint of a served model: scores of a few fixed rows, compared from time to time.

A server can load another model or adapter under the same name without an error. Then the scores of
old rows and of new ones belong to different policies, and nothing computed from both is right.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from threading import Lock
from typing import Any

import numpy as np

from tether._core.types import Floats

PROBE_TOLERANCE = 0.05
"""Nats per row that rounding may change a score by, as in preflight."""
PROBE_ROWS = (
    ((3, 5, 4), (7, 6, 9, 8)),
    ((11, 10, 13), (12, 15, 14, 5)),
    ((4, 9, 6), (3, 14, 7, 10)),
    ((8, 12), (4, 11, 6, 13)),
)
"""Prompts and continuations of small token ids, which every vocabulary has."""


class ProbeScores:
    """Compares the scores of `PROBE_ROWS` with the first ones; thread-safe.

    Parameters
    ----------
    name : str
        What errors call the model.
    seconds : float or None
        How old a comparison may be when a policy is used; None to compare only when asked.
    clock : callable
        The time in seconds.
    """

    def __init__(
        self, name: str, seconds: float | None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._name, self._seconds, self._clock, self._lock = name, seconds, clock, Lock()
        self._first: Floats | None = None
        self._compared_at = -np.inf

    def compare_if_due(self, score: Callable[[], Floats]) -> None:
        """Compare, unless that was done a moment ago."""
        if self._seconds is not None and self._clock() - self._compared_at > self._seconds:
            self.compare(score)

    def compare(self, score: Callable[[], Floats]) -> None:
        """Refuse a model that scores the rows differently than at first."""
        now = score()
        with self._lock:
            first = self._first = now if self._first is None else self._first
            self._compared_at = self._clock()
        moved = _largest_change(first, now)
        if not moved <= PROBE_TOLERANCE:
            raise ValueError(
                f"the server serves another model as {self._name!r} than when this policy was "
                f"first used: scores of fixed rows have moved by up to {moved:.3g} nats. Make a "
                f"new policy for it, with a name of its own"
            )

    def __getstate__(self) -> dict[str, Any]:
        return {name: each for name, each in vars(self).items() if name != "_lock"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _lock=Lock(), _compared_at=-np.inf)


def _largest_change(first: Floats, now: Floats) -> float:
    """The largest difference; 0 where a row is impossible for both."""
    same = first == now
    with np.errstate(invalid="ignore"):
        return float(np.where(same, 0.0, np.abs(now - first)).max())
