"""Items that look wrong in a table of claims: single claims as items, and claims that occur twice.

A table that was joined to itself, or to one that overlaps it, has every claim of some items twice.
That all claims of an item, with several scores among them, occur equally often more than once is no
coincidence; that some of them do is common where an answer repeats itself or scores are rounded.
"""

from __future__ import annotations

import numpy as np

from tether._core.types import Integers
from tether.risk.claims import Claims
from tether.risk.scanned_claims import ScannedClaims

MIN_SINGLE_CLAIMS = 30
"""From how many items on it is told that none of them has a second claim."""
MIN_REPEATED_ITEMS = 3
"""How many items must be repeated at least."""


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
    """Say that all claims of some items occur more than once; None if they do not."""
    assert claims.items is not None
    values = np.sort(claims.scores)
    if np.count_nonzero(values[1:] == values[:-1]) < MIN_REPEATED_ITEMS:
        return None  # what takes longer is only looked at where scores are equal
    repeated, partly = _repeated_items(claims)
    if len(repeated) < max(MIN_REPEATED_ITEMS, partly + 1):
        return None
    first = int(repeated[0])
    rows = int(np.diff(claims.offsets)[repeated].sum())
    return (
        f"all claims of {len(repeated):,} of {claims.n_items:,} items occur more than once, with "
        f"the same score and label ({rows:,} rows; the first is item "
        f"{claims.items[first].item()!r}): are rows repeated, or do files overlap? Remove the "
        "copies"
    )


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
