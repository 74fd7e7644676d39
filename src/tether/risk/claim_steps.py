"""From claims to steps: how much each claim changes the sum of losses, and in which order.

Item by item, claims are put in the order in which they meet the threshold, and the item's loss
after each gives one step per claim. The risk at every threshold is then a running sum of the steps
in the order of all scores: one sort, one pass, and no table of items × thresholds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tether._core.ties import TIE_TOLERANCE
from tether._core.types import Booleans, Floats, Integers
from tether.risk.claim_losses import ClaimLoss
from tether.risk.claims import Claims


@dataclass(frozen=True, eq=False)
class ClaimSteps:
    """One step per claim, the loss of each item before any, and which items are not monotone."""

    values: Floats
    before: Floats
    nonmonotone: Booleans


def claim_steps(
    claims: Claims,
    loss: ClaimLoss,
    bound: float,
    keys: NDArray[Any],
    *,
    descending: bool = False,
    unreached: int | None = None,
    envelope: bool = False,
) -> ClaimSteps:
    """Steps of each item's loss, or of its `envelope`: its largest loss at any safer threshold.

    `keys` determine when a claim meets the threshold. Claims of one item with equal keys meet it
    together: the last of them carries the combined step. A key of `unreached` is an event that no
    candidate threshold reaches: its step is 0.
    """
    steps = np.empty(len(claims.scores))
    before = np.empty(claims.n_items)
    nonmonotone = np.zeros(claims.n_items, dtype=np.bool_)
    empty = np.flatnonzero(np.diff(claims.offsets) == 0)
    before[empty] = loss.before(np.zeros((len(empty), 0), dtype=np.bool_))
    _check_range(loss, bound, empty, before[empty, None])
    for items, rows in claims.blocks():
        key = keys[rows].reshape(len(items), -1)
        order = np.argsort(key, axis=1)
        if descending:
            order = order[:, ::-1]
        key = np.take_along_axis(key, order, axis=1)
        supported = claims.supported[rows].reshape(key.shape)
        levels = _levels(loss, np.take_along_axis(supported, order, axis=1))
        _check_range(loss, bound, items, levels)
        levels = _levels_at_candidates(levels, key, unreached)
        before[items] = levels[:, 0]
        step = np.diff(levels, axis=1)
        nonmonotone[items] = (step < -TIE_TOLERANCE * bound).any(axis=1)  # by more than rounding
        if envelope and (step < 0).any():
            step = np.diff(np.maximum.accumulate(levels, axis=1), axis=1)
        if isinstance(rows, slice):
            np.put_along_axis(steps[rows].reshape(key.shape), order, step, axis=1)
        else:
            steps[np.take_along_axis(rows, order, axis=1)] = step
    return ClaimSteps(steps, before, nonmonotone)


def _levels(loss: ClaimLoss, supported: Booleans) -> Floats:
    """The loss before any event and after each."""
    levels = np.empty((supported.shape[0], supported.shape[1] + 1))
    levels[:, 0] = loss.before(supported)
    levels[:, 1:] = loss.after(supported)
    return levels


def _levels_at_candidates(levels: Floats, key: NDArray[Any], unreached: int | None) -> Floats:
    """Repeat the last candidate's level within ties and where no candidate is reached."""
    between = np.zeros(levels.shape, dtype=np.bool_)
    np.equal(key[:, 1:], key[:, :-1], out=between[:, 1:-1])
    if unreached is not None:
        between[:, 1:] |= key >= unreached
    if between.any():
        place = np.where(between, 0, np.arange(levels.shape[1]))
        levels = np.take_along_axis(levels, np.maximum.accumulate(place, axis=1), axis=1)
    return levels


def _check_range(loss: ClaimLoss, bound: float, items: Integers, levels: Floats) -> None:
    if levels.size == 0 or (levels.min() >= 0 and levels.max() <= bound):  # NaN fails this too
        return
    row, column = np.argwhere(~((levels >= 0) & (levels <= bound)))[0]
    raise ValueError(
        f"loss {loss.name!r} is {levels[row, column]:g} for item {int(items[row])}: expected a "
        f"loss in [0, bound = {bound:g}]"
    )


def event_index(scores: Floats, thresholds: Floats, *, larger_is_safer: bool) -> Integers:
    """The index of the first threshold (safest first) that each claim's score has crossed.

    A claim is kept when score ≥ threshold. An index of len(thresholds) means none of them.
    """
    if larger_is_safer:
        return len(thresholds) - np.searchsorted(thresholds[::-1], scores, side="right")
    return np.searchsorted(thresholds, scores, side="right")


def losses_at(claims: Claims, loss: ClaimLoss, bound: float, thresholds: Floats) -> Floats:
    """The loss of every item at some thresholds (safest first), items × thresholds."""
    if len(thresholds) == 1 and loss.from_counts is not None:
        kept = claims.scores >= thresholds[0]
        kept_true = _count_per_item(kept & claims.supported, claims.offsets)
        all_true = _count_per_item(claims.supported, claims.offsets)
        kept_false = _count_per_item(kept, claims.offsets) - kept_true
        return loss.from_counts(kept_true, kept_false, all_true)[:, None]
    width = len(thresholds) + 1
    events = event_index(claims.scores, thresholds, larger_is_safer=loss.safer == "larger")
    steps = claim_steps(claims, loss, bound, events, unreached=width - 1)
    cells = np.repeat(np.arange(claims.n_items) * width, np.diff(claims.offsets)) + events
    table = np.bincount(cells, weights=steps.values, minlength=claims.n_items * width)
    table = np.cumsum(table.reshape(claims.n_items, width)[:, :-1], axis=1)
    losses = steps.before[:, None] + table
    return np.asarray(np.clip(losses, 0, bound))  # rounding in the running sum


@dataclass(frozen=True, eq=False)
class LossPieces:
    """Losses as step functions: `level` from threshold number `start` up to number `end`.

    Pieces are ordered item by item; those of item i begin at `first[i]`.
    """

    start: Integers
    end: Integers
    level: Floats
    first: Integers


def loss_pieces(claims: Claims, loss: ClaimLoss, bound: float, thresholds: Floats) -> LossPieces:
    """The loss of every item over some thresholds (safest first), one more piece than claims."""
    events = event_index(claims.scores, thresholds, larger_is_safer=loss.safer == "larger")
    steps = claim_steps(claims, loss, bound, events, unreached=len(thresholds))
    owner = np.repeat(np.arange(claims.n_items), np.diff(claims.offsets))
    order = np.lexsort((events, owner))
    first = claims.offsets[:-1] + np.arange(claims.n_items)
    later = np.arange(len(order)) + owner + 1
    start = np.zeros(len(order) + claims.n_items, dtype=np.int64)
    start[later] = events[order]
    # One running sum through all items, which returns to the initial loss of each item.
    last = steps.before + np.bincount(owner, weights=steps.values, minlength=claims.n_items)
    changes = np.empty(len(start))
    changes[later] = steps.values[order]
    changes[first] = steps.before - np.concatenate([[0.0], last[:-1]])
    end = np.append(start[1:], len(thresholds))
    end[first[1:] - 1] = len(thresholds)
    return LossPieces(start, end, np.clip(np.cumsum(changes), 0, bound), first)


def _count_per_item(marked: Booleans, offsets: Integers) -> Floats:
    """The number of marked claims of each item."""
    running = np.concatenate([[0], np.cumsum(marked, dtype=np.int32)])
    return np.asarray(np.diff(running[offsets]), dtype=np.float64)
