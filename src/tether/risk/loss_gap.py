"""The gap of gCRC: how much an item's loss rises when the item itself is left out.

In a set of items, let λ* be the threshold that they find together, and λ̂₋ᵢ the one that the others
find while item i counts at the bound. By exchangeability the expected loss of the next item is that
of L_i(λ̂₋ᵢ), and the mean of L_i(λ*) is at most alpha wherever λ* exists. So what must be added to
alpha is the expected mean of L_i(λ̂₋ᵢ) − L_i(λ*). With the calibration items as the set, that mean
is an unbiased estimate of it for one item fewer, whatever the losses; no smoothness is assumed.
With few items one more can matter, so the calibration items are also taken as all but one of a set
in which the other item costs nothing, or the bound, at every threshold; the largest counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tether._core.ties import TIE_TOLERANCE
from tether._core.types import Booleans, Floats, Integers
from tether.risk.replaced_items import first_violations, items_inside
from tether.risk.risk_curve import Sweep


def measurable(sweep: Sweep) -> bool:
    """Whether single losses can be read again and count equally, so that items can be replaced."""
    readable = sweep.read_losses is not None and not sweep.weighted
    return readable and not sweep.among_selected


def first_true(condition: Booleans) -> int:
    """The index of the first true value; the length where there is none."""
    return int(np.argmax(condition)) if condition.any() else len(condition)


class UncollectedError(Exception):
    """Candidates are needed that were not collected from the parts; more of them have to be."""


def require_collected(sweep: Sweep, candidate: int) -> None:
    """Raise unless this candidate, and the losses at it, were collected."""
    if sweep.collected is not None and candidate < sweep.collected.start:
        raise UncollectedError


class Stops(NamedTuple):
    """Where the items stop: without each of them, and all together."""

    without: Integers
    together: int


def left_out_stops(sweep: Sweep, limit: float) -> Stops:
    """The candidates λ̂₋ᵢ and λ*, safest first; the safest where nothing passes."""
    sums, bound = sweep.sums, sweep.bound
    start, stop = first_true(sums > limit - bound), first_true(sums > limit)
    # Of several losses with candidates in parts, only the one that stops first is collected whole.
    end = len(sums) if sweep.collected is None else sweep.collected.stop
    start, stop = min(start, end - 1), min(stop, end)
    require_collected(sweep, start)
    window = slice(start, min(stop + 1, end))
    violations = window.start + first_violations(sweep, window, limit, (bound,))[0]
    without = _among_others(sweep, np.maximum(violations - 1, 0))
    return Stops(without, max(stop - 1, 0))


def loss_gaps(sweeps: Sequence[Sweep], alphas: Sequence[float]) -> list[float | None]:
    """For each loss, the mean over items of L_i(λ̂₋ᵢ) − L_i(λ*), at least 0.

    Several losses share the safest of their thresholds. None where it is not measurable: weighted
    items, a stream, a rate among the selected, or losses with different candidates.
    """
    if all(sweep.no_loss_falls for sweep in sweeps):
        return [0.0] * len(sweeps)  # leaving an item out never makes the threshold bolder
    first = sweeps[0]
    same = all(
        sweep.n_items == first.n_items and np.array_equal(sweep.thresholds, first.thresholds)
        for sweep in sweeps
    )
    if not same or not all(measurable(sweep) for sweep in sweeps):
        return [0.0 if sweep.no_loss_falls else None for sweep in sweeps]
    pairs = list(zip(sweeps, alphas, strict=True))
    gaps = np.zeros(len(sweeps))
    for limits in zip(*(_limits(*pair) for pair in pairs), strict=True):
        stops = [left_out_stops(*pair) for pair in zip(sweeps, limits, strict=True)]
        without = np.min([stop.without for stop in stops], axis=0)
        together = min(stop.together for stop in stops)
        moved = np.flatnonzero(without != together)
        rises = [_total_rise(sweep, moved, without[moved], together) for sweep in sweeps]
        gaps = np.maximum(gaps, np.array(rises) / first.n_items)
    return list(gaps.tolist())


def _limits(sweep: Sweep, alpha: float) -> tuple[float, float, float]:
    """What the sum of all items may be: as a set of n, and as n of a set of n + 1.

    In the latter the loss of the other item is anything from 0 to the bound.
    """
    as_whole, as_part = alpha * sweep.n_items, alpha * (sweep.n_items + 1)
    tolerance = 1 + TIE_TOLERANCE
    return as_whole * tolerance, as_part * tolerance, as_part * tolerance - sweep.bound


def _among_others(sweep: Sweep, chosen: Integers) -> Integers:
    """The chosen candidates, moved to the next safer score that other items have as well.

    Where every score is a candidate, those of an item that is left out are not.
    """
    if not sweep.exact or sweep.events is None:
        return chosen
    chosen, items, reach = chosen.copy(), np.arange(sweep.n_separate), 64
    while True:
        first = max(int(chosen.min()) - reach, 0)
        owner = _sole_owner(sweep, first, int(chosen.max()) + 1)
        while (own := owner[chosen - first] == items).any() and chosen[own].min() > first:
            chosen[own] -= 1
        if not own.any():
            require_collected(sweep, int(chosen.min()))
            return chosen
        reach *= 8  # the safest candidate belongs to no item, so this ends


def _sole_owner(sweep: Sweep, first: int, stop: int) -> Integers:
    """For some candidates, the item that has all claims of this score; −1 if several or none do."""
    assert sweep.events is not None
    thresholds, scores = sweep.thresholds[first:stop], sweep.events.scores
    claims = np.flatnonzero((scores >= thresholds.min()) & (scores <= thresholds.max()))
    items = np.searchsorted(sweep.events.offsets, claims, side="right") - 1
    increasing = np.sort(thresholds)
    place = np.searchsorted(increasing, scores[claims])
    lowest, highest = np.full(len(thresholds), sweep.n_separate), np.full(len(thresholds), -1)
    np.minimum.at(lowest, place, items)
    np.maximum.at(highest, place, items)
    owner = np.where(lowest == highest, lowest, -1)
    if sweep.counts is not None:  # what several equal items have belongs to none of them alone
        owner[(owner >= 0) & (sweep.counts[owner] > 1)] = -1
    return owner[::-1] if sweep.safer == "larger" else owner


def _total_rise(sweep: Sweep, items: Integers, to: Integers, reference: int) -> float:
    """The sum over items of how much their losses rise."""
    rises = _rises(sweep, items, to, reference)
    return float((rises if sweep.counts is None else rises * sweep.counts[items]).sum())


def _rises(sweep: Sweep, items: Integers, to: Integers, reference: int) -> Floats:
    """The loss of each item at its own candidate, minus that at the reference."""
    if len(items) == 0:
        return np.zeros(0)
    window = slice(min(int(to.min()), reference), max(int(to.max()), reference) + 1)
    to, reference = to - window.start, reference - window.start
    if sweep.read_pieces is not None:
        inside = np.isin(items, items_inside(sweep, window))  # the loss of others is constant
        rises = np.zeros(len(items))
        rises[inside] = _rises_of_claims(sweep, window, items[inside], to[inside], reference)
        return rises
    assert sweep.read_losses is not None
    parts, first = [], 0
    for block in sweep.read_losses(window, items):
        own = to[first : first + len(block)]
        parts.append(block[np.arange(len(block)), own] - block[:, reference])
        first += len(block)
    return np.concatenate(parts)


def _rises_of_claims(
    sweep: Sweep, window: slice, items: Integers, to: Integers, reference: int
) -> Floats:
    """The same from the pieces of which the losses of claims are made."""
    if len(items) == 0:
        return np.zeros(0)
    assert sweep.read_pieces is not None
    pieces = sweep.read_pieces(window, items)
    owner = np.repeat(np.arange(len(items)), np.diff(np.append(pieces.first, len(pieces.start))))

    def at(position: Integers) -> Floats:
        hit = (pieces.start <= position[owner]) & (position[owner] < pieces.end)
        level = np.where(hit, pieces.level, 0.0)
        return np.bincount(owner, weights=level, minlength=len(items)).astype(np.float64)

    return np.asarray(at(to) - at(np.full(len(items), reference)))
