"""Planning: how many rows a calibration needs before any beta passes, and what beta to expect."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from tether._core import validate
from tether._core.types import Floats

MAX_EXACT_ROWS = 50_000
"""Beyond this many rows the normal approximation is as good as the exact probability."""
ROW_MULTIPLES = (1, 2, 5, 10, 100)
"""The sizes of logs for which a plan states beta, as multiples of the likely number of rows."""
INTEGER_TOLERANCE = 1e-9
"""How far a quotient may be above an integer and still count as that integer."""
LOG_BETA_LIMIT, LOG_BETA_POINTS = 60.0, 24_001
"""The range of log beta in which the expected condition is examined, and at how many points."""
CONDITION_TOLERANCE = 1e-12
"""How far above zero, relatively, the expected condition still passes."""


@dataclass(frozen=True)
class Plan:
    """What a log of a given size can be expected to allow.

    The model: a loss is 0 or `bound`, which is the hardest case for a given risk. Log ratios are
    normal with standard deviation `log_ratio_spread` among harmless and among harmful actions,
    shifted so that the optimized policy's risk is `optimized_risk`.

    Parameters
    ----------
    alpha : float
        The tolerated expected loss.
    bound : float
        The largest possible loss.
    safe_risk, optimized_risk : float
        The expected loss of each policy.
    log_ratio_spread : float
        The standard deviation of the log ratios.
    confidence : float
        The probability with which `rows_likely` rows pass.
    rows_needed : float
        The fewest rows that pass if their mean loss is exactly the safe risk; inf if none do.
    rows_likely : float
        The fewest rows that pass with probability `confidence`; inf if none do.
    betas : tuple of (int, float)
        Numbers of rows, and the beta of clip to expect at each.

    Examples
    --------
    >>> made = plan(alpha=0.1, safe_risk=0.05, optimized_risk=0.2, rows=1000)
    >>> [(rows, round(beta, 2)) for rows, beta in made.betas]
    [(1000, 1.63)]
    """

    alpha: float
    bound: float
    safe_risk: float
    optimized_risk: float
    log_ratio_spread: float
    confidence: float
    rows_needed: float
    rows_likely: float
    betas: tuple[tuple[int, float], ...]

    def to_dict(self) -> dict[str, Any]:
        """Return all fields as plain values.

        Returns
        -------
        dict
            One entry per field.
        """
        return asdict(self)

    def summary(self) -> str:
        """Say in words how many rows are needed and what beta to expect.

        Returns
        -------
        str
            Several lines for a terminal; what printing the plan shows.
        """
        lines = [
            f"alpha {self.alpha:g} of at most {self.bound:g}, safe risk {self.safe_risk:g}, "
            f"optimized risk {self.optimized_risk:g}, log-ratio spread {self.log_ratio_spread:g}"
        ]
        if math.isinf(self.rows_needed):
            lines.append("  no number of rows is enough: the safe policy's risk is not below alpha")
            return "\n".join(lines)
        lines += [
            f"  {self.rows_needed:>12,} rows at least before any beta can pass",
            f"  {self.rows_likely:>12,} rows pass with probability {self.confidence:g}",
            f"  {'rows':>12}   beta to expect (clip)",
            *(f"  {rows:>12,}   {beta:.4g}" for rows, beta in self.betas),
        ]
        return "\n".join(lines)

    def __str__(self) -> str:
        return self.summary()


def plan(
    *,
    alpha: float,
    safe_risk: float,
    bound: float = 1.0,
    optimized_risk: float | None = None,
    log_ratio_spread: float = 1.0,
    rows: int | None = None,
    confidence: float = 0.9,
) -> Plan:
    """Estimate how many rows to log before any beta passes at `alpha`, and what beta to expect.

    With n rows of the safe policy, n·(alpha − mean loss) must be at least bound − alpha before any
    beta passes. A plan is an expectation under the simple model of `Plan`, not a promise.

    Parameters
    ----------
    alpha : float
        The tolerated expected loss, above 0 and below `bound`.
    safe_risk : float
        The expected loss of the safe policy, from 0 to `bound`.
    bound : float, default 1.0
        The largest possible loss.
    optimized_risk : float, optional
        The expected loss of the optimized policy; that of the safe policy by default.
    log_ratio_spread : float, default 1.0
        The standard deviation of the log ratio of optimized over safe density.
    rows : int, optional
        The number of rows for which to state beta; by default several multiples of the likely one.
    confidence : float, default 0.9
        The probability with which the likely number of rows passes.

    Returns
    -------
    Plan
        The rows needed, the rows that are likely to pass, and the beta to expect.

    Raises
    ------
    TypeError, ValueError
        If an argument is not a number or not in its range.

    Examples
    --------
    >>> made = plan(alpha=0.1, safe_risk=0.05)
    >>> made.rows_needed, made.rows_likely
    (18, 69)
    """
    bound = validate.number("bound", bound, above=0, below=np.inf)
    alpha = validate.number("alpha", alpha, above=0, below=bound)
    safe_risk = _checked_risk("safe_risk", safe_risk, bound)
    optimized_risk = _checked_risk(
        "optimized_risk", safe_risk if optimized_risk is None else optimized_risk, bound
    )
    spread = validate.number("log_ratio_spread", log_ratio_spread, above=0, below=100)
    confidence = validate.number("confidence", confidence, above=0, below=1)
    rows_needed, rows_likely = math.inf, math.inf
    if safe_risk < alpha:
        # A quotient that is an integer in decimals must not be rounded up for its binary error.
        quotient = (bound - alpha) / (alpha - safe_risk)
        rows_needed = math.ceil(quotient * (1 - INTEGER_TOLERANCE))
        rows_likely = _rows_likely(alpha, bound, safe_risk, confidence)
    if rows is not None:
        sizes = [validate.integer_at_least("rows", rows)]
    else:
        finite = math.isfinite(rows_likely)
        sizes = [int(rows_likely * multiple) for multiple in ROW_MULTIPLES] if finite else []
    model = _Model(alpha, bound, safe_risk / bound, optimized_risk / bound, spread)
    betas = tuple((size, model.beta(size)) for size in sizes)
    return Plan(
        alpha=alpha,
        bound=bound,
        safe_risk=safe_risk,
        optimized_risk=optimized_risk,
        log_ratio_spread=spread,
        confidence=confidence,
        rows_needed=rows_needed,
        rows_likely=rows_likely,
        betas=betas,
    )


def _checked_risk(name: str, value: float, bound: float) -> float:
    """A risk, from 0 to the bound."""
    if not isinstance(value, bool) and value in (0, bound):
        return float(value)
    return validate.number(name, value, above=0, below=bound)


def _rows_likely(alpha: float, bound: float, safe_risk: float, confidence: float) -> float:
    """The fewest rows from which on the safe policy's condition passes with the confidence."""
    from scipy.special import ndtri
    from scipy.stats import binom

    gap, sigmas = alpha - safe_risk, float(ndtri(confidence))
    noise = sigmas * math.sqrt(safe_risk * (bound - safe_risk))
    # The normal approximation: n·gap − noise·√n = bound − alpha.
    root = (noise + math.sqrt(max(noise**2 + 4 * gap * (bound - alpha), 0.0))) / (2 * gap)
    if root**2 > MAX_EXACT_ROWS:
        return math.ceil(root**2)
    rows = np.arange(1, 2 * math.ceil(root**2) + 1000)
    # It passes if n·alpha − bound·(harmful rows) ≥ bound − alpha. The probability is not monotone
    # in n, since the number of harmful rows is an integer: take the n after the last that fails.
    max_harmful = np.floor((rows * alpha - (bound - alpha)) / bound + INTEGER_TOLERANCE)
    failing = np.flatnonzero(binom.cdf(max_harmful, rows, safe_risk / bound) < confidence)
    return int(rows[failing[-1]]) + 1 if len(failing) else 1


