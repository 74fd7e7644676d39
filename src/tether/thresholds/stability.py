"""What gCRC's promise adds to alpha: how much depends on a single item, and on whether one passes.

*The gap.* In a set of items, let λ* be the threshold that they find together, and λ̂₋ᵢ the one that
the others find while item i counts at the bound. By exchangeability the expected loss of the next
item is that of L_i(λ̂₋ᵢ), and the mean of L_i(λ*) is at most alpha. So what must be added to alpha
is the expected mean of L_i(λ̂₋ᵢ) − L_i(λ*). With the calibration items as the set, that mean is an
unbiased estimate of it for one item fewer, whatever the losses. With few items one more can matter,
so the calibration items are also taken as all but one of a set in which the other item costs
nothing, or the bound, at every threshold; the largest counts. *Known K*: if losses are K-Lipschitz
in the threshold, the term is K·epsilon, with epsilon the mean move of the threshold when an item is
replaced by one that costs 0, or the bound, everywhere.

Replacing item i by one that costs b turns the sum S into S − L_i + b. A loss is constant on each of
its pieces, and maxima of blocks find where S first exceeds a level from a given place on:
O(N log N) in all.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tether._core.arrays import TIE_TOLERANCE, Floats, Integers
from tether._core.promises import SafeMean, safe_mean
from tether.thresholds.sweep import Sweep


def measure(
    sweeps: Sequence[Sweep], alphas: Sequence[float], lipschitz: float | None
) -> list[float | None]:
    """What gCRC's promise adds to each alpha for its stability; None where it is not measured."""
    weighted = any(sweep.weighted for sweep in sweeps)
    if lipschitz is None:
        return [None] * len(sweeps) if weighted else loss_gaps(sweeps, alphas)
    if weighted or len(sweeps) > 1:
        raise ValueError(f"lipschitz = {lipschitz:g} is for one loss of unweighted items")
    moves = threshold_moves(sweeps[0], alphas[0])
    return [lipschitz * float(moves.sum()) / (len(moves) + 1)]  # the next item replaces itself


def loss_gaps(sweeps: Sequence[Sweep], alphas: Sequence[float]) -> list[float | None]:
    """For each loss, the mean over items of L_i(λ̂₋ᵢ) − L_i(λ*), at least 0.

    None where it is not measurable: losses with different candidates.
    """
    steady = [sweep.n_nonmonotone == 0 for sweep in sweeps]
    if all(steady):
        return [0.0] * len(sweeps)  # leaving an item out never makes the threshold bolder
    first = sweeps[0]
    same = all(
        each.n_items == first.n_items and np.array_equal(each.thresholds, first.thresholds)
        for each in sweeps
    )
    if not same:
        return [0.0 if each else None for each in steady]
    items, gaps = np.arange(first.n_items), np.zeros(len(sweeps))
    for scenario in range(3):
        without, together = np.full(first.n_items, len(first.thresholds)), len(first.thresholds)
        for sweep, alpha in zip(sweeps, alphas, strict=True):
            limit = _limits(sweep, alpha)[scenario]
            left_out = np.maximum(first_violations(sweep, limit, sweep.bound) - 1, 0)
            without = np.minimum(without, _among_others(sweep, left_out))
            together = min(together, max(_first(sweep.sums > limit) - 1, 0))
        moved = items[without != together]
        to, reference = without[moved], np.full(len(moved), together)
        for k, sweep in enumerate(sweeps):
            rises = sweep.pieces.at(moved, to) - sweep.pieces.at(moved, reference)
            gaps[k] = max(gaps[k], float(rises.sum()) / first.n_items)
    return list(gaps.tolist())


def _limits(sweep: Sweep, alpha: float) -> tuple[float, float, float]:
    """What all items may sum to: as a set of n, or as n of n + 1 whose other costs 0, or bound."""
    as_part = alpha * (sweep.n_items + 1) * (1 + TIE_TOLERANCE)
    return alpha * sweep.n_items * (1 + TIE_TOLERANCE), as_part, as_part - sweep.bound


def threshold_moves(sweep: Sweep, alpha: float) -> Floats:
    """How far gCRC's threshold moves when each item costs 0, or the bound, everywhere."""
    limit = _limits(sweep, alpha)[2]
    chosen = sweep.thresholds[max(_first(sweep.sums > limit) - 1, 0)]
    moves = np.zeros(sweep.n_items)
    for b in (0.0, sweep.bound):
        moved_to = sweep.thresholds[np.maximum(first_violations(sweep, limit, b) - 1, 0)]
        differs = moved_to != chosen  # from +inf to +inf is not a move
        moves[differs] = np.maximum(moves[differs], np.abs(moved_to[differs] - chosen))
    return moves


def first_violations(sweep: Sweep, limit: float, b: float) -> Integers:
    """The first candidate at which S − L_i + b exceeds the limit, for each item i.

    Only candidates where S is within one bound of the limit can be that.
    """
    sums, pieces = sweep.sums, sweep.pieces
    begin, stop = _first(sums > limit - b), _first(sums > limit - b + sweep.bound)
    found = np.full(sweep.n_items, stop)
    inside = np.flatnonzero((pieces.start < stop) & (pieces.end > begin))
    start = np.maximum(pieces.start[inside] - begin, 0)
    past = begin + first_past(sums[begin:stop], limit - b + pieces.level[inside], start)
    hit = past < np.minimum(pieces.end[inside], stop)
    np.minimum.at(found, pieces.owner[inside[hit]], past[hit])
    return found


def _first(condition: np.ndarray) -> int:
    """The index of the first true value; the length where there is none."""
    return int(np.argmax(condition)) if condition.any() else len(condition)


def _among_others(sweep: Sweep, chosen: Integers) -> Integers:
    """The chosen candidates, moved to the next safer score that an item left out has not alone."""
    if sweep.owners is None:
        return chosen
    items = np.arange(len(chosen))
    while (own := sweep.owners[chosen] == items).any():  # the safest belongs to no item
        chosen[own] -= 1
    return chosen


def first_past(values: Floats, level: Floats, start: Integers) -> Integers:
    """For each level, the first index from `start` on whose value exceeds it; the length if none.

    From `start` on, blocks of halving size without a value above the level are skipped; all queries
    run side by side.

    >>> first_past(np.array([1.0, 5.0, 2.0, 7.0]), np.array([4.0, 6.0, 9.0]), np.array([2, 0, 0]))
    array([3, 3, 4])
    """
    maxima = [values]  # of the blocks of 1, 2, 4, … values that begin at each
    while (half := 1 << (len(maxima) - 1)) * 2 <= len(values):
        maxima.append(np.maximum(maxima[-1][:-half], maxima[-1][half:]))
    place = start.astype(np.int64)
    for k in reversed(range(len(maxima))):
        skipped = place < len(maxima[k])
        skipped[skipped] = maxima[k][place[skipped]] <= level[skipped]
        place[skipped] += 1 << k
    return place


def safest_mean(sweep: Sweep) -> SafeMean | None:
    """The mean loss of the safest threshold; None where the promise does not depend on it."""
    if sweep.among_selected or sweep.harmless:
        return None
    losses = sweep.pieces.level[sweep.pieces.first[:-1]]
    return safe_mean(losses, sweep.bound, sweep.item_weights, sweep.test_weight)
