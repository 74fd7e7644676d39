"""Planning: how many rows before anything but the safe policy can pass, and what beta to expect."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from tether._core import validate
from tether._core.types import Floats

MANY = 50_000
"""Past so many rows the normal approximation is as good as the exact probability."""
STEPS = (1, 2, 5, 10, 100)


@dataclass(frozen=True)
class Plan:
    """What a log of a given size can be expected to allow.

    Losses are taken as all or nothing, 0 or `bound`, which is the hardest case for a given risk.
    Log ratios are taken as normal with spread `log_ratio_spread` among harmless and among harmful
    actions, shifted so that the optimized policy's risk is `optimized_risk`.
    """

    alpha: float
    bound: float
    safe_risk: float
    optimized_risk: float
    log_ratio_spread: float
    confidence: float
    rows_needed: float
    """The fewest rows that pass if the log shows exactly the safe risk; inf if none do."""
    rows_likely: float
    """The fewest rows that pass with probability `confidence`; inf if none do."""
    betas: tuple[tuple[int, float], ...]
    """Numbers of rows, and the beta of clip to expect at each."""

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain values."""
        return asdict(self)

    def __str__(self) -> str:
        lines = [
            f"alpha {self.alpha:g} of at most {self.bound:g}, safe risk {self.safe_risk:g}, "
            f"optimized risk {self.optimized_risk:g}, log-ratio spread {self.log_ratio_spread:g}"
        ]
        if math.isinf(self.rows_needed):
            lines.append("  no number of rows helps: the safe policy's risk is not below alpha")
            return "\n".join(lines)
        lines += [
            f"  {self.rows_needed:>12,} rows at least before any beta can pass",
            f"  {self.rows_likely:>12,} rows pass with probability {self.confidence:g}",
            f"  {'rows':>12}   beta to expect (clip)",
            *(f"  {rows:>12,}   {beta:.4g}" for rows, beta in self.betas),
        ]
        return "\n".join(lines)


def plan(
    alpha: float,
    bound: float,
    safe_risk: float,
    *,
    optimized_risk: float | None = None,
    log_ratio_spread: float = 1.0,
    rows: int | None = None,
    confidence: float = 0.9,
) -> Plan:
    """How many rows to log before a calibration at `alpha` can move, and how far it then goes.

    With n rows of the safe policy, n·(alpha − mean loss) must outweigh bound − alpha before any
    beta passes. `optimized_risk` defaults to the safe risk: an optimized policy no worse than it.
    A plan is an expectation under a simple model, never a promise.

    >>> made = plan(0.1, 1.0, 0.05)
    >>> made.rows_needed, made.rows_likely
    (18, 69)
    """
    bound = validate.number("bound", bound, above=0, below=np.inf)
    alpha = validate.number("alpha", alpha, above=0, below=bound)
    safe_risk = _at_most("safe_risk", safe_risk, bound)
    optimized_risk = _at_most(
        "optimized_risk", safe_risk if optimized_risk is None else optimized_risk, bound
    )
    spread = validate.number("log_ratio_spread", log_ratio_spread, above=0, below=100)
    confidence = validate.number("confidence", confidence, above=0, below=1)
    needed, likely = math.inf, math.inf
    if safe_risk < alpha:
        # A hair less, so that a quotient that is whole in decimals is not rounded up in binary.
        needed = math.ceil((bound - alpha) / (alpha - safe_risk) * (1 - 1e-9))
        likely = _likely(alpha, bound, safe_risk, confidence)
    if rows is not None:
        if isinstance(rows, bool) or not isinstance(rows, (int, np.integer)) or rows < 1:
            raise ValueError(f"rows must be a whole number of at least 1, got {rows!r}")
        sizes = [int(rows)]
    else:
        sizes = [int(likely * step) for step in STEPS] if math.isfinite(likely) else []
    model = _Model(alpha, bound, safe_risk / bound, optimized_risk / bound, spread)
    betas = tuple((size, model.beta(size)) for size in sizes)
    return Plan(alpha, bound, safe_risk, optimized_risk, spread, confidence, needed, likely, betas)


