"""Whether scores and labels make sense: what is supported should score higher, not lower.

Inverted labels, or scores of which higher ones are worse, make every method keep what it should
remove. The area under the ROC curve tells: the probability that a supported claim scores higher
than an unsupported one. Its standard error treats the claims of an item as one cluster, by the
influence function of the area.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tether._core.arrays import Booleans, Integers
from tether.thresholds.claims import Claims, ScoredLabels

MIN_COMPARED = 30
"""So many claims of each label, and items, are compared at least."""
INVERTED_STANDARD_ERRORS, INVERTED_AREA = 5.0, 0.45
"""How far below one half the area must be, in standard errors, and how small at most."""
MIN_LABELS_OF_ONE_KIND = 100
"""Fewer labels than this may well be all the same."""
INVERTED, ONE_LABEL = "are labels or scores inverted?", "are these the labels?"


def look_at(losses: Any, grouped: bool) -> list[str]:
    """What looks wrong with claims or labels."""
    doubts: list[str] = []
    for each in losses.values() if isinstance(losses, Mapping) else [losses]:
        if not isinstance(each, (Claims, ScoredLabels)):
            continue
        labels = each.supported if isinstance(each, Claims) else each.labels
        ones = int(labels.sum())
        if len(labels) >= MIN_LABELS_OF_ONE_KIND and ones in (0, len(labels)):
            doubts.append(
                f"{ONE_LABEL} All {len(labels):,} are {'1, true' if ones else '0, false'}, as "
                "where a column of words was compared with a word that it does not hold"
            )
        if min(ones, len(labels) - ones, each.n_items) >= MIN_COMPARED:
            if (each.scores == labels).all():
                doubts.append("the scores are the labels: they must be known before the labels")
            area, error = _area(each, labels)
            if area <= INVERTED_AREA and area + INVERTED_STANDARD_ERRORS * error < 0.5:
                doubts.append(
                    f"{INVERTED} What is labelled 1 scores lower than what is labelled 0 (area "
                    f"under the curve {area:.3f} ± {error:.2g}, where 0.5 is no information). "
                    "Labels: 1 is supported, or positive; scores: higher is more confident"
                )
        if isinstance(each, Claims):
            doubts += _about_items(each, grouped)
    return list(dict.fromkeys(doubts))


def _about_items(claims: Claims, grouped: bool) -> list[str]:
    doubts = []
    if claims.items is not None and MIN_COMPARED <= len(claims.scores) == claims.n_items:
        doubts.append(
            f"each of the {claims.n_items:,} items has exactly one claim: do the items name claims "
            "instead of the answers they belong to? Then the promise takes the claims of an answer "
            "for independent. If every answer has one claim, nothing is wrong"
        )
    if claims._groups is not None and not grouped:
        doubts.append(
            "these claims have groups, but one threshold was chosen for all of them: the promise "
            "is on average over the groups, not within each. Pass groups=claims.groups for one "
            "threshold per group; otherwise build the claims without groups"
        )
    return doubts


def _area(losses: Claims | ScoredLabels, labels: Booleans) -> tuple[float, float]:
    """The area under the ROC curve, ties counted half, and its standard error over items."""
    item: Integers = losses.owner if isinstance(losses, Claims) else np.arange(len(labels))
    rank = np.unique(losses.scores, return_inverse=True)[1]
    ones, zeros = (np.bincount(rank[each], minlength=rank.max() + 1) for each in (labels, ~labels))
    # Of each claim, the share of those with the other label that it scores right against.
    below_ones, below_zeros = ((np.cumsum(n) - n / 2) / n.sum() for n in (ones, zeros))
    share = np.where(labels, below_zeros[rank], 1 - below_ones[rank])
    area = float(share[labels].mean())
    influence = (share - area) / np.where(labels, ones.sum(), zeros.sum())
    return area, float(np.sqrt(np.square(np.bincount(item, influence)).sum()))
