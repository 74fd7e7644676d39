"""Weights of clip in plain numbers, for logs whose ratios are plain numbers.

Taking exponentials once, before the search over beta, leaves only a product, a minimum and a sum
for each beta. And while beta stays in a window, a draw whose ratio lies outside the window is
either clipped throughout or not at all: only the draws inside are looked at again. It gives what
`Weights` gives from logs, many times faster; logs whose ratios leave the range of floating point
keep to the logs.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from tether._check import Floats
from tether.control.draws import Draws
from tether.control.log import Log

FARTHEST = 200.0
"""Logs within this of zero can be multiplied and summed as plain numbers."""
PER_WINDOW = 1 << 15
"""About how many draws one window holds."""


@dataclass(frozen=True)
class Normalizers:
    """ψ of every context while log beta stays in [lo, hi]: free + β·capped + what lies inside."""

    lo: float
    hi: float
    free: Floats
    capped: Floats
    inside_free: Floats
    inside_capped: Floats
    inside_context: NDArray[np.int64]

    def at(self, beta: float) -> Floats:
        """ψ at one beta."""
        inside = np.minimum(self.inside_free, self.inside_capped * beta)
        sums = np.bincount(self.inside_context, inside, len(self.free))
        return np.asarray(self.free + self.capped * beta + sums)


@dataclass(frozen=True)
class LinearClip:
    """Both sides of every minimum: the capped one is multiplied by beta."""

    row_free: Floats
    row_capped: Floats
    draw_free: Floats
    draw_capped: Floats
    top_free: Floats
    top_capped: Floats
    ratio: Floats
    context: NDArray[np.int64]
    start: NDArray[np.int64]
    row: NDArray[np.int64]
    edge: Floats
    test_weight: str | float
    safe_share: float
    _last: list[Normalizers] = field(default_factory=list, compare=False)
    """The window last used: the search stays in one for a while."""

    @classmethod
    def build(cls, log: Log, draws: Draws, test_weight: str | float) -> LinearClip | None:
        """The same numbers without logs, or None where they would not be numbers."""
        mix = log.log_safe if log.log_mix is None else log.log_mix
        top_free, top_capped = draws.log_optimized - draws.log_mix, draws.log_safe - draws.log_mix
        if log.log_mix is None:
            # Against the safe policy itself the largest ratio of a context decides.
            possible = np.where(np.isneginf(draws.log_safe), -np.inf, top_free)
            top_free = np.maximum.reduceat(possible, draws.start)
            top_capped = np.zeros(len(draws.start))
        row_free, row_capped = log.log_optimized - mix, log.log_safe - mix
        draw_free = draws.log_optimized - draws.log_mass
        draw_capped = draws.log_safe - draws.log_mass
        logs = (row_free, row_capped, draw_free, draw_capped, top_free, top_capped)
        if any(_far(values) for values in logs):
            return None
        with np.errstate(invalid="ignore"):
            ratio = draws.log_optimized - draws.log_safe
        # Where neither policy acts both sides are zero, and either will do.
        ratio = np.where(np.isnan(ratio), -np.inf, ratio)
        sample = np.sort(ratio[:: max(1, len(ratio) // 4096)])
        cuts = np.linspace(0, len(sample) - 1, 2 + len(ratio) // PER_WINDOW)[1:-1]
        inner = sample[cuts.astype(int)]
        return cls(
            row_free=np.exp(row_free),
            row_capped=np.exp(row_capped),
            draw_free=np.exp(draw_free),
            draw_capped=np.exp(draw_capped),
            top_free=np.exp(top_free),
            top_capped=np.exp(top_capped),
            ratio=ratio,
            context=np.repeat(np.arange(len(draws.start)), draws.size),
            start=draws.start,
            row=draws.row,
            edge=np.concatenate(([-np.inf], inner[np.isfinite(inner)], [np.inf])),
            test_weight=test_weight,
            safe_share=log.safe_share or 1.0,
        )

    def shares(self, log_beta: float) -> tuple[Floats, float]:
        """The weights of the rows and of the test point as shares of one."""
        beta = float(np.exp(log_beta))
        psi = self._normalizers(log_beta).at(beta)
        rows = np.minimum(self.row_free, self.row_capped * beta) / psi[self.row]
        if self.test_weight == "empirical":
            tops = np.minimum(self.top_free, self.top_capped * beta)
            if len(tops) > len(psi):
                tops = np.maximum.reduceat(tops, self.start)
            last = float((tops / psi).max())
        elif self.test_weight == "analytic":
            last = beta / (self.safe_share * float(psi.min()))
        else:
            last = float(self.test_weight)
        total = float(rows.sum()) + last
        return rows / total, last / total

    def _normalizers(self, log_beta: float) -> Normalizers:
        if self._last and self._last[0].lo <= log_beta <= self._last[0].hi:
            return self._last[0]
        k = int(np.searchsorted(self.edge, log_beta, side="right")) - 1
        lo, hi = float(self.edge[k]), float(self.edge[k + 1])
        below, above = self.ratio < lo, self.ratio >= hi
        inside = ~(below | above)
        self._last[:] = [
            Normalizers(
                lo,
                hi,
                self._sums(self.draw_free, below),
                self._sums(self.draw_capped, above),
                self.draw_free[inside],
                self.draw_capped[inside],
                self.context[inside],
            )
        ]
        return self._last[0]

    def _sums(self, amounts: Floats, chosen: NDArray[np.bool_]) -> Floats:
        """Sums of the chosen draws in each context."""
        sums = np.bincount(self.context[chosen], amounts[chosen], len(self.start))
        return np.asarray(sums, dtype=np.float64)


def _far(values: Floats) -> bool:
    """Whether any value but −inf, which is zero, is far from zero."""
    finite = values > -np.inf
    top = values.max(initial=0.0)
    bottom = values.min(initial=0.0, where=finite)
    return bool(top > FARTHEST or bottom < -FARTHEST)
