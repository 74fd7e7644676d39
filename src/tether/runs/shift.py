"""The columns of rows inside the fold, and the watch on the scores of contexts among them.

The first scores, from the start or the last cleared alarm, are the reference. The monitor follows
from the scores alone, so a dump has only these.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tether.monitor import ShiftMonitor
from tether.runs.settings import Settings

REFERENCE_CONTEXTS = 500
"""How many contexts serve as the reference."""


class Columns:
    """Columns of equal length that grow at the end."""

    def __init__(self, **types: str) -> None:
        self._types = types
        self._stored = {name: np.empty(0, kind) for name, kind in types.items()}
        self.size = 0

    def extend(self, count: int, **values: Any) -> slice:
        """Add rows; columns that are not given are 0, or NaN."""
        end = self.size + count
        for name, kind in self._types.items():
            stored = self._stored[name]
            if end > len(stored):
                grown = np.empty(max(1024, 2 * end), stored.dtype)
                grown[: self.size] = stored[: self.size]
                self._stored[name] = stored = grown
            empty = math.nan if np.dtype(kind).kind == "f" else 0
            stored[self.size : end] = values.get(name, empty)
        new, self.size = slice(self.size, end), end
        return new

    def __getitem__(self, name: str) -> NDArray[Any]:
        return self._stored[name][: self.size]

    def copy(self) -> Columns:
        """The same rows, to which none are added."""
        other = Columns(**self._types)
        other.load(self.dump())
        return other

    def dump(self) -> dict[str, NDArray[Any]]:
        """All columns."""
        return {name: self[name] for name in self._types}

    def load(self, columns: dict[str, NDArray[Any]]) -> None:
        """Undo `dump`."""
        self._stored = {name: np.array(columns[name]) for name in self._types}
        self.size = len(next(iter(self._stored.values())))


class Shift:
    """Whether the scores of contexts since row `start` have shifted."""

    def __init__(self, start: int = 0) -> None:
        self.start, self._seen = start, 0
        self._monitor: ShiftMonitor | None = None

    def shown(self, settings: Settings, scores: NDArray[Any]) -> tuple[str, str] | None:
        """The alarm that the scores of all rows raise, if any."""
        if settings.stop is None or len(scores) < self.start + REFERENCE_CONTEXTS:
            return None
        if self._monitor is None:
            self._seen = self.start + REFERENCE_CONTEXTS
            rng = np.random.default_rng([settings.seed, self.start])
            reference = scores[self.start : self._seen]
            self._monitor = ShiftMonitor(reference, settings.stop, rng=rng)
        new, self._seen = scores[self._seen :], len(scores)
        if not len(new):
            return None
        status = self._monitor.update(new)
        return ("shift", str(status)) if status.alarm else None
