"""From claims to steps: how much each claim moves the sum of losses, and in which order.

Item by item, claims are put in the order in which they meet the threshold, and the item's loss
after each gives one step a claim. The risk at every threshold is then a running sum of the steps
in the order of all scores: one sort, one pass, and no table of items × thresholds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tether._check import Floats
from tether.risk.claims import BLOCK, Booleans, Claims
from tether.risk.losses import ClaimLoss


@dataclass(frozen=True, eq=False)
class Steps:
    """One step a claim, what the items cost before any, and which items are not monotone."""

    plain: Floats | None
    envelope: Floats | None
    before: Floats
    faulty: Booleans


def claim_steps(
    claims: Claims,
    loss: ClaimLoss,
    bound: float,
    keys: Any,
    *,
    descending: bool,
    never: float | None = None,
    plain: bool = True,
    envelope: bool = False,
) -> Steps:
    """Steps of each item's loss (`plain`) and of its monotone envelope (`envelope`).

    `keys` say when a claim meets the threshold. Claims of one item with equal keys meet it
    together: the last of them carries the whole step. A key of `never` is an event that no
    candidate threshold reaches: its step is 0. The envelope is the largest loss at any threshold
    at least as safe.
    """
    size = len(claims.scores)
    steps = np.empty(size) if plain else None
    envelopes = np.empty(size) if envelope else None
    before = np.empty(claims.items)
    faulty = np.zeros(claims.items, dtype=np.bool_)
    empty = np.flatnonzero(np.diff(claims.offsets) == 0)
    before[empty] = loss.before(np.zeros((len(empty), 0), dtype=np.bool_))
    for items, where in claims.blocks():
        key = keys[where].reshape(len(items), -1)
        order = np.argsort(key, axis=1)
        if descending:
            order = order[:, ::-1]
        key = np.take_along_axis(key, order, axis=1)
        supported = claims.supported[where].reshape(key.shape)
        supported = np.take_along_axis(supported, order, axis=1)
        start, values = loss.before(supported), loss.after(supported)
        _within(loss, bound, items, start, values)
        before[items] = start
        levels = _levels(start, values, key, never)
        step = np.diff(levels, axis=1)
        faulty[items] = (step < 0).any(axis=1)
        for out, block in ((steps, step), (envelopes, None)):
            if out is None:
                continue
            if block is None:
                block = np.diff(np.maximum.accumulate(levels, axis=1), axis=1)
            if isinstance(where, slice):
                np.put_along_axis(out[where].reshape(key.shape), order, block, axis=1)
            else:
                out[np.take_along_axis(where, order, axis=1)] = block
    _within(loss, bound, empty, before[empty], before[empty])
    return Steps(steps, envelopes, before, faulty)


def _levels(start: Floats, values: Floats, key: Any, never: float | None) -> Floats:
    """Loss before any event and after each, where an event among ties repeats the last full one."""
    levels = np.concatenate([start[:, None], values], axis=1)
    partial = key[:, 1:] == key[:, :-1]
    if never is not None:
        partial = np.concatenate([partial, np.zeros((len(key), 1), np.bool_)], axis=1)
        partial |= key >= never
    if partial.any():
        place = np.arange(levels.shape[1])[None, :].repeat(len(levels), axis=0)
        place[:, 1 : 1 + partial.shape[1]][partial] = 0
        levels = np.take_along_axis(levels, np.maximum.accumulate(place, axis=1), axis=1)
    return levels


def _within(loss: ClaimLoss, bound: float, items: Any, start: Floats, values: Floats) -> None:
    if start.size == 0:
        return
    low, high = min(start.min(), values.min()), max(start.max(), values.max())
    if low >= 0 and high <= bound:
        return
    outside = ~((start >= 0) & (start <= bound))
    outside |= ~((values >= 0) & (values <= bound)).reshape(len(start), -1).all(axis=1)
    raise ValueError(
        f"loss {loss.name!r} leaves [0, bound = {bound:g}] at item {int(items[outside][0])} "
        f"(values from {low:g} to {high:g})"
    )


def running_sums(
    scores: Floats, steps: list[Floats], starts: list[float], *, larger_is_safer: bool
) -> tuple[Floats, list[Floats]]:
    """Every distinct score as a threshold, safest first, and the running sums at each.

    Where larger is safer the first candidate is +inf (nothing kept); then each score admits the
    claims at it. Where smaller is safer the first candidate is the lowest score (everything kept)
    and the last is +inf; moving past a score drops the claims at it.
    """
    size = len(scores)
    order = np.argsort(scores)
    if size < np.iinfo(np.int32).max:
        order = order.astype(np.int32)  # half the memory for as long as it is held
    if larger_is_safer:
        order = order[::-1]
    thresholds = np.empty(size + 1)
    sums = [np.empty(size + 1) for _ in steps]
    carried = list(starts)
    for out, start in zip(sums, starts, strict=True):
        out[0] = start
    count = 1
    for first in range(0, size, BLOCK):
        index = order[first : first + BLOCK]
        score = scores[index]
        last = np.empty(len(index), dtype=np.bool_)  # of the claims at this score
        np.not_equal(score[1:], score[:-1], out=last[:-1])
        after = first + len(index)
        last[-1] = after == size or scores[order[after]] != score[-1]
        kept = int(last.sum())
        for j, step in enumerate(steps):
            running = np.cumsum(step[index])
            running += carried[j]
            carried[j] = float(running[-1])
            sums[j][count : count + kept] = running[last]
        thresholds[count : count + kept] = score[last]
        count += kept
    thresholds[0] = np.inf
    if not larger_is_safer:
        thresholds[: count - 1] = thresholds[1:count].copy()
        thresholds[count - 1] = np.inf
    return thresholds[:count], [out[:count] for out in sums]


def event_index(scores: Floats, thresholds: Floats, *, larger_is_safer: bool) -> Any:
    """At which of some thresholds (safest first) each claim is first on the bold side.

    A claim is kept when score ≥ threshold. An index of len(thresholds) means at none of them.
    """
    if larger_is_safer:
        return len(thresholds) - np.searchsorted(thresholds[::-1], scores, side="right")
    return np.searchsorted(thresholds, scores, side="right")


def binned_sums(events: Any, steps: Floats, start: float, count: int) -> Floats:
    """Running sums of steps at given thresholds, by the index of each claim's event."""
    sums: Floats = start + np.cumsum(np.bincount(events, weights=steps, minlength=count)[:count])
    return sums


def dense_losses(claims: Claims, loss: ClaimLoss, bound: float, thresholds: Floats) -> Floats:
    """The loss of every item at some thresholds (safest first), items × thresholds."""
    count = len(thresholds)
    events = event_index(claims.scores, thresholds, larger_is_safer=loss.safer == "larger")
    steps = claim_steps(claims, loss, bound, events, descending=False, never=count)
    assert steps.plain is not None
    items = np.repeat(np.arange(claims.items), np.diff(claims.offsets))
    flat = np.bincount(
        items * (count + 1) + events, weights=steps.plain, minlength=claims.items * (count + 1)
    )
    table = np.cumsum(flat.reshape(claims.items, count + 1)[:, :count], axis=1)
    return np.asarray(steps.before[:, None] + table)
