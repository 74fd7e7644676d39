"""The normalizers of clip, fast: ψ(β, x) of every context, one beta after another.

ψ sums min(free, β·capped) over the draws of a context. While beta stays in a window, a draw whose
ratio lies outside the window is capped throughout or not at all, so only the draws inside are
looked at again. ContextDraws whose numbers leave the range of floating point are summed from logs.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tether._core.types import Floats
from tether.control.context_draws import ContextDraws, refuse_empty
from tether.control.families import Clip

FARTHEST = 200.0
"""Logs within this of zero can be multiplied and summed as plain numbers."""
PER_WINDOW = 1 << 15
"""About how many draws one window holds."""


@dataclass(frozen=True)
class Window:
    """ψ while log beta stays in [lo, hi]: free + β·capped + what lies inside."""

    lo: float
    hi: float
    free: Floats
    capped: Floats
    inside_free: Floats
    inside_capped: Floats
    inside_context: NDArray[np.int64]

    def psi(self, beta: float) -> Floats:
        """The normalizer of every context at one beta."""
        inside = np.minimum(self.inside_free, self.inside_capped * beta)
        sums = np.bincount(self.inside_context, inside, len(self.free))
        return np.asarray(self.free + self.capped * beta + sums)


class ClipNormalizer:
    """ψ(β, x) of every context, by windows; the window last used is kept, for the next beta."""

    def __init__(self, draws: ContextDraws) -> None:
        self.draws = draws
        free, capped = draws.log_optimized - draws.log_mass, draws.log_safe - draws.log_mass
        self.plain = not (_far(free) or _far(capped))
        if not self.plain:
            return
        self.free, self.capped = np.exp(free), np.exp(capped)
        with np.errstate(invalid="ignore"):
            ratio = draws.log_optimized - draws.log_safe
        # Where neither policy acts both sides are zero, and either will do.
        self.ratio = np.where(np.isnan(ratio), -np.inf, ratio)
        self.context = np.repeat(np.arange(len(draws.start)), draws.size)
        sample = np.sort(self.ratio[:: max(1, len(ratio) // 4096)])
        cuts = np.linspace(0, len(sample) - 1, 2 + len(ratio) // PER_WINDOW)[1:-1]
        inner = sample[cuts.astype(int)]
        self.edge = np.concatenate(([-np.inf], inner[np.isfinite(inner)], [np.inf]))
        self.window: Window | None = None

    def log_psi(self, log_beta: float) -> Floats:
        """The log-normalizer of every context."""
        if not self.plain or abs(log_beta) > FARTHEST:
            return self.draws.log_psi(Clip(), log_beta)
        if self.window is None or not self.window.lo <= log_beta <= self.window.hi:
            self.window = self._open(log_beta)
        psi = self.window.psi(float(np.exp(log_beta)))
        with np.errstate(divide="ignore"):
            log_psi = np.log(psi)
        refuse_empty(log_psi)
        return np.asarray(log_psi)

    def _open(self, log_beta: float) -> Window:
        k = int(np.searchsorted(self.edge, log_beta, side="right")) - 1
        lo, hi = float(self.edge[k]), float(self.edge[k + 1])
        below, above = self.ratio < lo, self.ratio >= hi
        inside = ~(below | above)
        return Window(
            lo,
            hi,
            self._sums(self.free, below),
            self._sums(self.capped, above),
            self.free[inside],
            self.capped[inside],
            self.context[inside],
        )

    def _sums(self, amounts: Floats, chosen: NDArray[np.bool_]) -> Floats:
        """Sums of the chosen draws in each context."""
        sums = np.bincount(self.context[chosen], amounts[chosen], len(self.draws.start))
        return np.asarray(sums, dtype=np.float64)


def _far(values: Floats) -> bool:
    """Whether any value but −inf, which is zero, is far from zero."""
    bottom = values.min(initial=0.0, where=values > -np.inf)
    return bool(values.max(initial=0.0) > FARTHEST or bottom < -FARTHEST)
