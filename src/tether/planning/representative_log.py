"""A log that stands for those to come, in which rows count as often as they are to be expected."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from tether._core.types import Floats, Integers
from tether.control.log import Log
from tether.control.proposals import Proposals
from tether.planning.population import TINY, Population

PLANNED_LOSS = "loss"
"""The name of the one loss of a plan."""
MOST_CERTIFIED_ROWS = 4000
"""How many rows of a log with contexts the betas to certify are computed from."""


@dataclass(frozen=True)
class RepresentativeLog:
    """Rows, and the share of the rows to come that each stands for."""

    log: Log
    share: Floats
    proposals: Proposals | None = None

    @classmethod
    def from_population(cls, of: Population) -> Self:
        """A row for each kind of a population without contexts."""
        log_safe, drawn = np.zeros(len(of.share)), np.isfinite(of.log_ratio)
        proposals = Proposals(log_safe[drawn], of.log_ratio[drawn])
        return cls(Log({PLANNED_LOSS: of.loss}, log_safe, of.log_ratio), of.share, proposals)

    @classmethod
    def from_tables(cls, log: Log, bound: float, share: Floats, most: int | None = None) -> Self:
        """The rows of a log with tables of all actions, as rows of the safe policy.

        Of more than `most` rows, so many that are evenly spaced.
        """
        (loss,) = log.loss.values()
        assert log.log_safe_all is not None
        assert log.log_optimized_all is not None
        at, share = _spaced(loss, log.log_optimized - log.log_safe, share, most or len(loss))
        part = Log(
            {PLANNED_LOSS: loss[at] / bound},
            log.log_safe[at],
            log.log_optimized[at],
            log_safe_all=log.log_safe_all[at],
            log_optimized_all=log.log_optimized_all[at],
        )
        return cls(part, share)


def _spaced(loss: Floats, log_ratio: Floats, share: Floats, most: int) -> tuple[Integers, Floats]:
    """Rows evenly spaced among those with a loss and those without, and what they stand for."""
    if len(loss) <= most:
        return np.arange(len(loss)), share
    order, rows, shares = np.lexsort((log_ratio, loss)), [], []
    for part in (order[loss[order] == 0], order[loss[order] > 0]):
        if len(part):
            place = np.linspace(0, len(part) - 1, min(len(part), most // 2)).astype(np.int64)
            rows.append(part[place])
            chosen = share[part[place]]
            shares.append(chosen * (share[part].sum() / max(chosen.sum(), TINY)))
    return np.concatenate(rows), np.concatenate(shares)