@dataclass(frozen=True)
class _Model:
    """Harmful and harmless actions, each with normal log ratios under the safe policy.

    `harmful` and `harmful_optimized` are the shares of harmful actions of the two policies.
    """

    alpha: float
    bound: float
    harmful: float
    harmful_optimized: float
    spread: float

    def beta(self, rows: int) -> float:
        """Where the expected condition first fails, with as many proposals as rows."""
        grid = np.linspace(-LOG_BETA_LIMIT, LOG_BETA_LIMIT, LOG_BETA_POINTS)
        positive = self.harmful * (self.bound - self.alpha)
        negative = (1 - self.harmful) * self.alpha
        log_test_weight = np.minimum(grid, self._largest_log_ratio(rows))
        harmful = self._clipped_mean(grid, self.harmful_optimized, self.harmful)
        harmless = self._clipped_mean(grid, 1 - self.harmful_optimized, 1 - self.harmful)
        value = positive * harmful - negative * harmless
        value += (self.bound - self.alpha) * np.exp(log_test_weight) / rows
        failing = np.flatnonzero(value > CONDITION_TOLERANCE * np.exp(np.minimum(grid, 0)))
        if len(failing) == 0:
            return math.inf
        return float(np.exp(grid[failing[0] - 1])) if failing[0] else 0.0

    def _center(self, optimized: float, safe: float) -> float:
        """Mean log ratio of actions that have these shares under the two policies."""
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

    def _largest_log_ratio(self, draws: int) -> float:
        """The largest log ratio to expect among draws from the optimized policy."""
        from scipy.special import ndtri

        shares = (
            (self.harmful_optimized, self.harmful),
            (1 - self.harmful_optimized, 1 - self.harmful),
        )
        return max(
            self._center(optimized, safe)
            + self.spread**2
            + self.spread * float(ndtri(1 - 1 / max(optimized * draws, 2.0)))
            for optimized, safe in shares
        )
