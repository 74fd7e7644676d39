"""How many rows a level of alpha, or a stated promise, needs under the model of a plan."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from tether._core.columns import Columns
from tether.control.plan_model import Outlook, PlanModel

if TYPE_CHECKING:
    from tether.control.planning import Plan

MAX_EXACT_ROWS = 50_000
"""Beyond this many rows the normal approximation is as good as the exact probability."""
LARGEST_PLAN = 1e15
"""A plan with more rows than this is refused."""
NARROWEST_ON_CURVE, WIDEST_ON_CURVE = 1 / 4, 8.0
"""Where the curve begins and ends: multiples of how far the named level is above the safe risk."""
INTEGER_TOLERANCE = 1e-9
"""How far a quotient may be above an integer and still count as that integer."""


def outlook(model: PlanModel, alpha: float | None, promise: float | None, rows: int) -> Outlook:
    """Beta and promise at alpha, or at the best level for a promise; the safe policy if none is."""
    if alpha is not None:
        return model.outlook(alpha, rows)
    assert promise is not None
    return model.boldest(promise, rows) or Outlook(promise, 0.0, model.bound)


def rows_for(
    model: PlanModel, alpha: float | None, promise: float | None, pass_probability: float
) -> tuple[float, float]:
    """The rows needed, and those that are likely to be enough; inf where no number is."""
    bound, safe_risk = model.bound, model.harmful * model.bound
    rows_needed: float = 1
    if promise is not None:
        rows_needed = model.rows_for_promise(promise)
        if math.isinf(rows_needed):
            return math.inf, math.inf
        alpha = outlook(model, None, promise, int(rows_needed)).alpha
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


def rows_over_levels(made: Plan, model: PlanModel, points: int) -> Columns:
    """The rows that each level needs, from close to the safe risk to far above it."""
    named = made.alpha if made.promise is None else made.promise
    assert named is not None
    room = made.bound - made.safe_risk
    if room <= 0:
        levels = np.array([named])
    else:
        gap = named - made.safe_risk
        low, high = 0.02 * room, 0.9 * room
        if gap > 0:
            low, high = NARROWEST_ON_CURVE * gap, min(WIDEST_ON_CURVE * gap, 0.98 * room)
            high = max(high, gap)
        spread = made.safe_risk + np.geomspace(low, high, points - 1)
        levels = np.unique(np.append(spread, named))
    rows = []
    for level in levels.tolist():
        alpha, promise = (level, None) if made.promise is None else (None, level)
        try:
            rows.append(rows_for(model, alpha, promise, made.pass_probability))
        except ValueError:  # more rows than can be planned for
            rows.append((math.inf, math.inf))
    needed, likely = np.array(rows, dtype=np.float64).T
    table = Columns({"alpha" if made.promise is None else "promise": levels})
    table["rows_needed"], table["rows_likely"] = needed, likely
    return table


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
