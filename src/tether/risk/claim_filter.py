"""Filtering new claims by a calibrated threshold."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from tether._core import validate
from tether._core.counted import counted
from tether._core.row_indexes import check_row_indexes
from tether._core.types import Booleans
from tether._core.user_warnings import warn_user
from tether._core.warning_categories import AssumptionWarning, PromiseWarning
from tether.risk.claim_columns import finite_scores
from tether.risk.group_names import group_names, listed_groups
from tether.risk.item_comparison import count_items, require_most_claims
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
MADE_ALIKE = "The promise is for scores that are made as in the calibration"
"""What errors and warnings about the scale of scores end with."""


def filter_claims(
    selection: Selection,
    scores: ArrayLike,
    *,
    groups: ArrayLike | None = None,
    items: ArrayLike | None = None,
) -> Booleans:
    """Mark the claims to keep: those with score ≥ threshold.

    The promise of the selection is for complete items: score and filter every claim of an item.
    Where `selection.useful` is False nothing is kept (with the loss "miss" everything); with groups
    this is so in those without a useful promise, `selection.refused_groups`.

    Parameters
    ----------
    selection : Selection
        The result of `gcrc`, `crc`, `monotonized_crc` or `ltt`.
    scores : array_like
        One score per claim. May be empty, for an item without claims.
    groups : array_like, optional
        The group of each claim, or one for all of them. Required where the selection has one
        threshold per group.
    items : array_like, optional
        The name of the item that each claim belongs to: integers or strings. With it a limit on the
        claims of an item is enforced, and few items suffice to tell other scores.

    Returns
    -------
    numpy.ndarray
        One boolean per claim: whether to keep it.

    Raises
    ------
    TypeError
        If `selection` is not a `Selection`.
    ValueError
        If a score is not finite, `groups` is missing, a group was not calibrated, scores and groups
        have different row indexes, a score lies further outside those of the calibration than
        their range is wide, most of at least 20 scores lie outside, or an item has more claims
        than `most_claims` of the loss `FalseAmongShown`.

    Warns
    -----
    AssumptionWarning
        If many scores lie outside those of the calibration, or the share that is kept, or the
        number of items with nothing left, differs from the calibration by more than chance
        explains.
    PromiseWarning
        If the selection, or the group of some claims, has no useful promise.

    Examples
    --------
    >>> import tether
    >>> claims = tether.Claims([0.9, 0.8, 0.3] * 20, [1, 1, 0] * 20, range(0, 61, 3))
    >>> filter_claims(tether.gcrc(claims, alpha=0.1), [0.95, 0.85, 0.1])
    array([ True,  True, False])
    """
    if isinstance(groups, (str, int, np.str_, np.integer)):  # that of all claims
        groups = np.full(np.size(scores), groups)
    check_row_indexes({"scores": scores, "groups": groups, "items": items})
    kept, refused = keep_promised(selection, scores, groups)
    named = None if items is None else count_items(selection, kept, groups, items)
    require_most_claims(selection, named or {}, "nothing is filtered")
    known = score_range(selection)
    require_near(known, scores, "nothing is filtered")
    if refused.any():
        warn_user(refused_in_words(selection, int(refused.sum())), PromiseWarning)
    outside = count_outside(known if len(kept) >= MIN_SCORES_COMPARED else None, scores)
    require_scale(selection, outside, len(kept), "nothing is filtered")
    if outside > MANY_OUTSIDE * len(kept):
        warn_user(outside_in_words(selection, outside, len(kept)), AssumptionWarning)
        return kept
    for doubt in kept_doubts(selection, count_kept(selection, kept, groups), named):
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
    """Which claims are kept, and which have no useful promise: all of them, or those of groups.

    Of these the safest is done: nothing is kept where larger thresholds are safer, and everything
    where smaller ones are.
    """
    kept = keep_claims(selection, scores, groups)
    refused = np.full(len(kept), not selection.serves)
    if groups is not None and len(kept):
        names = group_names(validate.labels("groups", groups, len(kept)))
        refused = np.isin(names, selection.refused_groups)
    return np.where(refused, selection.safer == "smaller", kept), refused


def refused_in_words(selection: Selection, claims: int) -> str:
    """What is done with claims without a useful promise."""
    kept = "nothing" if selection.safer == "larger" else "everything"
    if not selection.groups:
        return (
            f"no useful promise ({why_not_useful(selection)}), so {kept} is kept of "
            f"{counted(claims, 'claim')} here"
        )
    return (
        f"{listed_groups(selection.refused_groups)}: no useful promise, so {kept} is kept of their "
        f"{counted(claims, 'claim')} here"
    )


def why_not_useful(selection: Selection) -> str:
    """Why a selection without groups has no useful promise."""
    if not selection.exists:
        asked = "alpha" if selection.target is None else "a promise of"
        return f"no threshold passes at {asked} {selection.tolerated:g}"
    if selection.keeps_nothing:
        return "only a threshold that keeps nothing of the calibration data passes"
    return (
        f"the selection promises {selection.promise:.4g} of a bound of {selection.bound:.4g}, "
        f"where {selection.tolerated:.4g} was asked for"
    )


def score_range(selection: Selection) -> tuple[float, float] | None:
    """The lowest and the highest score of the calibration; None where it is not known."""
    known = selection.kept
    if known is None or known.total < MIN_SCORES_COMPARED:
        return None
    return None if known.lowest is None or known.highest is None else (known.lowest, known.highest)


def require_near(
    known: tuple[float, float] | None, scores: ArrayLike, refused: str, first: int = 0
) -> None:
    """Raise if a score is further outside the range of the calibration than that is wide.

    A single score tells, since none like it was seen; a range of one score has no width to tell by.
    The scores are numbered from `first` on.
    """
    values = np.asarray(scores, dtype=np.float64)
    if known is None or known[0] == known[1] or not values.size:
        return
    low, high = known
    beyond = np.maximum(low - values, values - high)
    worst = int(np.argmax(beyond))
    if beyond[worst] > high - low:
        raise ValueError(
            f"{refused}: scores[{first + worst}] is {values[worst]:.6g}, and those of the "
            f"calibration are {low:.4g} to {high:.4g}: is it on another scale (a percentage, a "
            f"logit, a log-probability), or of another model? {MADE_ALIKE}"
        )


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
        f"{high:.4g}: are they on another scale, or of another model? {MADE_ALIKE}"
    )
