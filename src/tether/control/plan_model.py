"""The model of a plan: what beta, and what stated promise, a log of a given size would allow.

A loss is 0 or the bound, which is the hardest case for a given risk. Log ratios are normal among
harmful and among harmless actions, shifted so that the optimized policy has its risk. What this
means for a family is in `tether.control.plan_clip` and `tether.control.plan_mix`.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from tether._core.safe_excess import SafeMean

LEVELS_BELOW_PROMISE = 40
"""How many levels of alpha between the safe risk and a promise are tried."""
MAX_PLANNED_ROWS = 1 << 40
"""A plan that needs more rows than this is hopeless."""


class Outlook(NamedTuple):
    """What to expect at one level of alpha: beta, and the whole stated promise."""

    alpha: float
    beta: float
    promise: float


@dataclass(frozen=True)
class PlanModel(ABC):
    """Harmful and harmless actions, each with normal log ratios under the safe policy.

    `harmful` and `harmful_optimized` are the shares of harmful actions of the two policies, and
    `max_ratio` is the largest ratio that the next action can have, where it is known.
    """

    bound: float
    harmful: float
    harmful_optimized: float
    spread: float
    max_ratio: float | None = None

    @abstractmethod
    def outlook(self, alpha: float, rows: int) -> Outlook:
        """Beta and the promise to expect, with as many proposals as rows.

        The promise is to first order in what one row can change.
        """

    def boldest(self, promise: float, rows: int) -> Outlook | None:
        """The largest beta to expect whose stated promise is at most this; None if none is."""
        safe_risk = self.harmful * self.bound
        if safe_risk >= promise:
            return None
        # Levels are closest together near the promise, where those for many rows are.
        shares = 1 - np.square(np.arange(LEVELS_BELOW_PROMISE) / LEVELS_BELOW_PROMISE)
        levels = safe_risk + (promise - safe_risk) * shares
        tried = (self.outlook(float(level), rows) for level in levels)
        kept = [found for found in tried if found.beta > 0 and found.promise <= promise]
        return max(kept, key=lambda found: found.beta, default=None)

    def rows_for_promise(self, promise: float) -> float:
        """The fewest rows that can be expected to keep a promise, to three digits; inf if none."""
        rows = 1
        while self.boldest(promise, rows) is None:
            rows *= 2
            if rows > MAX_PLANNED_ROWS or self.harmful * self.bound >= promise:
                return math.inf
        low = rows // 2
        while rows - low > max(1, low // 1000):
            middle = (low + rows) // 2
            if self.boldest(promise, middle) is None:
                low = middle
            else:
                rows = middle
        return rows

    def existence(self, alpha: float, rows: int) -> float:
        """The existence term to expect: what the log's own estimate of it is on average.

        In it the mean loss counts with twice its variance.
        """
        risk = self.harmful * self.bound
        variance = 2 * self.harmful * (1 - self.harmful) / (rows + 1)
        error = math.sqrt(variance + ((1 - self.harmful) / (rows + 1)) ** 2)
        return SafeMean(risk, self.bound * error).excess(alpha)

    def center(self, optimized: float, safe: float) -> float:
        """Mean log ratio of actions that have these shares under the two policies."""
        if optimized == 0 or safe == 0:
            return -math.inf
        return math.log(optimized / safe) - self.spread**2 / 2

    def largest_log_ratio(self, draws: int) -> float:
        """The largest log ratio, or the one to expect among draws from the optimized policy."""
        if self.max_ratio is not None:
            return math.log(self.max_ratio)
        from scipy.special import ndtri

        shares = (
            (self.harmful_optimized, self.harmful),
            (1 - self.harmful_optimized, 1 - self.harmful),
        )
        return max(
            self.center(optimized, safe)
            + self.spread**2
            + self.spread * float(ndtri(1 - 1 / max(optimized * draws, 2.0)))
            for optimized, safe in shares
        )
