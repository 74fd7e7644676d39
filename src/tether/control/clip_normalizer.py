"""The normalizing constant of clip in every context, at one beta after the other.

ψ(β, x) sums min(unclipped, β·clipped) over the draws of a context, where `unclipped` is
optimized/mass and `clipped` is safe/mass. While beta stays in a window of ratios, a draw whose
ratio lies outside the window is clipped throughout or not at all, so only the draws inside are
examined again. Draws that leave the range of floats are summed from their logs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from tether._core.blocks import BLOCK_ROWS, map_blocks
from tether._core.types import Floats, Integers
from tether.control.context_draws import MAX_PLAIN_LOG, ContextDraws, refuse_empty
from tether.control.families import Clip

DRAWS_PER_WINDOW = 1 << 15
"""About how many draws one window holds."""
WINDOW_SAMPLE = 4096
"""About how many ratios are sorted to place the windows."""


@dataclass(frozen=True)
class _Window:
    """ψ while log beta stays in [lo, hi]: the sums outside the window, and the draws inside it."""

    lo: float
    hi: float
    unclipped: Floats
    clipped: Floats
    inside_unclipped: Floats
    inside_clipped: Floats
    inside_context: Integers

    def psi(self, beta: float) -> Floats:
        """The normalizer of every context at one beta."""
        inside = np.minimum(self.inside_unclipped, self.inside_clipped * beta)
        psi = self.clipped * beta
        psi += self.unclipped
        psi += np.bincount(self.inside_context, inside, len(self.unclipped))
        return psi


class ClipNormalizer:
    """ψ(β, x) of every context: a plain sum at first, by windows once betas come close together.

    The last window is kept for the next beta.
    """

    def __init__(self, draws: ContextDraws) -> None:
        self.draws = draws
        rows = len(draws.log_safe)
        self.unclipped, self.clipped, self.ratio = np.empty(rows), np.empty(rows), np.empty(rows)
        self.plain = all(map_blocks(self._fill, rows))
        if not self.plain:
            return
        sample = np.sort(self.ratio[:: max(1, rows // WINDOW_SAMPLE)])
        cuts = np.linspace(0, len(sample) - 1, 2 + rows // DRAWS_PER_WINDOW)[1:-1]
        inner = sample[cuts.astype(int)]
        self.edge = np.concatenate(([-np.inf], inner[np.isfinite(inner)], [np.inf]))
        self.window: _Window | None = None
        self._last = -1

    def log_psi(self, log_beta: float) -> Floats:
        """Log of the normalizer of every context."""
        if not self.fits(log_beta):
            return self.draws.log_psi(Clip(), log_beta)
        with np.errstate(divide="ignore"):
            log_psi = np.log(self.psi(log_beta))
        refuse_empty(log_psi)
        return np.asarray(log_psi)

    def fits(self, log_beta: float) -> bool:
        """Whether ψ at this beta can be computed as a plain number."""
        return self.plain and abs(log_beta) <= MAX_PLAIN_LOG

    def psi(self, log_beta: float) -> Floats:
        """The normalizer of every context at a beta that fits."""
        beta = float(np.exp(log_beta))
        if self.window is not None and self.window.lo <= log_beta <= self.window.hi:
            return self.window.psi(beta)
        k = int(np.searchsorted(self.edge, log_beta, side="right")) - 1
        if k == self._last:  # the second beta in a row: more will follow
            self.window = self._open(k)
            return self.window.psi(beta)
        self._last = k

        def clip(draws: slice) -> Floats:
            return np.minimum(self.unclipped[draws], self.clipped[draws] * beta)

        return self._sums(clip)

    def _fill(self, block: slice) -> bool:
        """Amounts and ratios of a block of draws; whether they fit into floats."""
        safe, optimized = self.draws.log_safe[block], self.draws.log_optimized[block]
        log_unclipped = optimized - self.draws.log_mass[block]
        log_clipped = safe - self.draws.log_mass[block]
        if not (_fits_floats(log_unclipped) and _fits_floats(log_clipped)):
            return False
        np.exp(log_unclipped, out=self.unclipped[block])
        np.exp(log_clipped, out=self.clipped[block])
        with np.errstate(invalid="ignore"):
            ratio = np.subtract(optimized, safe, out=self.ratio[block])
        # Where both densities are zero, so are both amounts, and either ratio will do.
        if np.isnan(ratio.max()):
            ratio[np.isnan(ratio)] = -np.inf
        return True

    def _open(self, k: int) -> _Window:
        """The window between two edges."""
        lo, hi = float(self.edge[k]), float(self.edge[k + 1])
        inside = np.concatenate(
            map_blocks(partial(self._inside, lo, hi), len(self.ratio), BLOCK_ROWS)
        )
        return _Window(
            lo,
            hi,
            unclipped=self._sums(lambda draws: self.unclipped[draws] * (self.ratio[draws] < lo)),
            clipped=self._sums(lambda draws: self.clipped[draws] * (self.ratio[draws] >= hi)),
            inside_unclipped=self.unclipped[inside],
            inside_clipped=self.clipped[inside],
            inside_context=np.searchsorted(self.draws.start, inside, side="right") - 1,
        )

    def _inside(self, lo: float, hi: float, block: slice) -> Integers:
        """The draws of a block in a window."""
        ratio = self.ratio[block]
        found: Integers = np.flatnonzero((ratio >= lo) & (ratio < hi)) + block.start
        return found

    def _sums(self, amounts: Callable[[slice], Floats]) -> Floats:
        """Sums over the draws of each context of what is computed from a slice of all draws."""
        start = self.draws.start
        sums = np.empty(len(start))
        contexts_per_block = max(1, BLOCK_ROWS * len(start) // len(self.ratio))

        def add(block: slice) -> None:
            first = start[block.start]
            last = start[block.stop] if block.stop < len(start) else len(self.ratio)
            np.add.reduceat(amounts(slice(first, last)), start[block] - first, out=sums[block])

        map_blocks(add, len(start), contexts_per_block)
        return sums


def _fits_floats(logs: Floats) -> bool:
    """Whether the exponentials of all logs, −inf apart, can be multiplied and summed as floats."""
    lowest = logs.min(initial=0.0, where=logs > -np.inf)
    return not (logs.max(initial=0.0) > MAX_PLAIN_LOG or lowest < -MAX_PLAIN_LOG)
