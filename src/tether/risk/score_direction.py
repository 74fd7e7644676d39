"""Whether scores and labels say something: what is supported should score higher, not lower.

Inverted labels, or scores of which higher ones are worse, make every method keep what it should
remove. The area under the ROC curve tells: the probability that a supported claim scores higher
than an unsupported one. Its standard error treats the claims of an item as one cluster, by the
influence function of the area.
"""

from __future__ import annotations

import numpy as np

from tether._core.types import Booleans, Floats, Integers
from tether.risk.claim_sample import MOST_CLAIMS_SAMPLED
from tether.risk.claims import Claims
from tether.risk.scanned_claims import ScannedClaims
from tether.risk.scored_labels import ScoredLabels

MAX_CLAIMS_COMPARED = MOST_CLAIMS_SAMPLED
"""Of more claims than this, those of evenly spaced items are compared."""
MIN_COMPARED = 30
"""How many supported ones, unsupported ones and items it takes at least."""
INVERTED_STANDARD_ERRORS = 5.0
"""How many standard errors the area must be below one half."""
INVERTED_AREA = 0.45
"""How small the area must be at most."""


MIN_LABELS_OF_ONE_KIND = 100
"""Fewer labels than this may well be all the same."""
UNINFORMATIVE_AREA = 0.6
"""Scores tell nothing if the area is 0.5 within two standard errors, and surely below this."""

INVERTED = "are labels or scores inverted?"
"""How the warning begins."""
ONE_LABEL = "are these the labels?"
"""How the warning of labels of one class begins."""


def looked_at(losses: object) -> object:
    """What is looked at: of claims in parts, a sample."""
    return losses.sample.claims if isinstance(losses, ScannedClaims) else losses


def labels_as_scores_warning(losses: object) -> str | None:
    """Say that the scores are the labels; None if they are not."""
    losses = looked_at(losses)
    if not isinstance(losses, (Claims, ScoredLabels)):
        return None
    labels = losses.supported if isinstance(losses, Claims) else losses.labels
    if min(labels.sum(), (~labels).sum()) < MIN_COMPARED or not (losses.scores == labels).all():
        return None
    return (
        "the scores are the labels themselves: a score must be known before it is known what is "
        "true. Was the column of labels passed as scores?"
    )


def one_label_warning(losses: object) -> str | None:
    """Say that all labels are the same; None if they are not, or there are few."""
    if isinstance(losses, ScannedClaims):
        count, ones = losses.sample.n_claims, losses.sample.n_supported
    elif isinstance(losses, (Claims, ScoredLabels)):
        labels = losses.supported if isinstance(losses, Claims) else losses.labels
        count, ones = len(labels), int(labels.sum())
    else:
        return None
    if count < MIN_LABELS_OF_ONE_KIND or 0 < ones < count:
        return None
    return (
        f"{ONE_LABEL} All {count:,} are {'1, true' if ones else '0, false'}, as where "
        "a column of words was compared with a word that it does not hold (check the spelling and "
        "capital letters). Nothing can be learned of scores from labels of one kind"
    )


def inverted_warning(losses: object, measured: tuple[float, float] | None) -> str | None:
    """Say that labels or scores look inverted, by the area and its error; None if they do not."""
    if measured is None:
        return None
    area, error = measured
    if area > INVERTED_AREA or area + INVERTED_STANDARD_ERRORS * error >= 0.5:
        return None
    one = "supported" if isinstance(losses, (Claims, ScannedClaims)) else "a positive label"
    return (
        f"{INVERTED} What is labelled 1 scores lower than what is labelled 0 "
        f"(area under the curve {area:.3f} ± {error:.2g}, where 0.5 is no information). Labels: 1 "
        f"is {one}; scores: higher is more confident"
    )


def uninformative_note(measured: tuple[float, float] | None) -> str | None:
    """Say that the scores tell nothing, by the area and its error; None if they may."""
    if measured is None:
        return None
    area, error = measured
    if abs(area - 0.5) > 2 * error or area + 2 * error > UNINFORMATIVE_AREA:
        return None
    return (
        "the scores hardly tell what is labelled 1 from what is labelled 0 (area under the curve "
        f"{area:.3f} ± {error:.2g}, where 0.5 is no information): a threshold on them keeps a "
        "promise only by keeping little, or where little is false. Is this the column of scores?"
    )


def measured_area(losses: object) -> tuple[float, float] | None:
    """The area under the ROC curve and its standard error; None where there is too little."""
    losses = looked_at(losses)
    if not isinstance(losses, (Claims, ScoredLabels)):
        return None
    scores, labels, item = _compared(losses)
    if min(labels.sum(), (~labels).sum(), losses.n_items) < MIN_COMPARED:
        return None
    return area_with_error(scores, labels, item)


def area_with_error(scores: Floats, labels: Booleans, item: Integers) -> tuple[float, float]:
    """The area under the ROC curve, ties counted half, and its standard error over items."""
    positive, negative = np.sort(scores[labels]), np.sort(scores[~labels])
    share = np.empty(len(scores))
    share[labels] = _share_below(negative, scores[labels])
    share[~labels] = 1 - _share_below(positive, scores[~labels])
    area = float(share[labels].mean())
    influence = (share - area) / np.where(labels, len(positive), len(negative))
    by_item = np.bincount(item, influence)
    return area, float(np.sqrt(np.square(by_item).sum()))


def _share_below(ordered: Floats, values: Floats) -> Floats:
    """The share of ordered numbers below each value, with half of those that equal it."""
    below = np.searchsorted(ordered, values, side="left")
    through = np.searchsorted(ordered, values, side="right")
    return np.asarray((below + through) / (2 * len(ordered)))


def _compared(losses: Claims | ScoredLabels) -> tuple[Floats, Booleans, Integers]:
    """Scores, labels, and the item of each: all, or those of evenly spaced items."""
    count = len(losses.scores)
    if count > MAX_CLAIMS_COMPARED:
        step = -(-count // MAX_CLAIMS_COMPARED)
        losses = losses.take(np.arange(0, losses.n_items, step))
    if isinstance(losses, ScoredLabels):
        return losses.scores, losses.labels, np.arange(len(losses.scores))
    sizes = np.diff(losses.offsets)
    return losses.scores, losses.supported, np.repeat(np.arange(len(sizes)), sizes)
