"""Items that look wrong in a table of claims: single claims as items, claims and items twice.

A table that was joined to itself, or to one that overlaps it, has every claim of some items twice.
That all claims of an item, with several scores among them, occur equally often more than once is no
coincidence; that some of them do is common where an answer repeats itself or scores are rounded.

Answers that are in the table several times under different names have exactly the same scores.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tether._core.equal_values import group_equal
from tether._core.types import Floats, Integers
from tether.risk.claims import Claims
from tether.risk.scanned_claims import ScannedClaims

MIN_SINGLE_CLAIMS = 30
"""From how many items on it is told that none of them has a second claim."""
MIN_REPEATED_ITEMS = 3
"""How many items must be repeated at least."""
HASH_FACTORS = (np.uint64(0x9E3779B97F4A7C15), np.uint64(0xD6E8FEB86659FD93))
"""Odd constants that spread bits over 64 of them."""


def single_claims_warning(losses: object) -> str | None:
    """Say that every named item has one claim; None if this is not so."""
    if isinstance(losses, Claims):
        named, n_claims = losses.items is not None, len(losses.scores)
    elif isinstance(losses, ScannedClaims):
        named, n_claims = True, losses.n_claims
    else:
        return None
    if not named or n_claims < MIN_SINGLE_CLAIMS or n_claims != losses.n_items:
        return None
    return (
        f"each of the {n_claims:,} items has exactly one claim: do the items name claims instead "
        "of the answers they belong to? Then the promise is about the share of all claims that are "
        "shown and false, not about answers, and it takes the claims of an answer for independent. "
        "If every answer has one claim, nothing is wrong"
    )


def repeated_claims_warning(claims: Claims) -> str | None:
    """Say that all claims of some items, or the items, occur more than once; None if not."""
    assert claims.items is not None
    values = np.sort(claims.scores)
    if np.count_nonzero(values[1:] == values[:-1]) < MIN_REPEATED_ITEMS:
        return None  # what takes longer is only looked at where scores are equal
    repeated, partly = _repeated_items(claims)
    if len(repeated) < max(MIN_REPEATED_ITEMS, partly + 1):
        return _copied_items_warning(claims, values)
    first = int(repeated[0])
    rows = int(np.diff(claims.offsets)[repeated].sum())
    return (
        f"all claims of {len(repeated):,} of {claims.n_items:,} items occur more than once, with "
        f"the same score and label ({rows:,} rows; the first is item "
        f"{claims.items[first].item()!r}): are rows repeated, or do files overlap? Remove the "
        "copies"
    )


def _copied_items_warning(claims: Claims, ordered: Floats) -> str | None:
    """Say that some items have exactly the scores of others; None if they do not."""
    assert claims.items is not None
    alike = _alike_items(claims)
    first, times, another = _copied_items(claims, ordered, *alike)
    if len(first) < MIN_REPEATED_ITEMS:
        return None
    sure, possible = int((times - 1).sum()), int((alike[1] - 1).sum())
    rounded = ""
    if possible > sure:
        rounded = (
            f", and {possible:,} with those whose scores are so common that they may be equal by "
            "chance"
        )
    names = [claims.items[index[0]].item() for index in (first, another)]
    return (
        f"at least {sure:,} of {claims.n_items:,} items have exactly the scores of another "
        f"item{rounded} (the first is {names[1]!r}, with those of {names[0]!r}): are answers in "
        "the table several times, under different names? Items that are copies are not "
        "independent, and the promise then rests on fewer items than are counted. Keep one of each"
    )


def _alike_items(claims: Claims) -> tuple[Integers, Integers, Integers]:
    """Items whose scores are all those of others: the first of each, how many, the second."""
    sizes = np.diff(claims.offsets)
    own = np.flatnonzero(sizes > 1)
    if not len(own):
        return own, own, own
    running = np.r_[np.uint64(0), np.cumsum(_spread(claims.scores))]  # modulo 2^64
    hashes = running[claims.offsets[1:]] - running[claims.offsets[:-1]]
    hashes = _mixed(hashes + sizes.astype(np.uint64))[own]
    order, starts, times = group_equal(hashes)
    starts, times = starts[times > 1], times[times > 1]
    first, another = own[order[starts]], own[order[starts + 1]]
    by_item = np.argsort(first)
    return first[by_item], times[by_item], another[by_item]


def _copied_items(
    claims: Claims, ordered: Floats, first: Integers, times: Integers, another: Integers
) -> tuple[Integers, Integers, Integers]:
    """Those of the items with the scores of others that cannot be so by chance.

    At least two of an item's scores must occur in it and its copies alone. So scores that are
    rounded, or of which many are 0 or 1, are no copies: among items of two scores that are drawn
    independently, whatever from, fewer than 0.04 pairs are expected to look like this, since
    (Σ x²·exp(−x))² / (2N)² ≤ exp(−2) / 4, where x is how often each value is expected in N scores.
    """
    if len(first) < MIN_REPEATED_ITEMS:
        return first, times, another
    some = claims.take(first)
    item = np.repeat(np.arange(len(first)), np.diff(some.offsets))
    rows = np.lexsort((some.scores, item))
    item, scores = item[rows], some.scores[rows]
    runs = np.flatnonzero(np.r_[True, (item[1:] != item[:-1]) | (scores[1:] != scores[:-1])])
    inside = np.diff(np.r_[runs, len(item)]) * times[item[runs]]
    below, through = (np.searchsorted(ordered, scores[runs], side) for side in ("left", "right"))
    alone = np.bincount(item[runs], through - below == inside, minlength=len(first)) >= 2
    return first[alone], times[alone], another[alone]


def _spread(scores: Floats) -> NDArray[np.uint64]:
    """A hash of each score."""
    return _mixed((scores + 0.0).view(np.uint64))  # -0.0 becomes 0.0


def _mixed(bits: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Bits spread over 64 of them by multiplications and shifts."""
    for factor in HASH_FACTORS:
        bits = (bits ^ (bits >> np.uint64(31))) * factor
    return bits ^ (bits >> np.uint64(29))


def _repeated_items(claims: Claims) -> tuple[Integers, int]:
    """The items whose claims all occur equally often, twice or more, and how many others repeat.

    Only items with several distinct scores are looked at: where all claims of an answer share its
    score, equal claims are no copies.
    """
    sizes = np.diff(claims.offsets)
    item = np.repeat(np.arange(claims.n_items), sizes)
    order = np.lexsort((claims.supported, claims.scores, item))
    item, scores, labels = item[order], claims.scores[order], claims.supported[order]
    new_item = np.r_[True, item[1:] != item[:-1]]
    new_score = new_item | np.r_[True, scores[1:] != scores[:-1]]
    starts = np.flatnonzero(new_score | np.r_[True, labels[1:] != labels[:-1]])
    times = np.diff(np.r_[starts, len(item)])
    first_of_item = np.flatnonzero(new_item[starts])
    fewest = np.minimum.reduceat(times, first_of_item)
    most = np.maximum.reduceat(times, first_of_item)
    owners = item[starts[first_of_item]]
    several = np.bincount(item[new_score], minlength=claims.n_items)[owners] > 1
    alike = several & (fewest == most) & (fewest > 1)
    return owners[alike], int(np.count_nonzero(several & (most > 1) & ~alike))
