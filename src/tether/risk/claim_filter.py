"""Filtering new claims by a calibrated threshold."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from tether._core import validate
from tether._core.counted import counted
from tether._core.types import Booleans
from tether._core.user_warnings import warn_user
from tether._core.warning_categories import AssumptionWarning, PromiseWarning
from tether.risk.claim_columns import finite_scores
from tether.risk.group_names import group_names
from tether.risk.kept_comparison import count_kept, kept_doubts
from tether.risk.selection import Selection

MIN_SCORES_COMPARED = 20
"""Fewer scores than this are not compared with the range of the calibration."""
RANGE_MARGIN = 0.05
"""How far outside the range a score may be, as a share of it."""
MANY_OUTSIDE = 0.2
"""The share of scores outside the range that deserves a warning."""
MOST_OUTSIDE = 0.5
"""The share of scores outside the range above which claims are refused."""
MIN_OUTSIDE = 5
"""How many scores must lie outside at least before it is."""


def filter_claims(
    selection: Selection, scores: ArrayLike, *, groups: ArrayLike | None = None
) -> Booleans:
    """Mark the claims to keep: those with score ≥ threshold.

    The promise of the selection is for complete items: score and filter every claim of an item.
    Of groups without a useful promise, `selection.refused_groups`, nothing is kept (with the loss
    "miss" everything), as by `tether filter`. Without groups, where `selection.useful` is False
    nothing useful is promised, although the threshold may still keep claims.

    Parameters
    ----------
    selection : Selection
        The result of `gcrc`, `crc`, `monotonized_crc` or `ltt`.
    scores : array_like
        One score per claim. May be empty, for an item without claims.
    groups : array_like, optional
        The group of each claim. Required where the selection has one threshold per group.

    Returns
    -------
    numpy.ndarray
        One boolean per claim: whether to keep it.

    Raises
    ------
    TypeError
        If `selection` is not a `Selection`.
    ValueError
        If a score is not finite, `groups` is missing, a group was not calibrated, or most of at
        least 20 scores lie outside those of the calibration.

    Warns
    -----
    AssumptionWarning
        If many scores lie outside those of the calibration, or the share that is kept differs from
        that of the calibration by more than chance explains.
    PromiseWarning
        If claims are of groups without a useful promise.

    Examples
    --------
    >>> import tether
    >>> claims = tether.Claims([0.9, 0.8, 0.3] * 20, [1, 1, 0] * 20, range(0, 61, 3))
    >>> filter_claims(tether.gcrc(claims, alpha=0.1), [0.95, 0.85, 0.1])
    array([ True,  True, False])
    """
    kept, refused = keep_promised(selection, scores, groups)
    if refused.any():
        warn_user(refused_in_words(selection, int(refused.sum())), PromiseWarning)
    known = score_range(selection) if len(kept) >= MIN_SCORES_COMPARED else None
    outside = count_outside(known, scores)
    require_scale(selection, outside, len(kept), "nothing is filtered")
    if outside > MANY_OUTSIDE * len(kept):
        warn_user(outside_in_words(selection, outside, len(kept)), AssumptionWarning)
        return kept
    for doubt in kept_doubts(selection, count_kept(selection, kept, groups)):
        warn_user(doubt, AssumptionWarning)
    return kept


def keep_claims(
    selection: Selection, scores: ArrayLike, groups: ArrayLike | None = None
) -> Booleans:
    """The same, without a look at the scale of the scores."""
    if not isinstance(selection, Selection):
        raise TypeError(
            "selection must be a Selection returned by gcrc, crc, monotonized_crc or ltt, got "
            f"{selection!r}; for a threshold of your own use scores >= threshold"
        )
    if np.size(scores) == 0:  # an item without claims
        return np.zeros(0, dtype=np.bool_)
    checked = finite_scores("scores", scores)
    if groups is None:
        if selection.groups:
            raise ValueError(
                "groups is required: this selection has one threshold per group "
                f"({', '.join(map(repr, selection.groups))})"
            )
        return np.asarray(checked >= selection.threshold)
    if not selection.groups:
        raise ValueError(
            "groups was given, but this selection has one threshold for all claims: it was "
            "calibrated without groups"
        )
    labels = validate.labels("groups", groups, len(checked))
    distinct, group_of_claim = np.unique(labels, return_inverse=True)
    names = group_names(distinct).tolist()
    thresholds = np.array([selection.for_group(name).threshold for name in names])
    return np.asarray(checked >= thresholds[group_of_claim])


def keep_promised(
    selection: Selection, scores: ArrayLike, groups: ArrayLike | None = None
) -> tuple[Booleans, Booleans]:
    """Which claims are kept, and which are of groups without a useful promise.

    Of these the safest is done: nothing is kept where larger thresholds are safer, and everything
    where smaller ones are.
    """
    kept = keep_claims(selection, scores, groups)
    refused = np.zeros(len(kept), dtype=np.bool_)
    if groups is not None and len(kept):
        names = group_names(validate.labels("groups", groups, len(kept)))
        refused = np.isin(names, selection.refused_groups)
    return np.where(refused, selection.safer == "smaller", kept), refused


def refused_in_words(selection: Selection, claims: int) -> str:
    """What is done with the claims of groups without a useful promise."""
    kept = "nothing" if selection.safer == "larger" else "everything"
    return (
        f"{', '.join(selection.refused_groups)}: no useful promise, so {kept} is kept of their "
        f"{counted(claims, 'claim')} here"
    )


def score_range(selection: Selection) -> tuple[float, float] | None:
    """The lowest and the highest score of the calibration; None where it is not known.

    Where every score was a candidate, so was +inf.
    """
    ranges = []
    for part in selection.groups.values() or (selection,):
        thresholds = part.curve_thresholds
        finite = thresholds[np.isfinite(thresholds)]
        known = part.kept is not None and part.kept.total >= MIN_SCORES_COMPARED
        if not known or len(finite) == len(thresholds) or not len(finite):
            return None
        ranges.append((float(finite.min()), float(finite.max())))
    return min(low for low, _ in ranges), max(high for _, high in ranges)


def count_outside(known: tuple[float, float] | None, scores: ArrayLike) -> int:
    """How many scores lie clearly outside the range of the calibration, if it is known."""
    if known is None:
        return 0
    low, high = known
    margin, values = RANGE_MARGIN * (high - low), np.asarray(scores, dtype=np.float64)
    return int(((values < low - margin) | (values > high + margin)).sum())


def require_scale(selection: Selection, outside: int, total: int, refused: str) -> None:
    """Raise where most scores lie outside the range of the calibration."""
    if outside >= MIN_OUTSIDE and outside > MOST_OUTSIDE * total:
        raise ValueError(f"{refused}: {outside_in_words(selection, outside, total)}")


def outside_in_words(selection: Selection, outside: int, total: int) -> str:
    """A warning about scores of another scale."""
    low, high = score_range(selection) or (np.nan, np.nan)
    return (
        f"{outside:,} of {total:,} scores lie outside those of the calibration, {low:.4g} to "
        f"{high:.4g}: are they on another scale, or of another model? The promise is for scores "
        f"that are made as in the calibration"
    )
