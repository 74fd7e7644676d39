"""Stability: how much beta moves when one row of the log is left out.

The promise is α + max(α, B − α)·ε. Here ε is estimated by leaving each row out: with β̂₋ᵢ the beta
without row i and its share of the weight, ε̂ = Σ_i share_i·(max(β̂/β̂₋ᵢ, β̂₋ᵢ/β̂)^K − 1).
Each β̂₋ᵢ is found without calibrating again: leaving a row out takes one term off the condition, so
it is the first passage of the same function over a level that belongs to the row.
"""

from __future__ import annotations

from functools import partial
from itertools import pairwise

import numpy as np

from tether._core.first_passage import first_past
from tether._core.types import Floats
from tether.control.constraint import Constraint, Excess
from tether.control.families import Mix
from tether.control.problem import Weights
from tether.control.solvers import clip, search
from tether.control.solvers.mix import Lines
from tether.control.solvers.segments import Carry, Segments, Terms

GRID = 65
"""Points between the earliest and the latest crossing, where the condition has no closed form."""
ROUNDING = 1e-12
FAR = 1e6
"""Added to logs of sizes so that they stay positive and can carry a sign."""


def leave_one_out(constraint: Constraint, weights: Weights) -> Floats:
    """Log of the largest beta that a constraint allows without each row of the log."""
    if weights.exact and isinstance(weights.family, Mix):
        return Lines.build(constraint.terms(weights)).without_each()
    if weights.exact:
        return _exact(constraint.terms(weights), len(weights.log))
    return _searched(Excess(constraint, weights), weights)


def instability(
    log_beta: float, without: Floats, share: Floats, smoothness: float, reach: tuple[float, float]
) -> float:
    """ε̂ from beta, the betas without each row, the rows' shares and the smoothness K.

    Betas outside the reach of the policies all give the same policy as its nearest end.
    """
    with np.errstate(invalid="ignore", over="ignore"):
        moved = np.clip(without, *reach) - np.clip(log_beta, *reach)
        grown = np.expm1(smoothness * np.abs(np.where(np.isnan(moved), 0.0, moved)))
        return float(np.sum(share * grown, where=share > 0))


def _exact(terms: Terms, rows: int) -> Floats:
    """First passages for clip: over a_i by h while row i is clipped, over a_i·ρ_i by β·h after."""
    ratio = terms.ratio[:rows]
    amount = np.where(ratio > -np.inf, terms.amount[:rows], 0.0)
    earliest = clip.first_crossing(terms, extra=-float(amount.min(initial=0.0)))
    latest = clip.first_crossing(terms, extra=-float(amount.max(initial=0.0)))
    if earliest == latest:
        return np.full(rows, earliest)
    segments, complete = _band(terms, earliest, latest)
    edge, value = segments.edge, segments.value
    # In the band a row's own ratio is an edge: it is clipped up to there.
    own = np.searchsorted(edge, ratio) - (ratio < edge[0])
    # What is left when a row cancels itself is rounding, and must not count as a crossing.
    level = amount + ROUNDING * np.abs(amount)
    piece = first_past(value, level, np.zeros(rows, dtype=np.int64))
    clipped = piece <= own
    later = first_past(_signed_log(value, edge), _signed_log(level, ratio), np.maximum(own, 0))
    piece = np.where(clipped, piece, later)
    found = np.where(piece == 0, earliest, latest)
    inside = (piece > 0) & (piece < len(edge) + complete)
    end, still = piece[inside], clipped[inside]
    faded = level[inside] * np.exp(np.minimum(ratio[inside] - edge[end - 1], 0.0))
    roots = segments.roots(end, np.where(still, level[inside], 0.0), np.where(still, 0.0, faded))
    # Rounding may hide a root that stands at the very end of its piece.
    found[inside] = np.minimum(roots, np.append(edge, np.inf)[end])
    return found


def _band(terms: Terms, earliest: float, latest: float) -> tuple[Segments, bool]:
    """H where leaving out one row can make it cross, and whether no ratio lies past that."""
    finite = np.concatenate((terms.ratio, terms.top_ratio))
    finite = finite[np.isfinite(finite)]
    lowest, highest = (finite.min(), finite.max()) if len(finite) else (0.0, 0.0)
    lo = min(max(earliest, lowest), highest)
    hi = min(max(latest, lo), highest)

    def split(ratio: Floats, amount: Floats) -> tuple[Floats, Floats, Floats, Floats]:
        before, past = ratio < lo, ratio > hi
        inside = ~(before | past)
        return (
            ratio[inside],
            amount[inside],
            amount[before] * np.exp(ratio[before] - lo),
            amount[past],
        )

    ratio, amount, faded, above = split(terms.ratio, terms.amount)
    top_ratio, top_amount, top_faded, top_above = split(terms.top_ratio, terms.top_amount)
    carry = Carry(
        float(above.sum()),
        float(faded.sum()),
        float(top_above.max(initial=0.0)),
        float(top_faded.max(initial=0.0)),
    )
    segments = Segments.build(Terms(ratio, amount, top_ratio, top_amount), lo, hi, carry)
    return segments, bool(hi == highest)


def _signed_log(amount: Floats, log_scale: Floats) -> Floats:
    """A number that orders like amount·e^log_scale, for scales that have no float."""
    with np.errstate(divide="ignore", invalid="ignore"):
        size = np.log(np.abs(amount)) + log_scale + FAR
        return np.where(amount == 0, 0.0, np.sign(amount) * size)


def _searched(excess: Excess, weights: Weights) -> Floats:
    """First passages on a grid between the earliest and the latest crossing, interpolated."""
    lo, hi = weights.searched()
    if weights.test_weight == "analytic":
        hi = excess.certain_failure(hi)
    points = weights.points(lo, hi)

    def crossing(without: str) -> float:
        shifted = partial(excess.between, without=without)
        found = lo if shifted(lo, lo) > 0 else search.first_crossing(shifted, points)
        return hi if found is None else found

    earliest, latest = crossing("speaking"), crossing("against")
    grid = np.linspace(earliest, latest, GRID)
    found = np.full(len(weights.log), np.nan)
    last = excess.without_each(grid[0])
    found[last > 0] = -np.inf if earliest == lo else earliest
    for left, right in pairwise(grid):
        value = excess.without_each(right)
        crossed = np.isnan(found) & (value > 0)
        share = -last[crossed] / (value[crossed] - last[crossed])
        found[crossed] = left + (right - left) * share
        last = value
    return np.where(np.isnan(found), np.inf if latest == hi else latest, found)
