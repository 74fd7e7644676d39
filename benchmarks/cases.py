"""What every validity check is made of: repeats of a procedure, and what their mean may be.

A repeat gives one number, or one for each step: the risk of what is served, or whether something
happened that should be rare. A right procedure holds if every mean is within three standard errors
of its limit. A wrong one has to break by the same measure: a check that cannot fail shows nothing.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

ERRORS = 3
"""How many standard errors a mean may lie above its limit."""


@dataclass(frozen=True)
class Case:
    """A procedure in a world; `repeat` returns what one repeat gives."""

    name: str
    repeat: Callable[[np.random.Generator], float | np.ndarray]
    limit: float
    wrong: bool = False
    runs: int = 400

    def repeats(self, runs: int, seed: int = 0) -> np.ndarray:
        """So many repeats (runs × steps); the same seed gives the same ones."""
        rng = np.random.default_rng([seed, zlib.crc32(self.name.encode())])
        return np.array([np.atleast_1d(self.repeat(rng)).astype(float) for _ in range(runs)])

    def simulate(self, runs: int, seed: int = 0) -> Line:
        """The same, beside what the mean may be."""
        table = self.repeats(runs, seed)
        return Line(self, table[:, ~np.isnan(table).all(axis=0)], self.limit)


@dataclass(frozen=True)
class Line:
    """The repeats of a case, runs × steps; NaN where nothing was measured."""

    case: Case
    values: np.ndarray
    limit: float
    note: str = ""

    @property
    def means(self) -> np.ndarray:
        return np.asarray(np.nanmean(self.values, axis=0))

    @property
    def errors(self) -> np.ndarray:
        """Standard errors; for shares of repeats not below those that the limit itself has."""
        counts = np.sqrt((~np.isnan(self.values)).sum(axis=0))
        spread = np.nanstd(self.values, axis=0)
        if np.isin(self.values[~np.isnan(self.values)], (0.0, 1.0)).all():
            spread = np.maximum(spread, np.sqrt(self.limit * (1 - self.limit)))
        return np.asarray(spread / counts)

    @property
    def worst(self) -> int:
        """The step whose mean exceeds the limit by the most standard errors."""
        return int(np.argmax((self.means - self.limit) / np.maximum(self.errors, 1e-9)))

    @property
    def held(self) -> bool:
        slack = self.limit * (1 + 1e-9) + ERRORS * self.errors
        return bool((self.means <= slack).all())

    def __str__(self) -> str:
        at = f" in step {self.worst + 1}" if len(self.means) > 1 else ""
        if self.case.wrong:
            verdict = "DOES NOT BREAK" if self.held else "breaks, as it must"
        else:
            verdict = "holds" if self.held else "BROKEN"
        return (
            f"{self.case.name:66s} {self.means[self.worst]:.4f} ± {self.errors[self.worst]:.4f}"
            f"{at}, at most {self.limit:.4g}  {verdict}{self.note}"
        )
