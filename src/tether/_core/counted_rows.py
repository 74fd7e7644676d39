"""How often rows occur, of a sample of bounded size: the distinct rows with the smallest hashes.

Hashes are spread evenly, so these are a sample of the distinct rows, each with all of its copies;
where rows have contexts, a sample of the contexts, each with all of its rows.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tether._core.types import Integers

Hashes = NDArray[np.uint64]
KEPT_ROWS = 16_384
"""Of how many distinct rows it is counted how often they occur."""
_COUNTED = ("contexts", "rows", "times")


@dataclass(frozen=True)
class CountedRows:
    """The distinct rows of the smallest contexts, in order, and how often each of them occurs.

    Contexts and rows are hashes; without contexts every distinct row is one of its own.
    """

    contexts: Hashes
    rows: Hashes
    times: Integers

    @classmethod
    def of(cls, rows: Hashes, contexts: Hashes | None = None) -> CountedRows:
        """Those of a part; of hashes that are spread evenly, few have to be sorted."""
        contexts, once = rows if contexts is None else contexts, np.ones(len(rows), dtype=np.int64)
        most = KEPT_ROWS * 2
        if len(rows) > 2 * most:
            near = np.flatnonzero(contexts < np.uint64(int(most / len(rows) * 2.0**64)))
            found = cls._smallest(contexts[near], rows[near], once[near])
            if len(found.rows) >= KEPT_ROWS:
                return found
        return cls._smallest(contexts, rows, once)

    def merge(self, other: CountedRows) -> CountedRows:
        """Those of both. A row among the smallest of all is so in each part that has it."""
        pairs = ((getattr(each, name) for each in (self, other)) for name in _COUNTED)
        return self._smallest(*(np.concatenate(tuple(pair)) for pair in pairs))

    @classmethod
    def _smallest(cls, contexts: Hashes, rows: Hashes, times: Integers) -> CountedRows:
        order = np.lexsort((rows, contexts))
        contexts, rows = contexts[order], rows[order]
        new = (contexts[1:] != contexts[:-1]) | (rows[1:] != rows[:-1])
        starts = np.flatnonzero(np.append(True, new)[: len(rows)])
        counted = np.add.reduceat(times[order], starts) if len(starts) else times
        kept = starts[:KEPT_ROWS]
        return cls(contexts[kept], rows[kept], counted[:KEPT_ROWS])

    @property
    def sampled(self) -> bool:
        """Whether there may be more rows than these."""
        return len(self.rows) == KEPT_ROWS

    def in_whole_contexts(self) -> tuple[Integers, Integers]:
        """How often rows occur, and how often contexts do, of which no row is left out."""
        starts = np.flatnonzero(np.append(True, self.contexts[1:] != self.contexts[:-1]))
        times, by_context = self.times, np.add.reduceat(self.times, starts)
        if self.sampled and len(starts) > 1 and starts[-1] != len(times) - 1:
            return times[: starts[-1]], by_context[:-1]
        return times, by_context
