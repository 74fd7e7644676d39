"""Items that look wrong in a table of claims: single claims as items, claims and items twice.

A table that was joined to itself, or to one that overlaps it, has every claim of some items twice.
That all claims of an item, with several scores among them, occur twice or a multiple of it rarely
is coincidence; that some of them do is common where an answer repeats itself or scores are rounded.

Answers that are in the table several times under different names have exactly the same scores.
"""

from __future__ import annotations

import numpy as np

from tether._core.equal_values import group_equal
from tether._core.types import Floats, Integers
from tether.risk.claims import Claims
from tether.risk.item_copies import (
    MIN_REPEATED_ITEMS,
    copied_in_words,
    distinct_scores,
    repeated_in_words,
    repeated_items,
    score_hashes,
    scores_alone,
)
from tether.risk.scanned_claims import ScannedClaims

MIN_SINGLE_CLAIMS = 30
"""From how many items on it is told that none of them has a second claim."""


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
    repeated, counts = repeated_items(claims)
    if not counts.enough:
        return _copied_items_warning(claims, values)
    rows = int(np.diff(claims.offsets)[repeated].sum())
    first = claims.items[int(repeated[0])].item()
    return repeated_in_words(len(repeated), claims.n_items, rows, first)


def _copied_items_warning(claims: Claims, ordered: Floats) -> str | None:
    """Say that some items have exactly the scores of others; None if they do not."""
    assert claims.items is not None
    alike = _alike_items(claims)
    first, times, another = _copied_items(claims, ordered, *alike)
    if len(first) < MIN_REPEATED_ITEMS:
        return None
    sure, possible = int((times - 1).sum()), int((alike[1] - 1).sum())
    names = [claims.items[index[0]].item() for index in (first, another)]
    return copied_in_words(sure, possible, claims.n_items, names)


def _alike_items(claims: Claims) -> tuple[Integers, Integers, Integers]:
    """Items whose scores are all those of others: the first of each, how many, the second."""
    own, hashes = score_hashes(claims)
    if not len(own):
        return own, own, own
    order, starts, times = group_equal(hashes)
    starts, times = starts[times > 1], times[times > 1]
    first, another = own[order[starts]], own[order[starts + 1]]
    by_item = np.argsort(first)
    return first[by_item], times[by_item], another[by_item]


def _copied_items(
    claims: Claims, ordered: Floats, first: Integers, times: Integers, another: Integers
) -> tuple[Integers, Integers, Integers]:
    """Those of the items with the scores of others that cannot be so by chance."""
    if len(first) < MIN_REPEATED_ITEMS:
        return first, times, another
    item, scores, inside = distinct_scores(claims.take(first))
    below, through = (np.searchsorted(ordered, scores, side) for side in ("left", "right"))
    alone = scores_alone(item, inside * times[item], through - below, len(first))
    return first[alone], times[alone], another[alone]
