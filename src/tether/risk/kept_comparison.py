"""Whether a threshold keeps as much of new claims as of the calibration.

The promise is for new items that are like those of the calibration. Then both shares differ by
chance alone. The claims of an item may be kept or dropped together, so the variance of a share p
among N claims is at most about s·p·(1 − p) / N, where s is the mean size of an item over claims,
Σ m² / Σ m for items of m claims each. It is the mean over items only where all have the same size.
A score on another scale, of another model or turned round keeps clearly more or less. Where items
are not told apart, so many standard errors are a rule of thumb: few items far longer than all of
the calibration make false alarms. Where they are, the tests of `item_comparison` have bounded ones.
"""

from __future__ import annotations

import numpy as np

from tether._core import validate
from tether._core.counted import counted
from tether._core.types import Booleans, Integers
from tether.risk.group_names import group_names
from tether.risk.item_comparison import ItemCounts, items_by_part, unlike_items
from tether.risk.kept_share import KeptShare
from tether.risk.selection import POOL_NAME, Selection

MIN_CLAIMS_COMPARED = 50
"""Fewer claims than this are not compared."""
MIN_ITEMS_COMPARED = 30
"""Nor is what so few items may have, by the mean size of an item over claims."""
MIN_ITEMS_KNOWN = 200
"""Nor with fewer items of the calibration, which would not show that few are very long."""
UNLIKELY_STANDARD_ERRORS = 5.0
"""How many standard errors both shares must differ by."""
MAX_NAMED_DOUBTS = 5
"""Of how many groups it is told."""

KeptCounts = dict[str, tuple[int, int]]
"""How many claims were looked at and kept, by group; by "" where there are no groups."""


def count_kept(selection: Selection, kept: Booleans, groups: object = None) -> KeptCounts:
    """Count the claims of each group that has a useful promise."""
    if not selection.groups or not len(kept):
        return {"": (len(kept), int(kept.sum()))}
    distinct, group = np.unique(validate.labels("groups", groups, len(kept)), return_inverse=True)
    found: KeptCounts = {}
    for k, name in enumerate(group_names(distinct).tolist()):
        part = POOL_NAME if name in selection.pooled_groups else name
        if selection.groups[part].useful:
            seen, before = kept[group == k], found.get(part, (0, 0))
            found[part] = (before[0] + len(seen), before[1] + int(seen.sum()))
    return found


def add_counts(one: KeptCounts, other: KeptCounts) -> KeptCounts:
    """Both together."""
    return {
        name: (
            one.get(name, (0, 0))[0] + other.get(name, (0, 0))[0],
            one.get(name, (0, 0))[1] + other.get(name, (0, 0))[1],
        )
        for name in {**one, **other}
    }


def kept_doubts(
    selection: Selection, counts: KeptCounts, items: ItemCounts | None = None
) -> list[str]:
    """Say where the share that is kept differs from that of the calibration by more than chance."""
    doubts = []
    by_part = {} if items is None else items_by_part(items)
    for name, (read, kept) in counts.items():
        part = selection.groups[name] if name else selection
        known, own = part.kept, by_part.get(name)
        if known is None or not part.useful or not known.items or not read:
            continue
        unlike = unlike_items(part, (read, kept), own, len(counts))
        if unlike or (own is None and _unlike_claims(known, read, kept)):
            doubts.append(f"{name + ': ' if name else ''}{_in_words(known, read, kept, own)}")
    more = len(doubts) - MAX_NAMED_DOUBTS
    return doubts if more <= 0 else [*doubts[:MAX_NAMED_DOUBTS], f"and in {more} more groups"]


def _unlike_claims(known: KeptShare, read: int, kept: int) -> bool:
    """Whether the shares of claims differ by many standard errors, where there are enough."""
    per_item = known.squared_sizes / known.total
    if known.items < MIN_ITEMS_KNOWN:
        return False
    if min(read, known.total) < max(MIN_CLAIMS_COMPARED, MIN_ITEMS_COMPARED * per_item):
        return False
    share = (kept + known.kept + 1) / (read + known.total + 2)
    error = np.sqrt(per_item * share * (1 - share) * (1 / read + 1 / known.total))
    return bool(abs(kept / read - known.share) > UNLIKELY_STANDARD_ERRORS * error)


def _in_words(known: KeptShare, read: int, kept: int, items: Integers | None) -> str:
    text = (
        f"{kept / read:.1%} of {read:,} {known.unit} are kept here, and {known.share:.1%} in the "
        "calibration"
    )
    if items is not None:
        emptied, count = int((items[1] == 0).sum()), items.shape[1]
        text += (
            f", and nothing is left of {emptied:,} of {counted(count, 'item')} here "
            f"and of {known.emptied:,} of {known.items:,} there"
        )
    return (
        f"{text}, which is more than chance explains: are these scores of the same model and on "
        "the same scale, and are the items of the same kind? The promise is for such items only"
    )
