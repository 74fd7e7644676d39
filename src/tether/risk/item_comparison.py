"""Whether new items keep as much as those of the calibration: tests with bounded false alarms.

The null hypothesis is that the n items of the calibration and the M new ones are exchangeable. Fix
a threshold that depends on the set of all of them alone. Then every choice of M of them as the new
ones is equally likely, given the set, whatever the sizes of items and however their claims hang
together. Two statistics are compared.

- How many items show something is hypergeometric: a tail of it that has probability δ gives a false
  alarm with probability at most δ.
- How many claims are dropped per item, d (and likewise how many are kept): for f = 1 + a·d with a
  fixed a > 0, the product of f over the new items, divided by its mean over all choices of M items,
  has expectation 1. By Maclaurin's inequality that mean is at most the M-th power of the mean of f
  over all items, so with this in its place the expectation is at most 1, and so it is for the mean
  over several a. By Markov's inequality it exceeds 1/δ with probability at most δ.

The threshold was chosen on the calibration, but it keeps what one of c thresholds keeps: the
candidates that were named beforehand, or the scores of all claims, new ones included, and one above
them. These depend on the set alone, so at δ / c for each of them all together give a false alarm
with probability at most δ.

Where new items are not told apart, N claims of which K are kept are of at least M = N / most_claims
items, of which at most K show something. That few of M show something is the more likely the
smaller M and the larger K, so the tail at these two is the largest possible one.
"""

from __future__ import annotations

import math
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from tether._core import validate
from tether._core.averaged_bets import log_average
from tether._core.types import Booleans, Integers
from tether.risk.claim_losses import FALSE_AMONG_SHOWN
from tether.risk.group_names import group_names
from tether.risk.selection import POOL_NAME, Selection

FALSE_ALARMS = 1e-3
"""The probability of a false alarm, over all groups that are compared."""

ITEM_STAKES = tuple(2.0**power for power in range(-8, 4))
"""The values of a."""
N_TESTS = 4
"""Few items show something, or many; many claims are dropped per item, or kept."""

ItemCounts: TypeAlias = dict[Any, tuple[str, int, int]]
"""The group of each item ("" without groups), and how many claims it has and keeps."""


def count_items(
    selection: Selection, kept: Booleans, groups: ArrayLike | None, items: ArrayLike
) -> ItemCounts:
    """Count the claims of each item."""
    names = validate.labels("items", items, len(kept))
    distinct, first, item = np.unique(names, return_index=True, return_inverse=True)
    sizes, left = np.bincount(item), np.bincount(item, kept).astype(np.int64)
    parts = [""] * len(distinct)
    if selection.groups:
        own = group_names(validate.labels("groups", groups, len(kept))[first]).tolist()
        parts = [POOL_NAME if name in selection.pooled_groups else name for name in own]
    counts = zip(parts, sizes.tolist(), left.tolist(), strict=True)
    return dict(zip(distinct.tolist(), counts, strict=True))


def add_items(total: ItemCounts, more: ItemCounts) -> None:
    """Add the claims of more rows to those of all."""
    for name, (part, claims, kept) in more.items():
        before = total.get(name, (part, 0, 0))
        total[name] = (before[0], before[1] + claims, before[2] + kept)


def require_most_claims(selection: Selection, items: ItemCounts, refused: str) -> None:
    """Raise for an item with more claims than the promise is about."""
    most = selection.settings.get("most_claims")
    if most is None or selection.loss != FALSE_AMONG_SHOWN:
        return
    for name, (_, claims, _) in items.items():
        if claims > most:
            raise ValueError(
                f"{refused}: item {name!r} has {claims} claims, above most_claims = {most} of the "
                "calibration, and the promise is for items of at most so many: show nothing of it"
            )


def items_by_part(items: ItemCounts) -> dict[str, Integers]:
    """By group, how many claims each item has and keeps: two rows."""
    found: dict[str, list[tuple[int, int]]] = {}
    for part, claims, kept in items.values():
        found.setdefault(part, []).append((claims, kept))
    return {part: np.array(counts).T for part, counts in found.items()}


def unlike_items(
    part: Selection, claims: tuple[int, int], items: Integers | None, n_parts: int
) -> bool:
    """Whether new items keep less or more than chance explains.

    `claims` are how many were read and kept, and `items` the same for each item, where this is
    known; `n_parts` is the number of groups that are compared.
    """
    known, (read, kept) = part.kept, claims
    assert known is not None
    candidates = known.total + read + 1
    if part.loss == FALSE_AMONG_SHOWN:  # whose thresholds are named beforehand
        candidates = min(candidates, part.n_candidates)
    level = math.log(FALSE_ALARMS / (N_TESTS * n_parts * candidates))
    there = known.items - known.emptied
    if items is None:
        most = part.settings.get("most_claims")
        if most is None or part.loss != FALSE_AMONG_SHOWN:
            return False
        least = math.ceil(read / most)
        return kept < least and log_tail_of_few(kept, least, there, known.items) <= level
    count, shown, (sizes, left) = items.shape[1], int(np.count_nonzero(items[1])), items
    return level >= min(
        log_tail_of_few(shown, count, there, known.items),
        log_tail_of_few(count - shown, count, known.emptied, known.items),
        -log_evidence_of_more(sizes - left, known.total - known.kept, known.items),
        -log_evidence_of_more(left, known.kept, known.items),
    )


def log_evidence_of_more(new: Integers, others: int, known: int) -> float:
    """The log of an e-value that new items have more than `known` ones, which have `others`."""
    stakes = np.array(ITEM_STAKES)
    mean = (others + int(new.sum())) / (known + len(new))
    logs = np.log1p(stakes[:, None] * new).sum(axis=1) - len(new) * np.log1p(stakes * mean)
    return log_average(logs)


def log_tail_of_few(few: int, count: int, others: int, known: int) -> float:
    """Log-probability that at most `few` of `count` new items are special, drawn from all.

    All are these and `known` items, of which `others` are special.
    """
    from scipy.special import gammaln

    special, total = few + others, count + known
    at = np.arange(max(0, count + special - total), few + 1, dtype=np.float64)

    def log_choose(n: float, k: Any) -> Any:
        return gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1)

    terms = log_choose(special, at) + log_choose(total - special, count - at)
    return float(min(np.logaddexp.reduce(terms) - log_choose(total, count), 0.0))
