"""One loss, one threshold: the record of the result, with its promise and warnings."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from tether._core import validate
from tether._core.counted import counted
from tether._core.safe_excess import NEAR_SHARE, SafeMean
from tether._core.types import Floats
from tether.risk.claim_losses import FALSE_AMONG_SHOWN
from tether.risk.kept_share import KeptCounts
from tether.risk.loss_gap import measurable
from tether.risk.loss_words import in_words
from tether.risk.promises import Promise
from tether.risk.risk_curve import Sweep
from tether.risk.rule import Rule
from tether.risk.selection import Selection
from tether.risk.selection_stability import Stability
from tether.risk.shown_room import missing_room, safest_room, scarce_room

MAX_CURVE_POINTS = 1001
MANY_EMPTIED = 0.2
"""The share of items with nothing left that deserves a warning."""
LARGE_TIE = 0.05
"""The share of claims with one score that deserves a word where the walk stops at it."""
TIE_PROMISE_SHARE = 0.5
"""How far below what is tolerated the promise must stay for this, as a share of it."""
MIN_ITEMS_FOR_STABILITY = 30
"""With fewer items than this, an estimate of the stability deserves a warning."""


def describe(
    rule: Rule,
    sweep: Sweep,
    alpha: float,
    index: int,
    *,
    target: float | None,
    stability: Stability | None,
) -> Selection:
    """The selection of the candidate with this index; −1 where none passes."""
    exists = index >= 0
    safest = rule.safest(sweep)
    existence = 0.0 if safest is None else safest.excess_where_passing(alpha)
    promise = Promise(sweep.bound, f"none: no threshold passes{_served_instead(safest)}")
    if exists:
        promise = rule.promise(sweep, alpha, stability, existence)
    if rule.envelope and sweep.envelope is not None:
        sweep = replace(sweep, sums=sweep.envelope)
    at = slice(max(index, 0), max(index, 0) + 1)
    threshold = float(sweep.thresholds[index]) if exists else _safest_threshold(sweep)
    counts = sweep.kept_counts
    thresholds, risks, kept_shares = _curve(sweep, rule.conservative, index)
    return Selection(
        method=rule.method,
        threshold=threshold,
        exists=exists,
        risk=float(sweep.risks(conservative=rule.conservative, where=at)[0]),
        alpha=alpha,
        bound=sweep.bound,
        promise=promise.value,
        statement=promise.statement if counts is None else in_words(promise.statement, sweep.loss),
        loss=sweep.loss,
        safer=sweep.safer,
        n_items=sweep.n_items,
        effective_sample_size=sweep.effective_sample_size,
        n_candidates=len(sweep.thresholds),
        monotone=sweep.monotone,
        n_nonmonotone=sweep.n_nonmonotone,
        nonmonotone_items=sweep.nonmonotone_items,
        warnings=(
            *rule.warnings(sweep),
            *_outcome_warnings(rule, sweep, alpha, index, target),
            *_emptied_warning(sweep, index, threshold),
            *_tie_warning(rule, sweep, index, promise.value, alpha if target is None else target),
            *_near_warning(sweep, safest, alpha if target is None else target, exists),
            *_few_items_warning(sweep, stability),
            *_unused_lipschitz(rule, sweep, exists, stability),
        ),
        stability_detail=_of_threshold(stability),
        settings={**rule.settings, **sweep.loss_settings},
        curve_thresholds=thresholds,
        curve_risks=risks,
        curve_kept=kept_shares,
        kept=None if counts is None else counts.at(max(index, 0), threshold),
        target=target,
        stability_term=promise.stability_term,
        existence_term=existence,
        safe_loss=math.nan if safest is None else safest.mean,
        safe_error=math.nan if safest is None else safest.standard_error,
    )


def _of_threshold(stability: Stability | None) -> Stability | None:
    """The stability, where the moves of the threshold were measured and not the gap alone."""
    return None if stability is None or math.isnan(stability.epsilon) else stability


def _safest_threshold(sweep: Sweep) -> float:
    if sweep.exact and sweep.safer == "smaller":
        return -np.inf  # safer than the lowest score seen, for scores to come
    return float(sweep.thresholds[0])


def _served_instead(safest: SafeMean | None) -> str:
    if safest is None:
        return ""
    return f"; the mean loss of the safest is {safest.mean:.4g} ± {safest.standard_error:.2g}"


def _outcome_warnings(
    rule: Rule, sweep: Sweep, alpha: float, index: int, target: float | None
) -> tuple[str, ...]:
    """A warning where no threshold passes, or only one that keeps nothing."""
    if index >= 0:
        if sweep.thresholds[index] == np.inf and sweep.safer == "larger":
            return ("only a threshold above all scores passes: nothing is kept",)
        return ()
    among = sweep.among_selected
    total = sweep.total_weight if isinstance(sweep.total_weight, float) else sweep.total_weight[0]
    minimum_risk = sweep.test_weight * sweep.bound / (float(total) + sweep.test_weight)
    if rule.conservative and minimum_risk > alpha:
        if among:
            return (_too_few_selected(int(total)),)
        return (
            f"no threshold passes: with {counted(sweep.n_items, 'item')} the conservative risk "
            f"is at least {minimum_risk:.4g} even with no loss at all, above "
            f"{'alpha' if target is None else 'the promise'} {alpha:g}",
        )
    if reason := rule.too_few(sweep, alpha):
        return (_too_few_selected(int(total)) if among else f"no threshold passes: {reason}",)
    if target is not None:
        why = _unmeasured(rule, sweep) or f": {_why(rule, sweep)}"
        return (f"no threshold has a stated promise of at most {target:g}{why}",)
    return (f"no threshold passes: the safest, {sweep.thresholds[0]:g}, already fails",)


def _unmeasured(rule: Rule, sweep: Sweep) -> str:
    """Why gcrc states no promise at any threshold: the stability of its threshold is not known."""
    if sweep.monotone or rule.levels is None or rule.envelope or rule.boldest:
        return ""
    if rule.reads_items and measurable(sweep):
        return ""
    reason = f"for {_unmeasured_items(sweep)}" if rule.reads_items else "as you asked"
    other = "" if sweep.loss == FALSE_AMONG_SHOWN else "; monotonized_crc needs none"
    return (
        f": the losses are not monotone, and the stability of the threshold is not measured "
        f"{reason}{other}"
    )


def _unmeasured_items(sweep: Sweep) -> str:
    """What it is for which no stability is measured."""
    if sweep.weighted:
        return "weighted items"
    if sweep.among_selected:
        return "a rate among the selected"
    return "a stream" if sweep.read_losses is None else "several losses"


def _why(rule: Rule, sweep: Sweep) -> str:
    """What stands in the way of the safest threshold, at the smallest level that it passes at."""
    if rule.levels is None:
        needed = "more items are needed"
        if sweep.loss == FALSE_AMONG_SHOWN:
            needed = "it is too coarse for this loss, all of whose means are near the share"
        return f"the test of {rule.method} does not establish it for the safest one; {needed}"
    level = float(rule.levels(sweep)[0])
    safest = rule.safest(sweep)
    existence = 0.0 if safest is None else safest.excess_where_passing(level)
    stability = rule.stability([sweep], [level])[0]
    added = 0.0 if stability is None or sweep.monotone else stability.term
    if (room := safest_room(sweep)) is not None and not rule.envelope:
        return missing_room(room, added, existence)
    terms = (
        f"the safest one, {sweep.thresholds[0]:g}, has the conservative risk {level:.4g}, to which "
        f"{existence:.2g} is added for data on which nothing passes"
    )
    return f"{terms} and {added:.2g} for the stability of the threshold"


def _too_few_selected(count: int) -> str:
    return (
        f"no threshold passes: too few items are selected at the safest threshold, {count:,}, to "
        "establish a rate among them; pass thresholds that start where more are selected"
    )


def _emptied_warning(sweep: Sweep, index: int, threshold: float) -> tuple[str, ...]:
    """A warning where many items have nothing left, which count as harmless."""
    if sweep.kept_counts is None or index < 0 or threshold == np.inf:
        return ()
    if sweep.loss == FALSE_AMONG_SHOWN:  # which is about what is shown
        return ()
    kept = sweep.kept_counts.at(index, threshold)
    if kept.unit != "claims" or kept.emptied <= MANY_EMPTIED * kept.items:
        return ()
    return (
        f"nothing is left of {kept.emptied:,} of {counted(kept.items, 'item')} "
        f"({kept.emptied / kept.items:.0%}), and an item that shows nothing has no false claim: "
        "the promise is about all items, not about those that show something",
    )


def _tie_warning(
    rule: Rule, sweep: Sweep, index: int, promise: float, tolerated: float
) -> tuple[str, ...]:
    """A warning where a score that many claims share stops the walk far below what is tolerated."""
    counts, following = sweep.kept_counts, index + 1
    if not isinstance(counts, KeptCounts) or not sweep.exact or sweep.safer != "larger":
        return ()  # only then is every candidate a score, and the next one the next lower score
    if index < 0 or following >= len(sweep.thresholds):
        return ()
    here, then = counts.shares(np.array([index, following]))
    if then - here < LARGE_TIE or promise > TIE_PROMISE_SHARE * tolerated:
        return ()
    risk = sweep.risks(conservative=rule.conservative, where=slice(following, following + 1))[0]
    return (
        f"the next lower score, {sweep.thresholds[following]:.6g}, is shared by {then - here:.1%} "
        f"of the {counts.unit}: with them the risk would be {risk:.4g}, so the threshold stays "
        "above; scores with fewer ties can keep more. The promise is a mean over all data, also "
        "those on which the threshold falls on the other side of this tie",
    )


def _near_warning(
    sweep: Sweep, safest: SafeMean | None, tolerated: float, exists: bool
) -> tuple[str, ...]:
    """A warning where the safest threshold itself is hardly better than what is tolerated.

    A loss that is `share` where nothing is shown stays near it, and only errors count for it.
    """
    share = 1.0 if sweep.loss == FALSE_AMONG_SHOWN else NEAR_SHARE
    if safest is None or not exists or not safest.near(tolerated, share):
        return ()
    if (room := safest_room(sweep)) is not None:
        return (scarce_room(room, safest),)
    then = "the safest threshold is then served"
    if sweep.kept_counts is not None:  # as `filter_claims` does
        then = f"{'nothing' if sweep.safer == 'larger' else 'everything'} is then kept"
    return (
        f"the safest threshold's own mean loss, {safest.mean:.4g} ± {safest.standard_error:.2g}, "
        f"is close to the tolerated {tolerated:g}: on other data nothing might pass, and {then}",
    )


def _few_items_warning(sweep: Sweep, stability: Stability | None) -> tuple[str, ...]:
    """A warning where the stability is estimated from too few items to have seen much."""
    if stability is None or sweep.monotone or sweep.n_items >= MIN_ITEMS_FOR_STABILITY:
        return ()
    return (
        f"the stability of the threshold is estimated from {counted(sweep.n_items, 'item')} only: "
        "the promise may be too small; use monotonized_crc, or more items",
    )


def _unused_lipschitz(
    rule: Rule, sweep: Sweep, exists: bool, stability: Stability | None
) -> tuple[str, ...]:
    """A warning for a Lipschitz constant without a stability to go with it."""
    used = stability is not None and stability.lipschitz is not None
    if rule.lipschitz is None or used or not exists:
        return ()
    reason = _unmeasured_items(sweep)
    return (f"lipschitz = {rule.lipschitz:g} is not used: no stability is measured for {reason}",)


def _curve(sweep: Sweep, conservative: bool, index: int) -> tuple[Floats, Floats, Floats]:
    """The curve in increasing order of thresholds, thinned evenly, with the chosen candidate."""
    count = len(sweep.thresholds)
    if sweep.ranks is None:
        picked = np.linspace(0, count - 1, min(count, MAX_CURVE_POINTS)).astype(np.int64)
    else:  # evenly by claims, of which some candidates stand for many
        places = np.linspace(0, int(sweep.ranks[-1]), MAX_CURVE_POINTS)
        picked = np.unique(np.searchsorted(sweep.ranks, places))
    picked[np.argmin(np.abs(picked - max(index, 0)))] = max(index, 0)
    columns = (
        sweep.thresholds[picked],
        sweep.risks(conservative=conservative, where=picked),
        np.empty(0) if sweep.kept_counts is None else sweep.kept_counts.shares(picked),
    )
    order = slice(None, None, -1) if sweep.safer == "larger" else slice(None)
    thresholds, risks, kept_shares = (validate.frozen(column[order]) for column in columns)
    return thresholds, risks, kept_shares
