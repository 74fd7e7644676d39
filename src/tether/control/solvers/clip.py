"""The exact largest beta for clip without contexts: bin, certify, and sort only what is left.

β̂ is the supremum of all β such that h ≤ 0 (see `segments`) at every smaller one. Sorting every
ratio would find it; so does this, with one pass. Ratios are binned and h is known exactly at the
bins' edges. Inside a bin the positive and the negative part of h both fall with β, so the bin is
certified when the positive part at its left edge stays below the negative part at its right edge
(and likewise for β·h, whose parts both rise). Only bins that cannot be certified are opened.
"""

from __future__ import annotations

from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from tether._core.types import Floats
from tether.control.solvers.segments import Carry, Segments, Terms, kept

BINS = 4096
CHUNK = 1 << 16
LEAF = 1 << 14
"""An interval with at most this many ratios is sorted rather than binned."""
DEEPEST = 3
"""Bins within bins within bins are sorted whatever they hold: their ratios are all but equal."""

NOTHING = Terms(np.empty(0), np.empty(0), np.empty(0), np.empty(0))


def first_crossing(terms: Terms, extra: float = 0.0) -> float:
    """Log of the largest beta with h + extra ≤ 0 at every smaller one; −inf if there is none.

    Ratios of −inf never carry weight and are left out; a top with a ratio of +inf is a constant.
    """
    terms = kept(terms)
    highest = terms.top_amount.max(initial=0.0)
    # With no row that speaks for it, a condition has not passed.
    if not (terms.amount < 0).any() or terms.amount.sum() + highest + extra > 0:
        return -np.inf
    endless = np.isposinf(terms.top_ratio)
    constant = terms.top_amount[endless].max(initial=0.0)
    if endless.any():
        tops = (terms.top_ratio[~endless], terms.top_amount[~endless])
        terms = Terms(terms.ratio, terms.amount, *tops)
    if len(terms) == 0:
        return np.inf
    lo = min(terms.ratio.min(initial=np.inf), terms.top_ratio.min(initial=np.inf))
    hi = max(terms.ratio.max(initial=-np.inf), terms.top_ratio.max(initial=-np.inf))
    found = _scan(terms, lo, hi, Carry(above=extra, top_above=constant), depth=0)
    if found is not None:
        return found
    fading = Carry(
        above=extra,
        below=float((terms.amount * np.exp(terms.ratio - hi)).sum()),
        top_above=constant,
        top_below=float((terms.top_amount * np.exp(terms.top_ratio - hi)).max(initial=0.0)),
    )
    return float(Segments.build(NOTHING, hi, hi, fading).roots(np.array([1]))[0])


def _scan(terms: Terms, lo: float, hi: float, carry: Carry, depth: int) -> float | None:
    """The first crossing in [lo, hi], or None."""
    if len(terms) <= LEAF or depth == DEEPEST or hi <= lo:
        return _sorted_crossing(terms, lo, hi, carry)
    bins = _Bins(terms, lo, hi, carry)
    for k, inside, outside in bins.doubtful():
        found = _scan(inside, bins.edge[k], bins.edge[k + 1], outside, depth + 1)
        if found is not None:
            return found
    return float(bins.edge[bins.stop]) if bins.stop <= BINS else None


def _sorted_crossing(terms: Terms, lo: float, hi: float, carry: Carry) -> float | None:
    segments = Segments.build(terms, lo, hi, carry)
    positive = np.flatnonzero(segments.value > 0)
    if len(positive) == 0:
        return None
    if positive[0] == 0:
        return lo
    return min(float(segments.roots(positive[:1])[0]), float(segments.edge[positive[0]]))


