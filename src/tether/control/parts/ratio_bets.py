"""Bets that the ratios of a log in parts have a larger mean than they can have.

`tether.control.contradictions` says what is bet, and does the same in memory. One pass, for logs
that the sum of their ratios does not settle.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tether.control.contradictions import STAKES, ratio_gains
from tether.control.parts.capital import Capitals, sum_digits
from tether.control.parts.rows import LogPart


@dataclass(frozen=True)
class BetOnRatios:
    """One bet for each stake, with a factor of room for rounded probabilities."""

    room: float

    def of(self, part: LogPart) -> Capitals:
        """The capitals after the rows of a part; no stake can lose everything."""
        ratio = part.log_ratio
        if part.acting is not None:
            ratio = part.log_optimized - part.acting.log_logged
        gains = ratio_gains(ratio, self.room)
        digits = [sum_digits(np.log1p(stake * gains)) for stake in STAKES]
        upper, lower = np.array(digits).T
        return Capitals(upper, lower, np.zeros(len(STAKES), dtype=bool))
