"""The exact solver for clip without contexts: bin the ratios, certify bins, sort the others.

β̂ is the supremum of all β such that h ≤ 0 (see `segments`) at every smaller one. Sorting all
ratios would find it; binning them needs only one pass. At the edges of the bins h is known exactly.
Inside a bin the positive and the negative part of h both decrease with β, so the bin is certified
if the positive part at its left edge is at most the negative part at its right edge (and likewise
for β·h, whose parts both increase). Only bins that cannot be certified are opened.

Leaving out a row removes one term of the condition, so the largest beta without it is the first
passage of the same function over a level that depends on the row: no calibration is repeated.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tether._core.blocks import map_blocks
from tether._core.first_passage import FirstPassages
from tether._core.ties import SUM_ROUNDING, raised_by_tie
from tether._core.types import Floats, Integers
from tether.control.solvers.segments import Carry, Segments, Terms, condition_terms, nonzero_terms

if TYPE_CHECKING:
    from tether.control.constraint import Constraint
    from tether.control.problem import Problem

BINS = 4096
"""The number of bins of one interval."""
TERMS_PER_PASS = 1 << 16
"""How many terms are binned at once: few enough for the cache."""
MAX_SORTED = 1 << 14
"""An interval with at most this many ratios is sorted rather than binned."""
MAX_DEPTH = 3
"""Bins nested this deep are sorted whatever their size: their ratios are nearly equal."""
SELF_CANCELLATION = 1e-12
"""The relative rounding error that may remain when a row is subtracted from its own sum."""
LOG_OFFSET = 1e6
"""Added to logs of sizes so that they stay positive and can carry a sign."""

NO_TERMS = Terms(np.empty(0), np.empty(0), np.empty(0), np.empty(0))


def largest(problem: Problem, constraint: Constraint) -> float:
    """Log of the largest beta that a constraint allows; −inf where it allows none."""
    return first_crossing(_terms(problem, constraint))


def leave_one_out(problem: Problem, constraint: Constraint) -> Floats:
    """Log of the largest beta without each row of the log in turn."""
    return _first_passages(_terms(problem, constraint), len(problem.log))


def risks(problem: Problem, constraint: Constraint, log_beta: Floats) -> Floats:
    """The calibrated risk at many betas, in increasing order (see `mix.risks`)."""
    if problem.test_weight.constant is not None:
        return np.array([problem.risk(constraint, point) for point in log_beta])
    at_zero, at_bound = (
        Segments.at(log_beta, nonzero_terms(_terms(problem, constraint.at(alpha)))).value
        for alpha in (0.0, constraint.bound)
    )
    return np.asarray(constraint.bound * at_zero / (at_zero - at_bound))


def _terms(problem: Problem, constraint: Constraint) -> Terms:
    """The terms of the condition; a constant test weight adds the terms of the normalizer.

    It bounds weights divided by their normalizer ψ, which is Σ min(ρ, β)·safe/mass over the draws.
    """
    terms = condition_terms(problem, constraint)
    constant = problem.test_weight.constant
    if constant is None:
        return terms
    draws = problem.draws
    possible = draws.log_safe > -np.inf
    test_amount = constraint.worst * np.exp(-terms.log_scale) * constant
    amount = test_amount * np.exp(draws.log_safe[possible] - draws.log_mass[possible])
    ratio = draws.log_optimized[possible] - draws.log_safe[possible]
    return Terms(
        np.append(terms.ratio, ratio), np.append(terms.amount, amount), np.empty(0), np.empty(0)
    )


def first_crossing(terms: Terms, extra: float = 0.0) -> float:
    """Log of the largest beta with h + extra ≤ 0 at every smaller one; −inf if there is none.

    Rows with a ratio of −inf weigh nothing and are left out; a top with a ratio of +inf is a
    constant. Where h is zero up to rounding at a beta of zero, it passes.
    """
    terms = nonzero_terms(terms)
    lowest, highest = terms.amount.min(initial=0.0), terms.top_amount.max(initial=0.0)
    excess = float(terms.amount.sum() + highest) + extra
    if extra == 0 and abs(excess) <= -SUM_ROUNDING * lowest * len(terms.amount):
        terms, excess = _raised(terms, excess)
    # Without a row below alpha the condition does not pass.
    if lowest >= 0 or excess > 0:
        return -np.inf
    unbounded = np.isposinf(terms.top_ratio)
    constant = terms.top_amount[unbounded].max(initial=0.0)
    if unbounded.any():
        tops = (terms.top_ratio[~unbounded], terms.top_amount[~unbounded])
        terms = Terms(terms.ratio, terms.amount, *tops)
    if len(terms) == 0:
        return np.inf
    lo = float(min(terms.ratio.min(initial=np.inf), terms.top_ratio.min(initial=np.inf)))
    hi = float(max(terms.ratio.max(initial=-np.inf), terms.top_ratio.max(initial=-np.inf)))
    crossing = _scan(terms, lo, hi, Carry(above=extra, top_above=constant), depth=0)
    if crossing is not None:
        return crossing
    after_all_ratios = Carry(
        above=extra,
        below=float((terms.amount * np.exp(terms.ratio - hi)).sum()),
        top_above=constant,
        top_below=float((terms.top_amount * np.exp(terms.top_ratio - hi)).max(initial=0.0)),
    )
    return float(Segments.build(NO_TERMS, hi, hi, after_all_ratios).roots(np.array([1]))[0])


def _raised(terms: Terms, excess: float) -> tuple[Terms, float]:
    """The terms and their excess at a beta of zero, raised if this is a tie."""
    below = -float(np.minimum(terms.amount, 0.0).sum())
    raised = raised_by_tie(excess, below)
    amount = np.where(terms.amount < 0, terms.amount * (1 + raised), terms.amount)
    return replace(terms, amount=amount), excess - raised * below


def _scan(terms: Terms, lo: float, hi: float, carry: Carry, depth: int) -> float | None:
    """The first crossing in [lo, hi], or None."""
    if len(terms) <= MAX_SORTED or depth == MAX_DEPTH or hi <= lo:
        return _sorted_crossing(terms, lo, hi, carry)
    bins = _Bins(terms, lo, hi, carry)
    for k, inside, outside in bins.uncertified():
        crossing = _scan(inside, bins.edge[k], bins.edge[k + 1], outside, depth + 1)
        if crossing is not None:
            return crossing
    return float(bins.edge[bins.stop]) if bins.stop <= BINS else None


def _sorted_crossing(terms: Terms, lo: float, hi: float, carry: Carry) -> float | None:
    """The first crossing in [lo, hi], or None, by sorting the ratios."""
    segments = Segments.build(terms, lo, hi, carry)
    positive = np.flatnonzero(segments.value > 0)
    if len(positive) == 0:
        return None
    if positive[0] == 0:
        return lo
    return min(float(segments.roots(positive[:1])[0]), float(segments.edge[positive[0]]))


class _Bins:
    """h at the edges of equal bins of [lo, hi], and which bins are not certified."""

    def __init__(self, terms: Terms, lo: float, hi: float, carry: Carry) -> None:
        self.terms, self.carry = terms, carry
        self.lo, self.scale = lo, BINS / (hi - lo)
        self.edge = np.linspace(lo, hi, BINS + 1)
        self.decay = float(np.exp(-(hi - lo) / BINS))
        clipped, decayed = self._row_sums()
        # Row 0 holds the positive amounts and row 1 the negative ones; column k is edge k.
        self.clipped = np.zeros((2, BINS + 1))
        self.clipped[:, :-1] = np.cumsum(clipped[:, ::-1], axis=1)[:, ::-1]
        below = (max(carry.below, 0.0), max(-carry.below, 0.0))
        self.unclipped = np.array(
            [self._decaying_sums(*pair) for pair in zip(below, decayed, strict=True)]
        )
        self.top_above, self.top_below = self._tops()
        tops = np.maximum(self.top_above, self.top_below)
        positive = self.clipped[0] + self.unclipped[0] + max(carry.above, 0.0) + tops
        negative = self.clipped[1] + self.unclipped[1] + max(-carry.above, 0.0)
        # A negative part of zero certifies nothing: it may have underflowed.
        falling, rising = negative[1:], negative[:-1] * self.decay
        certain = (positive[:-1] <= falling) & (falling > 0)
        certain |= (positive[1:] <= rising) & (rising > 0)
        failing = np.flatnonzero(positive[1:] > negative[1:])
        self.stop = int(failing[0]) + 1 if len(failing) else BINS + 1
        self.doubtful = ~certain
        self.doubtful[self.stop :] = False

    def uncertified(self) -> list[tuple[int, Terms, Carry]]:
        """The bins to open, in order, each with its terms and the contribution of the others."""
        which = np.flatnonzero(self.doubtful)
        rows = self._gather(self.terms.ratio, self.terms.amount)
        tops = self._gather(self.terms.top_ratio, self.terms.top_amount)
        opened = []
        for k in which.tolist():
            inside = Terms(*_slice(rows, k), *_slice(tops, k))
            outside = Carry(
                above=self.carry.above + self.clipped[0, k + 1] - self.clipped[1, k + 1],
                below=self.unclipped[0, k] - self.unclipped[1, k],
                top_above=self.top_above[k + 1],
                top_below=self.top_below[k],
            )
            opened.append((k, inside, outside))
        return opened

    def _bin(self, ratio: Floats) -> Integers:
        return np.minimum(((ratio - self.lo) * self.scale).astype(np.int64), BINS - 1)

    def _row_sums(self) -> tuple[Floats, Floats]:
        """Sums of |a| and |a|·e^(ratio − right edge) in each bin, for each sign of a."""

        def bin_sums(block: slice) -> tuple[NDArray[Any], NDArray[Any]]:
            ratio, amount = self.terms.ratio[block], self.terms.amount[block]
            cell = self._bin(ratio)
            distance = ratio - self.edge[1:].take(cell)
            cell[amount < 0] += BINS
            weight = np.abs(amount)
            whole = np.bincount(cell, weight, 2 * BINS)
            weight *= np.exp(distance, out=distance)
            return whole, np.bincount(cell, weight, 2 * BINS)

        clipped, decayed = np.zeros(2 * BINS), np.zeros(2 * BINS)
        for whole, part in map_blocks(bin_sums, len(self.terms.ratio), TERMS_PER_PASS):
            clipped += whole
            decayed += part
        return clipped.reshape(2, BINS), decayed.reshape(2, BINS)

    def _decaying_sums(self, first: float, decayed: Floats) -> list[float]:
        """Sums over the bins up to each edge, each decayed from its own bin to the edge."""
        return list(
            accumulate(decayed.tolist(), lambda sum_, new: sum_ * self.decay + new, initial=first)
        )

    def _tops(self) -> tuple[Floats, Floats]:
        """At each edge, the largest top of a ratio above it, and the largest decayed one below."""

        def bin_tops(block: slice) -> tuple[Floats, Floats]:
            ratio, amount = self.terms.top_ratio[block], self.terms.top_amount[block]
            place = self._bin(ratio)
            whole, decayed = np.zeros(BINS), np.zeros(BINS)
            np.maximum.at(whole, place, amount)
            distance = ratio - self.edge[1:].take(place)
            np.maximum.at(decayed, place, amount * np.exp(distance, out=distance))
            return whole, decayed

        past, before = np.zeros(BINS), np.zeros(BINS)
        for whole, part in map_blocks(bin_tops, len(self.terms.top_ratio), TERMS_PER_PASS):
            np.maximum(past, whole, out=past)
            np.maximum(before, part, out=before)
        past = np.maximum.accumulate(np.append(past, self.carry.top_above)[::-1])[::-1]
        steps = accumulate(
            before.tolist(),
            lambda top, new: max(top * self.decay, new),
            initial=self.carry.top_below,
        )
        return past, np.array(list(steps))

    def _gather(self, ratio: Floats, amount: Floats) -> tuple[Floats, Floats, Integers]:
        """The terms of the uncertified bins, ordered by bin, and where each bin starts."""
        which = np.flatnonzero(self.doubtful)
        if not len(ratio) or not len(which):
            return np.empty(0), np.empty(0), np.zeros(BINS + 1, dtype=np.int64)
        # One bin more on both sides, so that rounding cannot leave a term out.
        edge = np.concatenate(([-np.inf, -np.inf], self.edge[1:-1], [np.inf, np.inf]))
        low, high = edge[which[0]], edge[which[-1] + 3]

        def pick(block: slice) -> tuple[Floats, Floats, Integers]:
            ratios, amounts = ratio[block], amount[block]
            near = np.flatnonzero((ratios >= low) & (ratios <= high))
            place = self._bin(ratios[near])
            hit = self.doubtful[place]
            return ratios[near[hit]], amounts[near[hit]], place[hit]

        chunks = map_blocks(pick, len(ratio), TERMS_PER_PASS)
        ratios, amounts, places = (np.concatenate(column) for column in zip(*chunks, strict=True))
        order = np.argsort(places, kind="stable")
        starts = np.searchsorted(places[order], np.arange(BINS + 1))
        return ratios[order], amounts[order], starts


def _slice(gathered: tuple[Floats, Floats, Integers], k: int) -> tuple[Floats, Floats]:
    ratio, amount, starts = gathered
    return ratio[starts[k] : starts[k + 1]], amount[starts[k] : starts[k + 1]]


def _first_passages(terms: Terms, rows: int) -> Floats:
    """Where h passes a_i while row i is clipped, or β·h passes a_i·ρ_i after that."""
    ratio, amount = terms.ratio[:rows], terms.amount[:rows]
    if ratio.min() == -np.inf:
        amount = np.where(ratio > -np.inf, amount, 0.0)
    earliest = first_crossing(terms, extra=-float(amount.min(initial=0.0)))
    latest = first_crossing(terms, extra=-float(amount.max(initial=0.0)))
    if earliest == latest:
        return np.full(rows, earliest)
    segments, complete = _band(terms, earliest, latest)
    edge, stop = segments.edge, np.append(segments.edge, np.inf)
    while_clipped = FirstPassages(segments.value)
    after_that = FirstPassages(_signed_log(segments.value, edge))
    log_beta = np.empty(rows)

    def pass_levels(block: slice) -> None:
        own_ratio, own_amount = ratio[block], amount[block]
        # In the band the ratio of a row is an edge: the row is clipped up to there.
        own = np.searchsorted(edge, own_ratio) - (own_ratio < edge[0])
        # Where a row cancels itself only rounding is left, which must not count as a crossing.
        level = own_amount + SELF_CANCELLATION * np.abs(own_amount)
        piece = while_clipped.past(level)
        clipped = piece <= own
        rest = np.flatnonzero(~clipped)
        levels, starts = _signed_log(level[rest], own_ratio[rest]), np.maximum(own[rest], 0)
        piece[rest] = after_that.past(levels, starts)
        found = np.where(piece == 0, earliest, latest)
        inside = np.flatnonzero((piece > 0) & (piece < len(edge) + complete))
        end, still_clipped, level = piece[inside], clipped[inside], level[inside]
        decayed = level * np.exp(np.minimum(own_ratio[inside] - edge[end - 1], 0.0))
        roots = segments.roots(
            end, np.where(still_clipped, level, 0.0), np.where(still_clipped, 0.0, decayed)
        )
        # Rounding may hide a root at the very end of its piece.
        found[inside] = np.minimum(roots, stop[end])
        log_beta[block] = found

    for shared in (while_clipped, after_that):  # what the blocks share is made before they start
        shared.prepare()
    map_blocks(pass_levels, rows)
    return log_beta


def _band(terms: Terms, earliest: float, latest: float) -> tuple[Segments, bool]:
    """The part of h in which it may cross without some row, and whether no ratio lies above it."""
    lowest, highest = _finite_range(terms.ratio, terms.top_ratio)
    lo = min(max(earliest, lowest), highest)
    hi = min(max(latest, lo), highest)

    def split(combine: np.ufunc, ratio: Floats, amount: Floats) -> tuple[Floats, Floats, Any, Any]:
        """The terms inside, and what those below and above it come to."""

        def look(block: slice) -> tuple[Floats, Floats, float, float]:
            ratios, amounts = ratio[block], amount[block]
            inside = np.flatnonzero((ratios >= lo) & (ratios <= hi))
            # Both are 0 where they do not count, which changes neither a sum nor the largest top.
            decayed = np.exp(np.minimum(ratios - lo, 0.0))
            decayed *= amounts * (ratios < lo)
            above = amounts * (ratios > hi)
            return (
                ratios[inside],
                amounts[inside],
                combine.reduce(decayed, initial=0.0),
                combine.reduce(above, initial=0.0),
            )

        if not len(ratio):
            return ratio, amount, 0.0, 0.0
        parts = list(zip(*map_blocks(look, len(ratio)), strict=True))
        return (
            np.concatenate(parts[0]),
            np.concatenate(parts[1]),
            float(combine.reduce(parts[2])),
            float(combine.reduce(parts[3])),
        )

    ratio, amount, below, above = split(np.add, terms.ratio, terms.amount)
    top_ratio, top_amount, top_below, top_above = split(
        np.maximum, terms.top_ratio, terms.top_amount
    )
    carry = Carry(above=above, below=below, top_above=top_above, top_below=top_below)
    segments = Segments.build(Terms(ratio, amount, top_ratio, top_amount), lo, hi, carry)
    return segments, bool(hi == highest)


def _finite_range(*columns: Floats) -> tuple[float, float]:
    """The smallest and the largest finite number; 0 twice if there is none."""
    lowest = min(each.min(initial=np.inf, where=each > -np.inf) for each in columns)
    highest = max(each.max(initial=-np.inf, where=each < np.inf) for each in columns)
    return (float(lowest), float(highest)) if lowest <= highest else (0.0, 0.0)


def _signed_log(amount: Floats, log_scale: Floats) -> Floats:
    """A number with the order of amount·e^log_scale, for scales outside the range of floats."""
    with np.errstate(divide="ignore", invalid="ignore"):
        size = np.log(np.abs(amount)) + log_scale + LOG_OFFSET
        return np.where(amount == 0, 0.0, np.sign(amount) * size)
