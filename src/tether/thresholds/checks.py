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

from tether._core.types import Booleans, Floats, Integers
from tether.thresholds.claims import Claims, ScoredLabels

MAX_COMPARED = 200_000
"""Of more claims than this, those of evenly spaced items are compared."""
MIN_COMPARED = 30
"""How many supported ones, unsupported ones and items it takes at least."""
INVERTED_STANDARD_ERRORS, INVERTED_AREA = 5.0, 0.45
"""How far below one half the area must be, in standard errors, and how small at most."""
UNINFORMATIVE_AREA = 0.6
"""Scores tell nothing if the area is 0.5 within two standard errors, and surely below this."""
MIN_LABELS_OF_ONE_KIND = 100
"""Fewer labels than this may well be all the same."""
INVERTED = "are labels or scores inverted?"
ONE_LABEL = "are these the labels?"


def look_at(losses: Any, grouped: bool, method: str) -> tuple[list[str], list[str]]:
    """Doubts to warn about, and notes for the result, about all of the losses."""
    doubts: list[str] = []
    notes: list[str] = []
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
                doubts.append(
                    "the scores are the labels themselves: a score must be known before it is "
                    "known what is true. Was the column of labels passed as scores?"
                )
            _judge(*_area(each), isinstance(each, Claims), doubts, notes)
        if isinstance(each, Claims):
            _look_at_items(each, grouped, method, doubts)
    return list(dict.fromkeys(doubts)), list(dict.fromkeys(notes))


def _judge(area: float, error: float, claims: bool, doubts: list[str], notes: list[str]) -> None:
    told = f"(area under the curve {area:.3f} ± {error:.2g}, where 0.5 is no information)"
    if area <= INVERTED_AREA and area + INVERTED_STANDARD_ERRORS * error < 0.5:
        one = "supported" if claims else "a positive label"
        doubts.append(
            f"{INVERTED} What is labelled 1 scores lower than what is labelled 0 {told}. Labels: "
            f"1 is {one}; scores: higher is more confident"
        )
    elif abs(area - 0.5) <= 2 * error and area + 2 * error <= UNINFORMATIVE_AREA:
        notes.append(
            f"the scores hardly tell what is labelled 1 from what is labelled 0 {told}: a "
            "threshold on them keeps a promise only by keeping little, or where little is false"
        )


def _look_at_items(claims: Claims, grouped: bool, method: str, doubts: list[str]) -> None:
    named = claims.items is not None and len(claims.scores) >= MIN_COMPARED
    if named and len(claims.scores) == claims.n_items:
        doubts.append(
            f"each of the {claims.n_items:,} items has exactly one claim: do the items name claims "
            "instead of the answers they belong to? Then the promise is about claims, not about "
            "answers, and it takes the claims of an answer for independent. If every answer has "
            "one claim, nothing is wrong"
        )
    if claims._groups is not None and not grouped:
        name = "gcrc" if method == "soft chain" else method.lower().replace(" ", "_")
        doubts.append(
            "these claims have groups, but one threshold was chosen for all of them: the promise "
            "is on average over the groups, not within each. For one threshold per group use "
            f"tether.{name}(claims, groups=claims.groups); otherwise build the claims without "
            "groups"
        )


def _area(losses: Claims | ScoredLabels) -> tuple[float, float]:
    """The area under the ROC curve, ties counted half, and its standard error over items."""
    if len(losses.scores) > MAX_COMPARED:
        losses = losses.take(np.arange(0, losses.n_items, -(-len(losses.scores) // MAX_COMPARED)))
    if isinstance(losses, Claims):
        return area_with_error(losses.scores, losses.supported, losses.owner)
    return area_with_error(losses.scores, losses.labels, np.arange(losses.n_items))


def area_with_error(scores: Floats, labels: Booleans, item: Integers) -> tuple[float, float]:
    """The area under the ROC curve, ties counted half, and its standard error over items."""
    if labels.all() or not labels.any():
        return 0.5, np.inf
    positive, negative = np.sort(scores[labels]), np.sort(scores[~labels])
    share = np.empty(len(scores))
    share[labels] = _share_below(negative, scores[labels])
    share[~labels] = 1 - _share_below(positive, scores[~labels])
    area = float(share[labels].mean())
    influence = (share - area) / np.where(labels, len(positive), len(negative))
    return area, float(np.sqrt(np.square(np.bincount(item, influence)).sum()))


def _share_below(ordered: Floats, values: Floats) -> Floats:
    """The share of ordered numbers below each value, with half of those that equal it."""
    below = np.searchsorted(ordered, values, side="left")
    through = np.searchsorted(ordered, values, side="right")
    return np.asarray((below + through) / (2 * len(ordered)))
