"""How many rows a level of alpha, or a stated promise, needs under the model of a plan.

A log passes if its mean loss is small enough, so the rows that pass with a probability are the
fewest with which the mean loss that logs exceed with no more than the remaining probability still
passes. At a given alpha, losses of 0 or a common size are counted exactly, and so they are with a
confidence (`tether.planning.exact_rows`).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from tether._core.columns import Columns
from tether.planning.confidence_model import ConfidenceModel
from tether.planning.exact_rows import exact_rows
from tether.planning.first_passing import LARGEST_PLAN, TooManyRowsError, first_passing
from tether.planning.plan_model import Outlook, PlanModel
from tether.planning.population import Population

if TYPE_CHECKING:
    from tether.planning.plan_result import Plan

AnyModel = PlanModel | ConfidenceModel

MAX_EXACT_ROWS = 50_000
"""Beyond this many rows the normal approximation is as good as the exact probability."""
NARROWEST_ON_CURVE, WIDEST_ON_CURVE = 1 / 4, 8.0
"""Where the curve begins and ends: multiples of how far the named level is above the safe risk."""
INTEGER_TOLERANCE = 1e-9
"""How far a quotient may be above an integer and still count as that integer."""
MAX_EXACT_HARMFUL = 1000
"""With more harmful rows than this, whole numbers of them hardly differ from any others."""


def outlook(model: AnyModel, alpha: float | None, promise: float | None, rows: int) -> Outlook:
    """Beta and promise at alpha, or at the best level for a promise; the safe policy if none is.

    With a confidence, a promise is the alpha that is certified.
    """
    level = alpha if promise is None else promise
    assert level is not None
    if promise is None or isinstance(model, ConfidenceModel):
        return model.outlook(level, rows)
    return model.boldest(promise, rows) or Outlook(promise, 0.0, 1.0)


def rows_for(
    model: AnyModel, alpha: float | None, promise: float | None, pass_probability: float
) -> tuple[float, float]:
    """The rows needed, and those that are likely to be enough; inf where no number is."""
    safe_risk = model.population.mean
    level = alpha if promise is None else promise
    assert level is not None
    if safe_risk >= level:
        return math.inf, math.inf
    quotient = (1 - level) / (level - safe_risk)
    if quotient > LARGEST_PLAN:
        raise TooManyRowsError
    if isinstance(model, ConfidenceModel):
        return _rows_to_certify(model, level, pass_probability)
    if promise is not None:
        return _rows_by_mean(model, promise, pass_probability)
    # A quotient that is an integer in decimals must not be rounded up for its binary error.
    rows_needed = math.ceil(quotient * (1 - INTEGER_TOLERANCE))
    rows_likely = max(rows_needed, _rows_likely(model.population, level, pass_probability))
    if rows_likely > LARGEST_PLAN:
        raise TooManyRowsError
    return rows_needed, rows_likely


def _rows_to_certify(
    model: ConfidenceModel, alpha: float, pass_probability: float
) -> tuple[int, int]:
    """The fewest rows from which on a beta is certified; counted where few losses are enough."""
    needed, likely = _rows_by_mean(model, alpha, pass_probability)
    harmful = likely * model.population.mean / model.population.loss_size
    if model.two_valued and harmful <= MAX_EXACT_HARMFUL:
        likely = exact_rows(model, alpha, pass_probability)
    return needed, likely


def _rows_by_mean(model: AnyModel, level: float, pass_probability: float) -> tuple[int, int]:
    """The fewest rows from which on the level is kept, at the safe risk and at the quantile."""
    of = model.population

    def at_safe_risk(rows: int) -> bool:
        return model.passes(level, rows)

    def with_probability(rows: int) -> bool:
        mean = mean_loss_quantile(of, rows, pass_probability)
        return mean < level and model.with_mean(mean).passes(level, rows)

    # Small logs may pass because no loss is among their rows, where larger ones do not.
    rare = of.mean / of.loss_size
    without_loss = math.log(pass_probability) / math.log1p(-rare) if 0 < rare < 1 else 0.0
    first = int(min(without_loss, LARGEST_PLAN)) + 1
    return first_passing(at_safe_risk, 1), first_passing(with_probability, first)


def mean_loss_quantile(of: Population, rows: int, probability: float) -> float:
    """The mean loss that logs of so many rows do not exceed with this probability.

    Losses are 0 or of a common size; their number is an integer, of which the probability is
    spread evenly over the interval around it.
    """
    from scipy.special import bdtrik, ndtri

    share = min(of.mean / of.loss_size, 1.0) if of.mean else 0.0
    if share in (0.0, 1.0):
        return of.mean
    if rows <= MAX_EXACT_ROWS:
        count = float(bdtrik(probability, rows, share)) + 0.5
        if not count > 0.5:  # no loss at all is likely enough
            return 0.0
    else:
        z, variance = float(ndtri(probability)), rows * share * (1 - share)
        count = rows * share + z * math.sqrt(variance) + (1 - 2 * share) * (z * z - 1) / 6
    return min(max(count / rows, 0.0) * of.loss_size, 1.0)


def rows_over_levels(made: Plan, model: AnyModel, points: int) -> Columns:
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
    for level in (levels / made.bound).tolist():
        alpha, promise = (level, None) if made.promise is None else (None, level)
        try:
            rows.append(rows_for(model, alpha, promise, made.pass_probability))
        except TooManyRowsError:
            rows.append((math.inf, math.inf))
    needed, likely = np.array(rows, dtype=np.float64).T
    table = Columns({"alpha" if made.promise is None else "promise": levels})
    table["rows_needed"], table["rows_likely"] = needed, likely
    return table


def _rows_likely(of: Population, alpha: float, pass_probability: float) -> float:
    """The fewest rows from which on the safe policy's condition passes with the probability."""
    from scipy.special import ndtri
    from scipy.stats import binom

    gap, sigmas = alpha - of.mean, float(ndtri(pass_probability))
    noise = sigmas * math.sqrt(max(of.variance, 0.0))
    # The normal approximation: n·gap − noise·√n = 1 − alpha.
    root = (noise + math.sqrt(noise**2 + 4 * gap * (1 - alpha))) / (2 * gap)
    if root**2 > MAX_EXACT_ROWS:
        return math.ceil(root**2)
    rows = np.arange(1, 2 * math.ceil(root**2) + 1000)
    # It passes if n·alpha − (sum of losses) ≥ 1 − alpha. The probability is not monotone in n,
    # since the number of harmful rows is an integer: take the n after the last that fails.
    max_harmful = np.floor((rows * alpha - (1 - alpha)) / of.loss_size + INTEGER_TOLERANCE)
    share = min(of.mean / of.loss_size, 1.0)
    failing = np.flatnonzero(binom.cdf(max_harmful, rows, share) < pass_probability)
    return int(rows[failing[-1]]) + 1 if len(failing) else 1
