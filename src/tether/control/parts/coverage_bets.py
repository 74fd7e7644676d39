"""Bets that a log in parts lacks what the optimized policy does, as `tether.control.coverage` has.

Sums of bets settle most logs, and are read together with the scores. Products over all rows are
read only where the sums do not, and for several shares at once where the products are too large.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tether._core.averaged_bets import beyond_chance
from tether._core.kernels import Several
from tether.control.coverage import (
    COVERAGE_FALSE_ALARM,
    COVERAGE_MARGIN,
    LOG_STAKES,
    Coverage,
    acted_ratios,
    refuted_coverage,
    settled_by_sums,
)
from tether.control.parts.capital import Capitals, sum_digits
from tether.control.parts.in_parts import LogInParts
from tether.control.parts.log_sum import LogSums
from tether.control.parts.rows import LogPart

HALVED_PER_PASS = 4
"""How often the interval that holds the limit is halved in one pass."""


@dataclass(frozen=True)
class BetOnCoverage:
    """For every share and stake, the log of the capital; with `plain`, the sum of what is gained.

    Where a ratio has no limit, nothing can be bet, and all capital is lost.
    """

    shares: tuple[float, ...]
    largest_seen: float
    plain: bool = False

    def of(self, part: LogPart) -> Several:
        """The capitals after the rows of a part, and the sums of ratios and expectations."""
        found = acted_ratios(part, self.largest_seen)
        assert found is not None
        count = len(self.shares) * len(LOG_STAKES)
        if not found.bounded:
            none = np.zeros(count, dtype=np.int64)
            lost = Capitals(none, none, np.ones(count, dtype=bool))
            return Several((lost, LogSums.of([np.empty(0), np.empty(0)])))
        with np.errstate(divide="ignore"):
            sums = LogSums.of([np.log(found.ratio), np.log(found.expected)])
        bets = (bet for share in self.shares for bet in found.bets(share))
        digits = [sum_digits(bet if self.plain else np.log1p(bet)) for bet in bets]
        upper, lower = np.array(digits).T
        return Several((Capitals(upper, lower, np.zeros(count, dtype=bool)), sums))


def coverage_bets(log: LogInParts) -> BetOnCoverage | None:
    """The sums that settle most logs; None where nothing can be bet on."""
    columns, stated = log.columns, log.max_ratio is not None
    if log.has_mixture:
        bounded = stated and columns.log_logged is not None and columns.log_base_limit is not None
    else:
        bounded = stated or log.has_tables
    if not bounded:
        return None
    with np.errstate(over="ignore"):
        largest_seen = float(np.exp(log.survey.acted_ratio))
    return BetOnCoverage((1 - COVERAGE_MARGIN,), largest_seen, plain=True)


def optimized_coverage_in_parts(
    log: LogInParts, asked: BetOnCoverage, found: Several
) -> Coverage | None:
    """The coverage of the optimized policy where it is too small to be chance."""
    plain: Capitals = found.each[0]
    log_ratios, log_expected = found.each[1].logs.tolist()
    if plain.lost.any() or log_expected == -np.inf or settled_by_sums(plain.logs.tolist()):
        return None

    def refuted(shares: Sequence[float]) -> list[bool]:
        (read,) = log.reduce(BetOnCoverage(tuple(shares), asked.largest_seen))
        capitals = read.each[0].logs.reshape(len(shares), len(LOG_STAKES))
        return [beyond_chance(each, COVERAGE_FALSE_ALARM) for each in capitals]

    return refuted_coverage(float(np.exp(log_ratios - log_expected)), refuted, HALVED_PER_PASS)