def _at_most(name: str, value: Any, bound: float) -> float:
    """A risk, from 0 to the bound."""
    if not isinstance(value, bool) and value in (0, bound):
        return float(value)
    return validate.number(name, value, above=0, below=bound)


def _likely(alpha: float, bound: float, safe_risk: float, confidence: float) -> float:
    """The fewest rows from which on the safe policy's own condition passes often enough."""
    from scipy.special import ndtri
    from scipy.stats import binom

    gap, sigmas = alpha - safe_risk, float(ndtri(confidence))
    noise = sigmas * math.sqrt(safe_risk * (bound - safe_risk))
    # The normal approximation: n·gap − noise·√n = bound − alpha.
    root = (noise + math.sqrt(max(noise**2 + 4 * gap * (bound - alpha), 0.0))) / (2 * gap)
    if root**2 > MANY:
        return math.ceil(root**2)
    rows = np.arange(1, 2 * math.ceil(root**2) + 1000)
    # n·alpha − bound·(harmful rows) ≥ bound − alpha, and from there on for good: with whole
    # numbers of harmful rows, passing comes and goes at first.
    most = np.floor((rows * alpha - (bound - alpha)) / bound + 1e-9)
    failing = np.flatnonzero(binom.cdf(most, rows, safe_risk / bound) < confidence)
    return int(rows[failing[-1]]) + 1 if len(failing) else 1


@dataclass(frozen=True)
class _Model:
    """Harmful and harmless actions, each with normal log ratios under the safe policy."""

    alpha: float
    bound: float
    harmful: float
    harmful_optimized: float
    spread: float

    def beta(self, rows: int) -> float:
        """Where the expected condition, with the test weight of so many proposals, first fails."""
        grid = np.linspace(-60.0, 60.0, 24_001)
        against = self.harmful * (self.bound - self.alpha)
        speaking = (1 - self.harmful) * self.alpha
        top = np.minimum(grid, self._top(rows))
        harmful = self._clipped_mean(grid, self.harmful_optimized, self.harmful)
        harmless = self._clipped_mean(grid, 1 - self.harmful_optimized, 1 - self.harmful)
        value = against * harmful - speaking * harmless
        value += (self.bound - self.alpha) * np.exp(top) / rows
        failing = np.flatnonzero(value > 1e-12 * np.exp(np.minimum(grid, 0)))
        if len(failing) == 0:
            return math.inf
        return float(np.exp(grid[failing[0] - 1])) if failing[0] else 0.0

    def _center(self, optimized: float, safe: float) -> float:
        """Mean log ratio of a group that has share `safe` before and `optimized` after."""
        if optimized == 0 or safe == 0:
            return -math.inf
        return math.log(optimized / safe) - self.spread**2 / 2

    def _clipped_mean(self, grid: Floats, optimized: float, safe: float) -> Floats:
        """E min(ρ, β) of a lognormal ratio."""
        from scipy.special import ndtr

        center = self._center(optimized, safe)
        if math.isinf(center):
            return np.zeros(len(grid))
        free = np.exp(center + self.spread**2 / 2) * ndtr(
            (grid - center) / self.spread - self.spread
        )
        return np.asarray(free + np.exp(grid) * ndtr((center - grid) / self.spread))

    def _top(self, draws: int) -> float:
        """The largest log ratio to expect among draws from the optimized policy."""
        from scipy.special import ndtri

        shares = (
            (self.harmful_optimized, self.harmful),
            (1 - self.harmful_optimized, 1 - self.harmful),
        )
        tops = [
            self._center(after, before)
            + self.spread**2
            + self.spread * float(ndtri(1 - 1 / max(after * draws, 2.0)))
            for after, before in shares
        ]
        return max(tops)
