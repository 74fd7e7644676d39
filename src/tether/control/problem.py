"""Weights: how much each row of the log counts for the tethered policy at a given beta.

Row i weighs w_i(β) = tethered density / density of the mixture that produced the log. The test
point, the action not yet taken, is given the largest weight it could have. All in logs.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from tether._core.types import Floats
from tether.control.clip_normalizer import ClipNormalizer
from tether.control.context_draws import Draws
from tether.control.families import BudgetedClip, Clip, Family, Mix
from tether.control.log import Log
from tether.control.solvers.segments import WIDEST

REMEMBERED = 64
"""How many betas' normalizers are kept while the search goes back and forth."""
UNCERTIFIED = 257
"""How many ratios, and as many even steps, a search without a certificate begins with."""
UNSETTLED = 30.0
"""How far past the ratios a family that never settles is followed, in log beta."""


@dataclass(frozen=True)
class Atoms:
    """Draws that may be the heaviest: log ratio, log of safe over mixture density, and context."""

    ratio: Floats
    base: Floats
    context: NDArray[np.int64]


@dataclass(frozen=True)
class Weights:
    """A log, the draws that go with it, a family, and how the test point is weighed.

    `test_weight` is "empirical" (the largest weight among the draws), "analytic" (a bound that no
    draw can exceed) or a number (the user's own bound).
    """

    log: Log
    draws: Draws
    family: Family
    test_weight: str | float
    drawn: bool
    """Whether the draws were given, rather than borrowed from the log's own rows."""

    @property
    def exact(self) -> bool:
        """Whether the condition has a closed form in beta: mix, and clip without contexts."""
        if isinstance(self.family, Mix) or (
            isinstance(self.family, Clip) and not self.log.contextual
        ):
            return self._on_one_scale
        return False

    @cached_property
    def _on_one_scale(self) -> bool:
        """Whether the amounts of `Constraint.terms` fit one range of plain numbers."""
        if self.log.log_mix is None and isinstance(self.test_weight, str):
            return True
        scales = [np.zeros(1) if self.log.log_mix is None else self.log.log_safe - self.log_mix]
        possible = self.draws.log_safe > -np.inf
        scales.append((self.draws.log_safe - self.draws.log_mix)[possible])
        if not isinstance(self.test_weight, str):
            scales.append((self.draws.log_safe - self.draws.log_mass)[possible])
        highest, lowest = max(part.max() for part in scales), min(part.min() for part in scales)
        return bool(highest - lowest < WIDEST)

    @property
    def log_mix(self) -> Floats:
        """Log-density of the policies that produced the rows."""
        return self.log.log_safe if self.log.log_mix is None else self.log.log_mix

    def at(self, log_beta: float) -> tuple[Floats, float]:
        """The log-weight of every row and of the test point."""
        log_psi = self.log_psi(log_beta)
        rows = self.family.log_density(
            self.log.log_safe,
            self.log.log_optimized,
            log_beta,
            log_psi if len(log_psi) == 1 else log_psi[self.draws.row],
        )
        return rows - self.log_mix, self._test(log_beta, log_psi)

    def shares(self, log_beta: float) -> tuple[Floats, float]:
        """The weights of the rows and of the test point as shares of one."""
        rows, test = self.at(log_beta)
        top = max(rows.max(), test)
        if top == -np.inf:  # no row and no draw is possible: nothing but the worst case is left
            return np.zeros(len(rows)), 1.0
        share, last = np.exp(rows - top), float(np.exp(test - top))
        total = share.sum() + last
        share /= total
        return share, last / total

    def log_acceptance(self, log_beta: float) -> float:
        """Log of the share of a sampler's draws that it keeps, over all contexts of the log."""
        per_context = self.family.log_acceptance(log_beta, self.log_psi(log_beta))
        log_draws = -np.asarray(per_context)[self.draws.row]
        with np.errstate(invalid="ignore"):  # a family may answer nan
            return float(np.log(len(log_draws)) - np.logaddexp.reduce(log_draws))

    @cached_property
    def span(self) -> tuple[float, float]:
        """The smallest and the largest log ratio that rows and draws have."""
        lo, hi = np.inf, -np.inf
        for part in (self.log, self.draws):
            with np.errstate(invalid="ignore"):
                ratio = part.log_optimized - part.log_safe
            finite = np.isfinite(ratio)
            lo = min(lo, float(ratio.min(initial=np.inf, where=finite)))
            hi = max(hi, float(ratio.max(initial=-np.inf, where=finite)))
        return (lo, hi) if lo <= hi else (0.0, 0.0)

    def reach(self, log_beta: float = 0.0) -> tuple[float, float]:
        """The log betas between which the tethered policy changes, as far as the data can tell.

        A finite `log_beta` is always within reach; a family that never settles reaches everything.
        """
        lo, hi = self.span
        if not self.family.saturates:
            return -np.inf, np.inf
        seen = log_beta if np.isfinite(log_beta) else 0.0
        return min(lo, seen, 0.0), max(hi, seen, 0.0)

    def searched(self) -> tuple[float, float]:
        """The log betas among which to look for the largest that passes."""
        lo, hi = self.span
        return self.reach() if self.family.saturates else (lo - UNSETTLED, hi + UNSETTLED)

    @property
    def certified(self) -> bool:
        """Whether the search can vouch for the betas between those it looks at."""
        return isinstance(self.family, BudgetedClip) or self.family.smoothness is not None

    def points(self, lo: float, hi: float) -> list[float]:
        """Where the search begins: the ends, and ratios in between where it has no certificate."""
        if self.certified:
            return [lo, hi]
        with np.errstate(invalid="ignore"):
            ratio = np.append(self.ratio, self.draws.log_optimized - self.draws.log_safe)
        ratio = np.sort(ratio[np.isfinite(ratio)])
        picked = ratio[np.linspace(0, len(ratio) - 1, UNCERTIFIED).astype(int)]
        even = np.linspace(lo, hi, UNCERTIFIED)
        return [float(t) for t in np.unique(np.concatenate((picked, even))) if lo <= t <= hi]

    def log_draws(self, log_beta: float) -> Floats:
        """The log-weight of every draw."""
        return self.draws.log_weight(self.family, log_beta, self.log_psi(log_beta))

    def log_psi(self, log_beta: float) -> Floats:
        """The log-normalizer of every context."""
        if self.family.normalized or np.isinf(log_beta):
            return np.zeros(len(self.draws.start))
        if not isinstance(self.family, (Clip, BudgetedClip)):
            return self.draws.log_psi(self.family, log_beta)
        if log_beta not in self._psi:
            while len(self._psi) >= REMEMBERED:
                self._psi.pop(next(iter(self._psi)))
            self._psi[log_beta] = self._normalizer.log_psi(log_beta)
        return self._psi[log_beta]

    @cached_property
    def ratio(self) -> Floats:
        """The log ratio of every row."""
        return np.asarray(self.log.log_optimized - self.log.log_safe)

    @cached_property
    def base(self) -> Floats | float:
        """Log of safe over mixture density at every row."""
        return 0.0 if self.log.log_mix is None else self.log.log_safe - self.log.log_mix

    @cached_property
    def atoms(self) -> Atoms:
        """Draws that may be the heaviest: one a context, if the mixture is the safe policy."""
        draws = self.draws
        possible = np.flatnonzero(draws.log_safe > -np.inf)
        ratio = draws.log_optimized[possible] - draws.log_safe[possible]
        context = np.repeat(np.arange(len(draws.start)), draws.size)[possible]
        if self.log.log_mix is not None:
            return Atoms(ratio, draws.log_safe[possible] - draws.log_mix[possible], context)
        contexts, start = np.unique(context, return_index=True)
        highest = np.maximum.reduceat(ratio, start)
        return Atoms(highest, np.zeros(len(contexts)), contexts)

    @cached_property
    def _normalizer(self) -> ClipNormalizer:
        return ClipNormalizer(self.draws)

    @cached_property
    def _psi(self) -> dict[float, Floats]:
        return {}

    def _test(self, log_beta: float, log_psi: Floats) -> float:
        if self.test_weight == "empirical":
            return float(self.draws.log_weight(self.family, log_beta, log_psi).max())
        if self.test_weight == "analytic":
            bound = self.family.log_ratio_bound(log_beta, log_psi)
            return float(np.max(bound) - np.log(self.log.safe_share or 1.0))
        return float(np.log(self.test_weight))