class _Bins:
    """h at the edges of equal bins of [lo, hi], and which of the bins stay in doubt."""

    def __init__(self, terms: Terms, lo: float, hi: float, carry: Carry) -> None:
        self.terms, self.carry = terms, carry
        self.lo, self.scale = lo, BINS / (hi - lo)
        self.edge = np.linspace(lo, hi, BINS + 1)
        self.fade = float(np.exp(-(hi - lo) / BINS))
        clipped, faded = self._row_sums()
        # Row 0 holds the positive amounts and row 1 the negative ones; column k stands at edge k.
        self.clipped = np.zeros((2, BINS + 1))
        self.clipped[:, :-1] = np.cumsum(clipped[:, ::-1], axis=1)[:, ::-1]
        below = (max(carry.below, 0.0), max(-carry.below, 0.0))
        self.unclipped = np.array(
            [self._fading_sums(*pair) for pair in zip(below, faded, strict=True)]
        )
        self.top_above, self.top_below = self._tops()
        tops = np.maximum(self.top_above, self.top_below)
        positive = self.clipped[0] + self.unclipped[0] + max(carry.above, 0.0) + tops
        negative = self.clipped[1] + self.unclipped[1] + max(-carry.above, 0.0)
        # Nothing is certified against a zero, which may be a number too small to be one.
        falling, rising = negative[1:], negative[:-1] * self.fade
        certain = (positive[:-1] <= falling) & (falling > 0)
        certain |= (positive[1:] <= rising) & (rising > 0)
        failing = np.flatnonzero(positive[1:] > negative[1:])
        self.stop = int(failing[0]) + 1 if len(failing) else BINS + 1
        self.doubt = ~certain
        self.doubt[self.stop :] = False

    def doubtful(self) -> list[tuple[int, Terms, Carry]]:
        """The bins to open, in order, each with its terms and what the others carry into it."""
        which = np.flatnonzero(self.doubt)
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

    def _bin(self, ratio: Floats) -> NDArray[np.int64]:
        return np.minimum(((ratio - self.lo) * self.scale).astype(np.int64), BINS - 1)

    def _row_sums(self) -> tuple[Floats, Floats]:
        """Sums of |a| and |a|·e^(ratio − right edge) in each bin, positive and negative apart."""
        clipped, faded = np.zeros(2 * BINS), np.zeros(2 * BINS)
        for start in range(0, len(self.terms.ratio), CHUNK):
            ratio = self.terms.ratio[start : start + CHUNK]
            amount = self.terms.amount[start : start + CHUNK]
            place = self._bin(ratio)
            weight = np.abs(amount)
            cell = place + BINS * (amount < 0)
            clipped += np.bincount(cell, weight, 2 * BINS)
            weight *= np.exp(ratio - self.edge[place + 1])
            faded += np.bincount(cell, weight, 2 * BINS)
        return clipped.reshape(2, BINS), faded.reshape(2, BINS)

    def _fading_sums(self, first: float, faded: Floats) -> list[float]:
        return list(
            accumulate(faded.tolist(), lambda sum_, new: sum_ * self.fade + new, initial=first)
        )

    def _tops(self) -> tuple[Floats, Floats]:
        """At each edge, the largest top of a ratio past it, and of one before it, faded."""
        past, before = np.zeros(BINS), np.zeros(BINS)
        for start in range(0, len(self.terms.top_ratio), CHUNK):
            ratio = self.terms.top_ratio[start : start + CHUNK]
            amount = self.terms.top_amount[start : start + CHUNK]
            place = self._bin(ratio)
            np.maximum.at(past, place, amount)
            np.maximum.at(before, place, amount * np.exp(ratio - self.edge[place + 1]))
        past = np.maximum.accumulate(np.append(past, self.carry.top_above)[::-1])[::-1]
        steps = accumulate(
            before.tolist(),
            lambda top, new: max(top * self.fade, new),
            initial=self.carry.top_below,
        )
        return past, np.array(list(steps))

    def _gather(self, ratio: Floats, amount: Floats) -> tuple[Floats, Floats, NDArray[np.int64]]:
        """The terms of all doubtful bins, ordered by bin, and where each bin starts among them."""
        kept = [
            (ratio[start : start + CHUNK][hit], amount[start : start + CHUNK][hit], place[hit])
            for start in range(0, len(ratio), CHUNK)
            for place in (self._bin(ratio[start : start + CHUNK]),)
            for hit in (self.doubt[place],)
        ]
        if not kept:
            return np.empty(0), np.empty(0), np.zeros(BINS + 1, dtype=np.int64)
        ratios, amounts, places = (np.concatenate(column) for column in zip(*kept, strict=True))
        order = np.argsort(places, kind="stable")
        starts = np.searchsorted(places[order], np.arange(BINS + 1))
        return ratios[order], amounts[order], starts


def _slice(gathered: tuple[Floats, Floats, NDArray[np.int64]], k: int) -> tuple[Floats, Floats]:
    ratio, amount, starts = gathered
    return ratio[starts[k] : starts[k + 1]], amount[starts[k] : starts[k + 1]]
