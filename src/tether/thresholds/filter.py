"""Filtering new claims by a calibrated threshold."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from tether._core import validate
from tether._core.counted import counted
from tether._core.row_indexes import check_row_indexes
from tether._core.types import Booleans, Floats
from tether._core.user_warnings import warn_user
from tether._core.warning_categories import AssumptionWarning, PromiseWarning
from tether.thresholds.claims import finite_scores, group_names
from tether.thresholds.selection import POOL_NAME, Selection, asked, listed_groups

MIN_SCORES_COMPARED = 20
"""Fewer scores than this are not compared with those of the calibration."""
RANGE_MARGIN, MOST_OUTSIDE = 0.05, 0.5
"""How far outside the range a score may be, as a share of it; refused where more than so many are."""
MIN_CLAIMS_COMPARED, MIN_ITEMS_COMPARED = 50, 30
"""The share that is kept is compared for so many claims, and about so many items."""
UNLIKELY_STANDARD_ERRORS = 5.0
"""How many standard errors the share that is kept must differ by."""


def filter_claims(
    selection: Selection,
    scores: ArrayLike,
    *,
    groups: ArrayLike | None = None,
    items: ArrayLike | None = None,
    rng: np.random.Generator | None = None,
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
        claims of an item is enforced. Required where a threshold is drawn for each item.
    rng : numpy.random.Generator, optional
        The source of these draws.

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
        If the share that is kept differs from that of the calibration by more than chance explains.
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
    kept, refused = keep_promised(selection, scores, groups, items, rng)
    require_scale(selection, np.asarray(scores, dtype=np.float64))
    if selection.shown is not None and items is not None and len(kept):
        names, sizes = np.unique(np.asarray(items), return_counts=True)
        selection.shown.require_sizes(sizes, names)
    if refused.any():
        warn_user(refused_in_words(selection, int(refused.sum())), PromiseWarning)
    for doubt in kept_doubts(selection, count_kept(selection, kept, groups)):
        warn_user(doubt, AssumptionWarning)
    return kept


def keep_promised(
    selection: Selection,
    scores: ArrayLike,
    groups: ArrayLike | None = None,
    items: ArrayLike | None = None,
    rng: np.random.Generator | None = None,
) -> tuple[Booleans, Booleans]:
    """Which claims are kept, and which have no useful promise: all of them, or those of groups.

    Of the latter the safest is done: nothing is kept where larger thresholds are safer, and
    everything where smaller ones are.
    """
    if not isinstance(selection, Selection):
        raise TypeError(
            "selection must be a Selection returned by gcrc, crc, monotonized_crc or ltt, got "
            f"{selection!r}; for a threshold of your own use scores >= threshold"
        )
    if (groups is None) == bool(selection.groups) and np.size(scores):
        raise ValueError(
            "groups is required: this selection has one threshold per group "
            f"({listed_groups(list(selection.groups))})"
            if selection.groups
            else "groups was given, but this selection has one threshold for all claims: it was "
            "calibrated without groups"
        )
    if np.size(scores) == 0:  # an item without claims
        return np.zeros(0, dtype=np.bool_), np.zeros(0, dtype=np.bool_)
    checked = finite_scores("scores", scores)
    if groups is None:
        thresholds = _thresholds(selection, len(checked), items, rng)
        refused = np.full(len(checked), not selection.useful)
    else:
        labels = validate.labels("groups", groups, len(checked))
        distinct, group = np.unique(labels, return_inverse=True)
        names = group_names(distinct).tolist()
        thresholds = np.empty(len(checked))
        for k, name in enumerate(names):
            own = group == k
            named = None if items is None else np.asarray(items)[own]
            thresholds[own] = _thresholds(selection.for_group(name), int(own.sum()), named, rng)
        refused = np.isin(np.array(names), selection.refused_groups)[group]
    return np.where(refused, selection.safer == "smaller", checked >= thresholds), refused


def _thresholds(part: Selection, count: int, items: Any, rng: Any) -> Floats:
    """The threshold of each claim: the same for all, or drawn for each item."""
    if part.chain is None or not part.chain.spread:
        return np.full(count, part.threshold)
    if items is None or rng is None:
        raise ValueError("items and rng are required: this selection draws a threshold per item")
    names, item = np.unique(validate.labels("items", items, count), return_inverse=True)
    return part.chain.draw(1 - validate.generator("rng", rng).random(len(names)))[item]


def refused_in_words(selection: Selection, claims: int) -> str:
    """What is done with claims without a useful promise."""
    kept = "nothing" if selection.safer == "larger" else "everything"
    why = f"no useful promise ({why_not_useful(selection)})"
    if selection.groups:
        why = f"{listed_groups(selection.refused_groups)}: no useful promise"
    return f"{why}, so {kept} is kept of {counted(claims, 'claim')} here"


def why_not_useful(selection: Selection) -> str:
    """Why a selection without groups has no useful promise."""
    if not selection.exists:
        return f"no threshold passes at {asked(selection)}"
    if selection.keeps_nothing:
        return "only a threshold that keeps next to nothing of the calibration data passes"
    if selection.chain is not None:
        return "the safest threshold does not meet the condition of the promise"
    return (
        f"the selection promises {selection.promise:.4g} of a bound of {selection.bound:.4g}, "
        f"where {selection.alpha:.4g} was asked for"
    )


def require_scale(selection: Selection, scores: Floats, seen: tuple[int, int] = (0, 0)) -> int:
    """Raise for scores on another scale than those of the calibration; count those outside it.

    A single score tells that is further outside than the range is wide; of others, most. `seen` is
    how many scores were looked at before, and how many of them lie outside.
    """
    known = selection.kept
    if known is None or known.lowest is None or known.highest is None or not scores.size:
        return 0
    if known.total < MIN_SCORES_COMPARED or known.lowest == known.highest:
        return 0
    width = known.highest - known.lowest
    beyond = np.maximum(known.lowest - scores, scores - known.highest)
    outside = int((beyond > RANGE_MARGIN * width).sum())
    worst, total = int(np.argmax(beyond)), seen[0] + scores.size
    told = ""
    if beyond[worst] > width:
        told = f"scores[{seen[0] + worst}] is {scores[worst]:.6g}"
    elif total >= MIN_SCORES_COMPARED and outside + seen[1] > MOST_OUTSIDE * total:
        told = f"{outside + seen[1]:,} of {total:,} scores lie outside"
    if told:
        raise ValueError(
            f"nothing is filtered: {told}, and those of the calibration are {known.lowest:.4g} to "
            f"{known.highest:.4g}: are they on another scale (a percentage, a logit, a "
            "log-probability), or of another model? The promise is for scores that are made as in "
            "the calibration"
        )
    return outside


def count_kept(selection: Selection, kept: Booleans, groups: Any = None) -> dict[str, list[int]]:
    """How many claims there are and how many are kept, by group; by "" without groups."""
    if not selection.groups or not len(kept):
        return {"": [len(kept), int(kept.sum())]}
    found: dict[str, list[int]] = {}
    distinct, group = np.unique(validate.labels("groups", groups, len(kept)), return_inverse=True)
    for k, name in enumerate(group_names(distinct).tolist()):
        counts = found.setdefault(POOL_NAME if name in selection.pooled_groups else name, [0, 0])
        counts[0] += int((group == k).sum())
        counts[1] += int(kept[group == k].sum())
    return found


def kept_doubts(selection: Selection, counts: dict[str, list[int]]) -> list[str]:
    """Say where the share that is kept differs from that of the calibration by more than chance.

    The claims of an item may be kept or dropped together, so the variance of a share p among N
    claims is at most about s·p·(1 − p) / N, where s is the mean size of an item over claims.
    """
    doubts = []
    for name, (read, kept) in counts.items():
        part = selection.groups[name] if name else selection
        known, spread = part.kept, part.chain is not None and part.chain.spread
        if known is None or not part.useful or spread:
            continue
        size = known.squared_sizes / known.total
        if min(read, known.total) < max(MIN_CLAIMS_COMPARED, MIN_ITEMS_COMPARED * size):
            continue
        share = (kept + known.kept + 1) / (read + known.total + 2)
        error = np.sqrt(size * share * (1 - share) * (1 / read + 1 / known.total))
        if abs(kept / read - known.share) > UNLIKELY_STANDARD_ERRORS * error:
            doubts.append(
                f"{name + ': ' if name else ''}{kept / read:.1%} of {read:,} {known.unit} are kept "
                f"here, and {known.share:.1%} in the calibration, which is more than chance "
                "explains: are these scores of the same model, and are the items of the same kind? "
                "The promise is for such items only"
            )
    return doubts
