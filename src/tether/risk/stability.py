"""How much one item decides: replace-one stability of gCRC, and a level that pays for it.

Replacing item i by one that costs a constant b turns the sum S into S − L_i + b. Since losses lie
in [0, bound], only candidates where S is within one bound of the limit can become the new first
violation: a window of the sweep, often short. Most items then have no claim in it and cost the same
all along. The others cost a constant on each of a few pieces of it, and where the sum first exceeds
a level from a place on is found in a tree of maxima: O(N log N) in all, on a plateau too.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tether._core import validate
from tether._core.first_passage import first_past
from tether._core.ties import TIE_TOLERANCE
from tether._core.types import Floats
from tether.risk.item_weights import ItemWeights
from tether.risk.risk_curve import BOUND, CELLS, Sweep, before_first_violation
from tether.risk.selection import Stability
from tether.risk.sweep_losses import prepare


def moves(sweep: Sweep, alpha: float) -> Floats | None:
    """How far gCRC's threshold moves, item by item, on replacing that item by a constant one.

    The larger of the moves for b = 0 and b = bound. None where it is not defined or cannot be
    read: weighted items, a rate among the selected, or a stream that has passed.
    """
    if sweep.dense is None or sweep.weighted or not isinstance(sweep.total, float):
        return None
    sums, bound = sweep.sums, sweep.bound
    room = alpha * (sweep.total + 1) * (1 + TIE_TOLERANCE) - bound
    start, stop = _first(sums > room - bound), _first(sums > room + bound)
    window = slice(start, min(stop + 1, len(sums)))
    if start == len(sums):
        return np.zeros(sweep.items)
    inside = sums[window]
    peaks = np.maximum.accumulate(inside)
    reached = np.empty((2, sweep.items), dtype=np.int64)
    if sweep.claims is None:
        rows = 0
        for block in sweep.dense(window, None):
            reached[:, rows : rows + len(block)] = _violations(inside, block, room, bound)
            rows += len(block)
    else:
        constant = np.concatenate(
            [block[:, 0] for block in sweep.dense(slice(start, start + 1), None)]
        )
        for row, b in enumerate((0.0, bound)):
            reached[row] = np.searchsorted(peaks, room - b + constant, side="right")
        affected = _affected(sweep, window)
        rows = max(1, CELLS // (1 + len(sweep.claims.scores) // sweep.items))
        for first in range(0, len(affected), rows):
            named = affected[first : first + rows]
            reached[:, named] = _passages(sweep, window, named, room)
    # The threshold is the candidate before the violation; where none is left, the safest.
    chosen = sweep.thresholds[max(before_first_violation(sweep, sums, alpha), 0)]
    moved = np.zeros(sweep.items)
    for violation in reached:
        place = sweep.thresholds[np.maximum(start + violation - 1, 0)]
        away = place != chosen  # from +inf to +inf is no move
        moved[away] = np.maximum(moved[away], np.abs(place[away] - chosen))
    return moved


def _first(where: Any) -> int:
    return int(np.argmax(where)) if where.any() else len(where)


def _violations(sums: Floats, losses: Floats, room: float, bound: float) -> Any:
    """First violation within the window for b = 0 and b = bound (its length: none)."""
    found = np.empty((2, len(losses)), dtype=np.int64)
    for row, b in enumerate((0.0, bound)):
        fails = sums - losses + b > room
        found[row] = np.where(fails.any(axis=1), fails.argmax(axis=1), len(sums))
    return found


def _passages(sweep: Sweep, window: slice, items: Any, room: float) -> Any:
    """The same for items with claims, from one query a piece of their losses."""
    assert sweep.pieces is not None
    inside, pieces = sweep.sums[window], sweep.pieces(window, items)
    real = np.flatnonzero(pieces.start < pieces.end)
    start, end, level = pieces.start[real], pieces.end[real], pieces.level[real]
    found = np.empty((2, len(items)), dtype=np.int64)
    for row, b in enumerate((0.0, sweep.bound)):
        met = np.full(len(pieces.start), len(inside))
        past = first_past(inside, room - b + level, start)
        met[real] = np.where(past < end, past, len(inside))
        found[row] = np.minimum.reduceat(met, pieces.first)
    return found


def _affected(sweep: Sweep, window: slice) -> Any:
    """Items with a claim that meets the threshold inside the window."""
    assert sweep.claims is not None
    ends = sweep.thresholds[window][[0, -1]]
    scores = sweep.claims.scores
    claims = np.flatnonzero((scores >= ends.min()) & (scores < ends.max()))
    return np.unique(np.searchsorted(sweep.claims.offsets, claims, side="right") - 1)


def replace_one(
    sweep: Sweep, alpha: float, index: int, lipschitz: float | None = None
) -> Stability | None:
    """Replace-one stability at gCRC's threshold, and alpha + K·epsilon where K is known."""
    moved = moves(sweep, alpha)
    if moved is None:
        return None
    epsilon = float(moved.sum() / (sweep.items + 1))  # the item to come is its own replacement
    implied = None if lipschitz is None else min(sweep.bound, alpha + lipschitz * epsilon)
    return Stability(epsilon, float(moved.max()), lipschitz, implied)


def conservative_alpha(
    losses: Any,
    thresholds: Any = None,
    *,
    alpha: float,
    lipschitz: float,
    bound: float = BOUND,
    loss: Any = None,
    levels: int = 200,
) -> float:
    """The largest level at which gCRC, run there, keeps the expected loss at most alpha.

    For losses K-Lipschitz in the threshold, K = `lipschitz`: the largest level α' ≤ alpha with
    α' + K·epsilon(α') ≤ alpha, among `levels` evenly spaced ones. Below bound / (n + 1) no
    threshold passes whatever the losses, so a level always exists; there it keeps the safest.

    >>> import numpy as np
    >>> grid = np.linspace(0, 1, 21)
    >>> losses = np.abs(np.sin(np.arange(50)))[:, None] * (1 - grid)
    >>> conservative_alpha(losses, grid, alpha=0.3, lipschitz=1.0)
    0.2895
    """
    sweep = prepare(losses, thresholds, loss, bound, ItemWeights())
    alpha = validate.number("alpha", alpha, above=0, below=sweep.bound)
    lipschitz = validate.number("lipschitz", lipschitz, above=0, below=float("inf"))
    if isinstance(levels, bool) or not isinstance(levels, int) or levels < 1:
        raise ValueError(f"levels must be a whole number of at least 1, got {levels!r}")
    for step in range(levels, 0, -1):
        level = alpha * step / levels
        moved = moves(sweep, level)
        if moved is None:
            raise ValueError(
                "conservative_alpha needs losses that can be read again and count equally: an "
                "array, a list of chunks, claims, or labels with a rate of one class"
            )
        if level + lipschitz * float(moved.sum()) / (sweep.items + 1) <= alpha:
            return level
    return min(alpha / levels, sweep.bound / (sweep.items + 2))
