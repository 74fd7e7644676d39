"""Filtering new claims by a calibrated threshold."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from tether._core import validate
from tether._core.arrays import Booleans, Floats, check_row_indexes
from tether._core.words import AssumptionWarning, PromiseWarning, counted, warn_user
from tether.thresholds.claims import finite_scores, rows_of_groups
from tether.thresholds.selection import Selection, asked, known_groups

MIN_SCORES_COMPARED = 20
"""Fewer scores than this are not compared with those of the calibration."""
RANGE_MARGIN, MOST_OUTSIDE = 0.05, 0.5
"""How far outside the range a score may be, as a share of it, and which share of them may be."""
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
    """Mark the claims to keep, with one boolean each: those with score ≥ threshold.

    The promise of the selection is for complete items: score and filter every claim of an item.
    Where it is not useful nothing is kept (with the loss "miss" everything), with a warning; with
    groups this is so in `selection.refused_groups`. Another warning says that the share that is
    kept differs from that of the calibration by more than chance explains.

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
        The name of the item that each claim belongs to, for a limit on the claims of an item, and
        where a threshold is drawn for each item.
    rng : numpy.random.Generator, optional
        The source of these draws.

    Raises
    ------
    TypeError, ValueError
        If an argument is missing or invalid, a group was not calibrated, scores are on another
        scale than those of the calibration, or an item has more claims than `FalseAmongShown` says.

    Examples
    --------
    >>> import tether
    >>> claims = tether.Claims([0.9, 0.8, 0.3] * 20, [1, 1, 0] * 20, range(0, 61, 3))
    >>> filter_claims(tether.gcrc(claims, alpha=0.1), [0.95, 0.85, 0.1])
    array([ True,  True, False])
    """
    kept = np.zeros(np.size(scores), dtype=np.bool_)
    for name, part, own in by_part(selection, scores, groups, items):
        values = np.asarray(scores, dtype=np.float64)[own]
        named = None if items is None else np.asarray(items)[own]
        require_scale(part, values)
        if part.shown is not None and named is not None:
            part.shown.require(*np.unique(named, return_counts=True)[::-1])
        kept[own] = keep(part, values, named, rng)
        if not part.useful:
            kept_of = "none" if part.safer == "larger" else "all"
            warn_user(
                f"{name}no useful promise ({why_not_useful(part)}), so {kept_of} of the "
                f"{counted(len(values), 'claim')} here are kept",
                PromiseWarning,
            )
        elif (doubt := kept_doubt(part, kept[own])) is not None:
            warn_user(f"{name}{doubt}", AssumptionWarning)
    return kept


def by_part(
    selection: Selection, scores: Any, groups: Any, items: Any = None
) -> list[tuple[str, Selection, Any]]:
    """The selections that apply: a name in front of messages, and which claims are theirs."""
    if not isinstance(selection, Selection):
        raise TypeError(f"selection must be a Selection, as gcrc returns it, got {selection!r}")
    if np.size(scores) == 0:  # an item without claims
        return []
    count = len(finite_scores("scores", scores))
    if isinstance(groups, (str, int, np.str_, np.integer)):  # that of all claims
        groups = np.full(count, groups)
    check_row_indexes({"scores": scores, "groups": groups, "items": items})
    if items is not None:
        validate.labels("items", items, count)
    if (groups is None) == bool(selection.groups):
        raise ValueError(
            f"groups must be those of the selection: {known_groups(selection)}; got {groups!r:.80}"
        )
    if groups is None:
        return [("", selection, slice(None))]
    parts = rows_of_groups(groups, count).items()
    return [(f"{name}: ", selection.for_group(name), own) for name, own in parts]


def keep(part: Selection, scores: Floats, items: Any = None, rng: Any = None) -> Booleans:
    """What one selection keeps: the safest where it has no useful promise."""
    if not part.useful:
        return np.full(len(scores), part.safer == "smaller")
    if part.chain is None or not part.chain.spread:
        return np.asarray(scores >= part.threshold)
    if items is None or rng is None:
        raise ValueError("items and rng are required: this selection draws a threshold per item")
    names, item = np.unique(items, return_inverse=True)
    drawn = part.chain.draw(1 - validate.generator("rng", rng).random(len(names)))
    return np.asarray(scores >= drawn[item])


def why_not_useful(selection: Selection) -> str:
    """Why a selection without groups has no useful promise."""
    if not selection.exists:
        return f"no threshold passes at {asked(selection)}"
    if selection.keeps_nothing:
        return "only a threshold that keeps next to nothing of the calibration data passes"
    if selection.chain is not None:
        return "the safest threshold does not meet the condition of the promise"
    if selection.promise >= selection.bound:
        return selection.statement
    return f"it states {selection.promise:.4g}, where {selection.alpha:.4g} was asked for"


def require_scale(part: Selection, scores: Floats) -> None:
    """Raise for scores on another scale than those of the calibration.

    A single score tells that is further outside than the range is wide; of others, most.
    """
    known = part.kept
    if known is None or known.total < MIN_SCORES_COMPARED or known.lowest == known.highest:
        return
    width = known.highest - known.lowest
    beyond = np.maximum(known.lowest - scores, scores - known.highest)
    outside, worst = int((beyond > RANGE_MARGIN * width).sum()), int(np.argmax(beyond))
    many = len(scores) >= MIN_SCORES_COMPARED and outside > MOST_OUTSIDE * len(scores)
    if beyond[worst] > width or many:
        raise ValueError(
            f"nothing is filtered: {outside:,} of {counted(len(scores), 'score')}, such as "
            f"{scores[worst]:.6g}, lie outside those of the calibration, {known.lowest:.4g} to "
            f"{known.highest:.4g}: are they on another scale, or of another model?"
        )


def kept_doubt(part: Selection, kept: Booleans) -> str | None:
    """Say that the share that is kept differs from that of the calibration by more than chance.

    The claims of an item may be kept or dropped together, so the variance of a share p among N
    claims is at most about s·p·(1 − p) / N, where s is the mean size of an item over claims.
    """
    known, read = part.kept, len(kept)
    if known is None or (part.chain is not None and part.chain.spread):
        return None
    size = known.squared_sizes / known.total
    if min(read, known.total) < max(MIN_CLAIMS_COMPARED, MIN_ITEMS_COMPARED * size):
        return None
    share = (kept.sum() + known.kept + 1) / (read + known.total + 2)
    error = np.sqrt(size * share * (1 - share) * (1 / read + 1 / known.total))
    if abs(kept.mean() - known.share) <= UNLIKELY_STANDARD_ERRORS * error:
        return None
    return (
        f"{kept.mean():.1%} of {read:,} {known.unit} are kept here, and {known.share:.1%} in the "
        "calibration, more than chance explains: are model and items of the same kind?"
    )
