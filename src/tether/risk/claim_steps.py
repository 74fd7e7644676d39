"""From claims to steps: how much each claim moves the sum of losses, and in which order.

Item by item, claims are put in the order in which they meet the threshold, and the item's loss
after each gives one step a claim. The risk at every threshold is then a running sum of the steps
in the order of all scores: one sort, one pass, and no table of items × thresholds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tether._core.ties import TIE_TOLERANCE
from tether._core.types import Booleans, Floats
from tether.risk.claim_losses import ClaimLoss
from tether.risk.claims import Claims


@dataclass(frozen=True, eq=False)
class Steps:
    """One step a claim, what each item costs before any, and which items are not monotone."""

    values: Floats
    before: Floats
    faulty: Booleans


def claim_steps(
    claims: Claims,
    loss: ClaimLoss,
    bound: float,
    keys: Any,
    *,
    descending: bool = False,
    never: int | None = None,
    envelope: bool = False,
) -> Steps:
    """Steps of each item's loss, or of its `envelope`: its largest loss at any safer threshold.

    `keys` say when a claim meets the threshold. Claims of one item with equal keys meet it
    together: the last of them carries the whole step. A key of `never` is an event that no
    candidate threshold reaches: its step is 0.
    """
    steps = np.empty(len(claims.scores))
    before = np.empty(claims.items)
    faulty = np.zeros(claims.items, dtype=np.bool_)
    empty = np.flatnonzero(np.diff(claims.offsets) == 0)
    before[empty] = loss.before(np.zeros((len(empty), 0), dtype=np.bool_))
    _within(loss, bound, empty, before[empty, None])
    for items, where in claims.blocks():
        key = keys[where].reshape(len(items), -1)
        order = np.argsort(key, axis=1)
        if descending:
            order = order[:, ::-1]
        key = np.take_along_axis(key, order, axis=1)
        supported = claims.supported[where].reshape(key.shape)
        levels = _levels(loss, np.take_along_axis(supported, order, axis=1))
        _within(loss, bound, items, levels)
        levels = _settled(levels, key, never)
        before[items] = levels[:, 0]
        step = np.diff(levels, axis=1)
        faulty[items] = (step < -TIE_TOLERANCE * bound).any(axis=1)  # not by mere rounding
        if envelope and (step < 0).any():
            step = np.diff(np.maximum.accumulate(levels, axis=1), axis=1)
        if isinstance(where, slice):
            np.put_along_axis(steps[where].reshape(key.shape), order, step, axis=1)
        else:
            steps[np.take_along_axis(where, order, axis=1)] = step
    return Steps(steps, before, faulty)


def _levels(loss: ClaimLoss, supported: Booleans) -> Floats:
    """The loss before any event and after each."""
    levels = np.empty((supported.shape[0], supported.shape[1] + 1))
    levels[:, 0] = loss.before(supported)
    levels[:, 1:] = loss.after(supported)
    return levels


def _settled(levels: Floats, key: Any, never: int | None) -> Floats:
    """Levels at candidates only: amid ties, or where none is reached, the last one stands."""
    passing = np.zeros(levels.shape, dtype=np.bool_)
    np.equal(key[:, 1:], key[:, :-1], out=passing[:, 1:-1])
    if never is not None:
        passing[:, 1:] |= key >= never
    if passing.any():
        place = np.where(passing, 0, np.arange(levels.shape[1]))
        levels = np.take_along_axis(levels, np.maximum.accumulate(place, axis=1), axis=1)
    return levels


def _within(loss: ClaimLoss, bound: float, items: Any, levels: Floats) -> None:
    if levels.size == 0 or (levels.min() >= 0 and levels.max() <= bound):  # NaN fails this too
        return
    row, column = np.argwhere(~((levels >= 0) & (levels <= bound)))[0]
    raise ValueError(
        f"loss {loss.name!r} is {levels[row, column]:g} for item {int(items[row])}: expected a "
        f"loss in [0, bound = {bound:g}]"
    )


def event_index(scores: Floats, thresholds: Floats, *, larger_is_safer: bool) -> Any:
    """At which of some thresholds (safest first) each claim is first on the bold side.

    A claim is kept when score ≥ threshold. An index of len(thresholds) means at none of them.
    """
    if larger_is_safer:
        return len(thresholds) - np.searchsorted(thresholds[::-1], scores, side="right")
    return np.searchsorted(thresholds, scores, side="right")


def dense_losses(claims: Claims, loss: ClaimLoss, bound: float, thresholds: Floats) -> Floats:
    """The loss of every item at some thresholds (safest first), items × thresholds."""
    if len(thresholds) == 1 and loss.counted is not None:
        kept = claims.scores >= thresholds[0]
        true = _counts(kept & claims.supported, claims.offsets)
        every = _counts(claims.supported, claims.offsets)
        false = _counts(kept, claims.offsets) - true
        return loss.counted(true, false, every)[:, None]
    width = len(thresholds) + 1
    events = event_index(claims.scores, thresholds, larger_is_safer=loss.safer == "larger")
    steps = claim_steps(claims, loss, bound, events, never=width - 1)
    cells = np.repeat(np.arange(claims.items) * width, np.diff(claims.offsets)) + events
    table = np.bincount(cells, weights=steps.values, minlength=claims.items * width)
    table = np.cumsum(table.reshape(claims.items, width)[:, :-1], axis=1)
    losses = steps.before[:, None] + table
    return np.asarray(np.clip(losses, 0, bound))  # rounding in the running sum


@dataclass(frozen=True, eq=False)
class Pieces:
    """Losses as steps: `level` from the threshold numbered `start` up to that numbered `end`.

    Pieces stand item by item; those of item i begin at `first[i]`.
    """

    start: Any
    end: Any
    level: Floats
    first: Any


def loss_pieces(claims: Claims, loss: ClaimLoss, bound: float, thresholds: Floats) -> Pieces:
    """The loss of every item over some thresholds (safest first), one piece more than claims."""
    events = event_index(claims.scores, thresholds, larger_is_safer=loss.safer == "larger")
    steps = claim_steps(claims, loss, bound, events, never=len(thresholds))
    owner = np.repeat(np.arange(claims.items), np.diff(claims.offsets))
    order = np.lexsort((events, owner))
    first = claims.offsets[:-1] + np.arange(claims.items)
    later = np.arange(len(order)) + owner + 1
    start = np.zeros(len(order) + claims.items, dtype=np.int64)
    start[later] = events[order]
    # One running sum through all items, which goes back to each item's own beginning.
    last = steps.before + np.bincount(owner, weights=steps.values, minlength=claims.items)
    moves = np.empty(len(start))
    moves[later] = steps.values[order]
    moves[first] = steps.before - np.concatenate([[0.0], last[:-1]])
    end = np.append(start[1:], len(thresholds))
    end[first[1:] - 1] = len(thresholds)
    return Pieces(start, end, np.clip(np.cumsum(moves), 0, bound), first)


def _counts(marked: Booleans, offsets: Any) -> Floats:
    """How many claims of each item are marked."""
    running = np.concatenate([[0], np.cumsum(marked, dtype=np.int32)])
    return np.asarray(np.diff(running[offsets]), dtype=np.float64)
