"""Where gCRC would stop if one item were another: the first violation, item by item.

Replacing item i by one that costs a constant b turns the sum S into S − L_i + b. Since losses lie
in [0, bound], only candidates where S is within one bound of the limit can become the new first
violation: a window of the sweep, often short. Most items have no claim in it, so that their loss is
constant there. The others have a constant loss on each of a few pieces of it, and a tree of maxima
finds where the sum first exceeds a level from a given place on: O(N log N) in all, even where the
sum stays close to the limit for long.
"""

from __future__ import annotations

import numpy as np

from tether._core.first_passage import first_past
from tether._core.types import Floats, Integers
from tether.risk.risk_curve import CELLS_PER_BLOCK, Sweep


def first_violations(
    sweep: Sweep, window: slice, limit: float, replacements: tuple[float, ...]
) -> Integers:
    """Where S − L_i + b first exceeds the limit, for each b and each item i.

    Positions are within the window; its length means nowhere in it.
    """
    assert sweep.read_losses is not None
    sums = sweep.sums[window]
    violations = np.empty((len(replacements), sweep.n_separate), dtype=np.int64)
    if sweep.events is None:
        rows = 0
        for block in sweep.read_losses(window, None):
            violations[:, rows : rows + len(block)] = _of_rows(sums, block, limit, replacements)
            rows += len(block)
        return violations
    first_candidate = slice(window.start, window.start + 1)
    constant = np.concatenate([block[:, 0] for block in sweep.read_losses(first_candidate, None)])
    peaks = np.maximum.accumulate(sums)
    for row, b in enumerate(replacements):
        violations[row] = np.searchsorted(peaks, limit - b + constant, side="right")
    affected = items_inside(sweep, window)
    items_per_block = max(1, CELLS_PER_BLOCK // (1 + len(sweep.events.scores) // sweep.n_separate))
    for first in range(0, len(affected), items_per_block):
        items = affected[first : first + items_per_block]
        violations[:, items] = _of_claims(sweep, window, items, limit, replacements)
    return violations


def _of_rows(
    sums: Floats, losses: Floats, limit: float, replacements: tuple[float, ...]
) -> Integers:
    """First violations from a block of losses, items × candidates in the window."""
    violations = np.empty((len(replacements), len(losses)), dtype=np.int64)
    for row, b in enumerate(replacements):
        fails = sums - losses + b > limit
        violations[row] = np.where(fails.any(axis=1), fails.argmax(axis=1), len(sums))
    return violations


def _of_claims(
    sweep: Sweep, window: slice, items: Integers, limit: float, replacements: tuple[float, ...]
) -> Integers:
    """First violations of items with claims, from one query per piece of their losses."""
    assert sweep.read_pieces is not None
    sums, pieces = sweep.sums[window], sweep.read_pieces(window, items)
    nonempty = np.flatnonzero(pieces.start < pieces.end)
    start, end, level = pieces.start[nonempty], pieces.end[nonempty], pieces.level[nonempty]
    violations = np.empty((len(replacements), len(items)), dtype=np.int64)
    for row, b in enumerate(replacements):
        in_piece = np.full(len(pieces.start), len(sums))
        past = first_past(sums, limit - b + level, start)
        in_piece[nonempty] = np.where(past < end, past, len(sums))
        violations[row] = np.minimum.reduceat(in_piece, pieces.first)
    return violations


def items_inside(sweep: Sweep, window: slice) -> Integers:
    """Items with a claim that meets the threshold inside the window."""
    assert sweep.events is not None
    ends = sweep.thresholds[window][[0, -1]]
    scores = sweep.events.scores
    claims = np.flatnonzero((scores >= ends.min()) & (scores < ends.max()))
    return np.unique(np.searchsorted(sweep.events.offsets, claims, side="right") - 1)
