"""The model of a plan: what beta, and what stated promise, a log of a given size would allow.

It is a calibration in which every sum over rows is at its expectation, given the mean loss of the
rows. Of everything that differs between logs, their mean loss decides the most by far whether a
log passes: `PlanModel.passes` says which mean losses do. What this means for a family is in
`tether.planning.clip_model` and `tether.planning.mix_model`. Losses are in units of the bound.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple, Self

import numpy as np

from tether._core.safe_excess import SafeMean
from tether.control.promise import unforeseen_term
from tether.control.promise_target import TARGET_TOLERANCE
from tether.planning.population import Population

LEVELS_BELOW_PROMISE = 32
"""How many levels of alpha below a promise are tried."""
LEVEL_STEPS = 12
"""How many times the interval between two levels is halved to locate the largest alpha."""
MAX_PLANNED_ROWS = 1 << 40
"""As many rows as are taken for arbitrarily many."""
CONDITION_TOLERANCE = 1e-12
"""How far above zero, for each row, the expected condition still passes."""


class Outlook(NamedTuple):
    """What to expect at one level of alpha: beta, and the whole stated promise."""

    alpha: float
    beta: float
    promise: float


@dataclass(frozen=True)
class PlanModel(ABC):
    """What to expect of a family; `max_ratio` is the next action's largest ratio, where known."""

    population: Population
    max_ratio: float | None = None

    @abstractmethod
    def _solve(self, alpha: float, rows: int) -> tuple[float, float]:
        """Beta, 0 if none passes, and the stability ε; with as many proposals as rows."""

    def with_mean(self, mean: float) -> Self:
        """What to expect of logs with this mean loss."""
        return replace(self, population=self.population.with_mean(mean))

    def outlook(self, alpha: float, rows: int) -> Outlook:
        """Beta and the promise to expect."""
        beta, instability = self._solve(alpha, rows)
        if beta == 0:
            return Outlook(alpha, 0.0, 1.0)
        stated = alpha + max(alpha, 1 - alpha) * instability + self.existence(alpha, rows)
        return Outlook(alpha, beta, min(1.0, stated + self.unforeseen(alpha, rows)))

    def passes(self, promise: float, rows: int) -> bool:
        """Whether some alpha has a beta whose stated promise is at most this."""
        return any(found.promise <= promise for found in self._tried(promise, rows))

    def boldest(self, promise: float, rows: int) -> Outlook | None:
        """What to expect at the largest alpha whose stated promise is at most this, if any is."""
        too_large = promise
        for found in self._tried(promise, rows):
            if found.promise <= promise:
                break
            too_large = found.alpha
        else:
            return None
        for _ in range(LEVEL_STEPS if found.alpha < too_large else 0):
            between = self.outlook((found.alpha + too_large) / 2, rows)
            if between.promise <= promise:
                found = between
            else:
                too_large = between.alpha
        return found

    def _tried(self, promise: float, rows: int) -> Iterator[Outlook]:
        """The outlook at levels of alpha, from the promise down to the least that has a beta.

        Levels whose existence term alone is too large are left out.
        """
        least = (1 + rows * self.population.mean) / (rows + 1) + TARGET_TOLERANCE / 2 * promise
        if least >= promise:
            return
        for level in np.linspace(promise, least, LEVELS_BELOW_PROMISE).tolist():
            if level + self.existence(level, rows) <= promise:
                yield self.outlook(level, rows)

    def existence(self, alpha: float, rows: int) -> float:
        """The existence term that is stated by logs with this mean loss."""
        of = self.population
        squares = rows * of.variance + (1 - of.mean) ** 2
        safe = SafeMean(of.mean, math.sqrt(squares) / (rows + 1))
        return safe.excess_where_passing(alpha)

    def unforeseen(self, alpha: float, draws: int) -> float:
        """What next actions that no draw foresees may add, where no largest ratio is known."""
        if self.max_ratio is not None:
            return 0.0
        return unforeseen_term(1 / (draws + 1), draws, alpha, 1.0)

    def largest_log_ratio(self, draws: int) -> float:
        """The largest log ratio of the next action, or the one to expect among draws."""
        if self.max_ratio is not None:
            return math.log(self.max_ratio)
        return self.population.largest_log_ratio(draws)
