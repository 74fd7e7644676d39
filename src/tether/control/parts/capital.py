"""The capital of bettors over a log in parts: a product over rows, in any order.

The log of a factor is written as an integer multiple of 2^−50, so that sums of them merge exactly.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from tether._core.types import Booleans, Floats, Integers
from tether.control.acting_weights import ActingWeights
from tether.control.constraint import Constraint
from tether.control.high_probability import weighted_losses
from tether.control.parts.rows import LogPart
from tether.control.parts.term_kernels import check_bound
from tether.control.parts.weights import WeightsOfPart

UPPER_STEP, LOWER_STEP = float(1 << 20), float(1 << 30)
"""The steps in which the upper and the lower digits of a log are counted."""


class Bet(NamedTuple):
    """What is tested at one beta: that the risk of a constraint is at most its alpha."""

    log_beta: float
    constraint: Constraint
    stakes: tuple[float, ...]


@dataclass(frozen=True)
class Capitals:
    """For every bet and stake, the digits of the log of the capital, and whether it is lost."""

    upper: Integers
    lower: Integers
    lost: Booleans

    def merge(self, other: Capitals) -> Capitals:
        """Those of both: capitals multiply."""
        return Capitals(self.upper + other.upper, self.lower + other.lower, self.lost | other.lost)

    @property
    def logs(self) -> Floats:
        """Log of what each bettor has in the end, who began with 1."""
        found = self.upper / UPPER_STEP + self.lower / (UPPER_STEP * LOWER_STEP)
        return np.where(self.lost, -np.inf, found)


def sum_digits(logs: Floats) -> tuple[int, int]:
    """The upper and the lower digits of a sum of finite logs."""
    scaled = logs * UPPER_STEP
    whole = np.floor(scaled)
    return int(whole.sum()), int(np.rint((scaled - whole) * LOWER_STEP).sum())


@dataclass(frozen=True)
class Betting:
    """Several bets on the rows of a part."""

    weights: WeightsOfPart
    bets: tuple[Bet, ...]

    def of(self, part: LogPart) -> Capitals:
        """The capitals after the rows of a part."""
        problem = self.weights.problem(part)
        acting = ActingWeights(problem, part.acting)
        at = lru_cache(maxsize=2)(acting.at)
        upper, lower, lost = [], [], []
        for log_beta, constraint, stakes in self.bets:
            check_bound(constraint, part.loss[constraint.name], several=len(part.loss) > 1)
            losses = weighted_losses(problem, constraint, at(log_beta))
            for stake in stakes:
                factors = losses.factors(stake, constraint.alpha)
                with np.errstate(divide="ignore"):
                    logs = np.log(factors)
                ruined = losses.refuted or bool(np.isneginf(logs).any())
                digits = sum_digits(np.where(np.isneginf(logs), 0.0, logs))
                upper.append(digits[0])
                lower.append(digits[1])
                lost.append(ruined)
        return Capitals(np.array(upper), np.array(lower), np.array(lost))
