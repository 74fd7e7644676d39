"""Planning: how many rows a calibration needs before any beta passes, and what beta to expect."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from tether._core import validate
from tether.control.plan_model import Outlook, PlanModel

MAX_EXACT_ROWS = 50_000
"""Beyond this many rows the normal approximation is as good as the exact probability."""
LARGEST_PLAN = 1e15
"""A plan with more rows than this is refused."""
ROW_MULTIPLES = (1, 2, 5, 10, 100)
"""The sizes of logs for which a plan states beta, as multiples of the likely number of rows."""
INTEGER_TOLERANCE = 1e-9
"""How far a quotient may be above an integer and still count as that integer."""


@dataclass(frozen=True)
class Plan:
    """What a log of a given size can be expected to allow.

    The model: a loss is 0 or `bound`, which is the hardest case for a given risk. Log ratios are
    normal with standard deviation `log_ratio_spread` among harmless and among harmful actions,
    shifted so that the optimized policy's risk is `optimized_risk`.

    Parameters
    ----------
    alpha : float, optional
        The tolerated expected loss; None where a promise was named instead.
    promise : float, optional
        The whole stated bound that was named: alpha, stability and existence together.
    bound : float
        The largest possible loss.
    safe_risk, optimized_risk : float
        The expected loss of each policy.
    log_ratio_spread : float
        The standard deviation of the log ratios.
    pass_probability : float
        The probability with which `rows_likely` rows pass.
    rows_needed : float
        The fewest rows that pass if their mean loss is exactly the safe risk; inf if none do. For a
        promise, the fewest with which the stated promise can be expected to be kept.
    rows_likely : float
        The fewest rows that pass with probability `pass_probability`; inf if none do.
    betas : tuple of (int, float)
        Numbers of rows, and the beta of clip to expect at each.
    promises : tuple of (int, float)
        The same numbers of rows, and the whole promise to expect to be stated at each.

    Examples
    --------
    >>> made = plan(alpha=0.1, safe_risk=0.05, optimized_risk=0.2, rows=1000)
    >>> [(rows, round(beta, 2)) for rows, beta in made.betas]
    [(1000, 1.63)]
    """

    alpha: float | None
    promise: float | None
    bound: float
    safe_risk: float
    optimized_risk: float
    log_ratio_spread: float
    pass_probability: float
    rows_needed: float
    rows_likely: float
    betas: tuple[tuple[int, float], ...]
    promises: tuple[tuple[int, float], ...]

    @property
    def possible(self) -> bool:
        """Whether some number of rows is enough."""
        return math.isfinite(self.rows_needed)

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
        named = f"alpha {self.alpha:g}" if self.promise is None else f"promise {self.promise:g}"
        lines = [
            f"{named} of at most {self.bound:g}, safe risk {self.safe_risk:g}, "
            f"optimized risk {self.optimized_risk:g}, log-ratio spread {self.log_ratio_spread:g}"
        ]
        if not self.possible:
            what = "alpha" if self.promise is None else "the promise"
            lines.append(
                f"  no number of rows is enough: the safe policy's risk is not below {what}"
            )
            return "\n".join(lines)
        first = "before any beta can pass" if self.promise is None else "to state this promise"
        lines += [
            f"  {self.rows_needed:>12,} rows at least {first}",
            f"  {self.rows_likely:>12,} rows pass with probability {self.pass_probability:g}",
            f"  {'rows':>12}   {'beta to expect (clip)':<23}promise to expect",
            *(
                f"  {rows:>12,}   {beta:<23.4g}{stated:.4g}"
                for (rows, beta), (_, stated) in zip(self.betas, self.promises, strict=True)
            ),
        ]
        return "\n".join(lines)

    def __str__(self) -> str:
        return self.summary()


def plan(
    *,
    safe_risk: float,
    alpha: float | None = None,
    promise: float | None = None,
    bound: float = 1.0,
    optimized_risk: float | None = None,
    log_ratio_spread: float = 1.0,
    rows: int | None = None,
    pass_probability: float = 0.9,
) -> Plan:
    """Estimate how many rows to log, and what beta and stated promise to expect.

    With n rows of the safe policy, n·(alpha − mean loss) must be at least bound − alpha before any
    beta passes. A promise to be stated needs more: room for stability and existence beside alpha.
    A plan is an expectation under the simple model of `Plan`, not a promise.

    Parameters
    ----------
    safe_risk : float
        The expected loss of the safe policy, from 0 to `bound`.
    alpha : float, optional
        The tolerated expected loss, above 0 and below `bound`.
    promise : float, optional
        The whole bound to be stated, instead of `alpha`.
    bound : float, default 1.0
        The largest possible loss.
    optimized_risk : float, optional
        The expected loss of the optimized policy; that of the safe policy by default.
    log_ratio_spread : float, default 1.0
        The standard deviation of the log ratio of optimized over safe density.
    rows : int, optional
        The number of rows for which to state beta; by default several multiples of the likely one.
    pass_probability : float, default 0.9
        The probability with which the likely number of rows passes.

    Returns
    -------
    Plan
        The rows needed, the rows that are likely to pass, and the beta to expect.

    Raises
    ------
    TypeError, ValueError
        If an argument is not a number or not in its range, or both or neither of `alpha` and
        `promise` are passed.

    Examples
    --------
    >>> made = plan(alpha=0.1, safe_risk=0.05)
    >>> made.rows_needed, made.rows_likely
    (18, 69)
    """
    validate.one_target(alpha, promise)
    bound = validate.number("bound", bound, above=0, below=np.inf)
    if promise is None:
        alpha = validate.number("alpha", alpha, above=0, below=bound)
    else:
        promise = validate.number("promise", promise, above=0, below=bound)
    safe_risk = _checked_risk("safe_risk", safe_risk, bound)
    optimized_risk = _checked_risk(
        "optimized_risk", safe_risk if optimized_risk is None else optimized_risk, bound
    )
    spread = validate.number("log_ratio_spread", log_ratio_spread, above=0, below=100)
    pass_probability = validate.number("pass_probability", pass_probability, above=0, below=1)
    model = PlanModel(bound, safe_risk / bound, optimized_risk / bound, spread)
    rows_needed, rows_likely = _rows(model, alpha, promise, pass_probability)
    if rows is not None:
        sizes = [validate.integer_at_least("rows", rows)]
    else:
        finite = math.isfinite(rows_likely)
        sizes = [int(rows_likely * multiple) for multiple in ROW_MULTIPLES] if finite else []
    outlooks = [_outlook(model, alpha, promise, size) for size in sizes]
    return Plan(
        alpha=alpha,
        promise=promise,
        bound=bound,
        safe_risk=safe_risk,
        optimized_risk=optimized_risk,
        log_ratio_spread=spread,
        pass_probability=pass_probability,
        rows_needed=rows_needed,
        rows_likely=rows_likely,
        betas=tuple((size, found.beta) for size, found in zip(sizes, outlooks, strict=True)),
        promises=tuple((size, found.promise) for size, found in zip(sizes, outlooks, strict=True)),
    )


def _outlook(model: PlanModel, alpha: float | None, promise: float | None, rows: int) -> Outlook:
    """Beta and promise at alpha, or at the best level for a promise; the safe policy if none is."""
    if alpha is not None:
        return model.outlook(alpha, rows)
    assert promise is not None
    return model.boldest(promise, rows) or Outlook(promise, 0.0, model.bound)


def _rows(
    model: PlanModel, alpha: float | None, promise: float | None, pass_probability: float
) -> tuple[float, float]:
    """The rows needed, and those that are likely to be enough; inf where no number is."""
    bound, safe_risk = model.bound, model.harmful * model.bound
    rows_needed: float = 1
    if promise is not None:
        rows_needed = model.rows_for_promise(promise)
        if math.isinf(rows_needed):
            return math.inf, math.inf
        alpha = _outlook(model, None, promise, int(rows_needed)).alpha
    assert alpha is not None
    if safe_risk >= alpha:
        return math.inf, math.inf
    # A quotient that is an integer in decimals must not be rounded up for its binary error.
    quotient = (bound - alpha) / (alpha - safe_risk)
    if quotient <= LARGEST_PLAN:
        rows_needed = max(rows_needed, math.ceil(quotient * (1 - INTEGER_TOLERANCE)))
        rows_likely = max(rows_needed, _rows_likely(alpha, bound, safe_risk, pass_probability))
        if rows_likely <= LARGEST_PLAN:
            return rows_needed, rows_likely
    raise ValueError(
        f"more than {LARGEST_PLAN:.0e} rows would be needed: alpha = {alpha:g} is too close to "
        f"safe_risk = {safe_risk:g} for a bound of {bound:g}"
    )


def _checked_risk(name: str, value: float, bound: float) -> float:
    """A risk, from 0 to the bound."""
    return validate.number(name, value, above=0, below=bound, including=(0, bound))


def _rows_likely(alpha: float, bound: float, safe_risk: float, pass_probability: float) -> float:
    """The fewest rows from which on the safe policy's condition passes with the probability."""
    from scipy.special import ndtri
    from scipy.stats import binom

    gap, sigmas = alpha - safe_risk, float(ndtri(pass_probability))
    noise = sigmas * math.sqrt(safe_risk * (bound - safe_risk))
    # The normal approximation: n·gap − noise·√n = bound − alpha.
    root = (noise + math.sqrt(max(noise**2 + 4 * gap * (bound - alpha), 0.0))) / (2 * gap)
    if root**2 > MAX_EXACT_ROWS:
        return math.ceil(root**2)
    rows = np.arange(1, 2 * math.ceil(root**2) + 1000)
    # It passes if n·alpha − bound·(harmful rows) ≥ bound − alpha. The probability is not monotone
    # in n, since the number of harmful rows is an integer: take the n after the last that fails.
    max_harmful = np.floor((rows * alpha - (bound - alpha)) / bound + INTEGER_TOLERANCE)
    failing = np.flatnonzero(binom.cdf(max_harmful, rows, safe_risk / bound) < pass_probability)
    return int(rows[failing[-1]]) + 1 if len(failing) else 1
