"""What the methods share: one loss or several, one threshold or one per group, and its record."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from tether._core import validate
from tether._core.arrays import Floats
from tether._core.words import AssumptionWarning, counted, warn_user
from tether.thresholds import stability
from tether.thresholds.claims import ItemWeights, PerItem, Scored, in_item_order, rows_of_groups
from tether.thresholds.losses import LOSS_WORDS
from tether.thresholds.rules import ON_AVERAGE, Promise, Rule, Stop
from tether.thresholds.selection import KeptShare, Selection
from tether.thresholds.sweep import Sweep, prepare

logger = logging.getLogger("tether.thresholds")

MAX_CURVE_POINTS = 1001
SHARED = (
    *("bound", "loss", "safer", "shown", "n_items", "monotone", "n_nonmonotone"),
    "effective_sample_size",
)
"""What a selection has of its sweep."""
MIN_ITEMS_FOR_STABILITY = 30
"""With fewer items than this, an estimate of the stability deserves a warning."""
LARGE_TERM = 0.05
"""A term of the promise that is more than this share of it deserves a warning."""
MIN_COMPARED = 30
"""So many claims of each label, and items, are compared at least."""
INVERTED_STANDARD_ERRORS, INVERTED_AREA = 5.0, 0.45
"""How far below one half the area must be, in standard errors, and how small at most."""
MIN_LABELS_OF_ONE_KIND = 100
"""Fewer labels than this may well be all the same."""
INVERTED, ONE_LABEL = "are labels or scores inverted?", "are these the labels?"


class Part(NamedTuple):
    """One loss: what it is computed from, its kind, level (alpha or promise), bound and name."""

    losses: Any
    loss: Any
    level: float
    bound: float | None
    name: str | None


def select(
    rule: Rule,
    losses: Any,
    thresholds: Any,
    level: Any,
    bound: Any,
    loss: Any,
    groups: PerItem | None,
    weights: PerItem | None = None,
    test_weight: float | None = None,
) -> Selection:
    """Select among all items, or within each group; look whether the data make sense."""
    if np.ndim(thresholds) == 0 and thresholds is not None:
        raise ValueError(f"thresholds must be an array, got {thresholds!r}: pass alpha by its name")
    shared = ItemWeights.of(in_item_order("weights", weights, losses), test_weight)
    parts = list(_one_per_loss(rule, losses, loss, level, bound))
    if groups is None:
        found = _select(rule, parts, thresholds, shared)
    else:
        labels = in_item_order("groups", groups, losses)
        found = _select_by_group(rule, parts, thresholds, shared, labels)
    doubts = look_at(losses, grouped=groups is not None)
    for doubt in doubts:
        warn_user(doubt, AssumptionWarning)
    found = replace(found, warnings=(*doubts, *found.warnings))
    passing = f"threshold {found.threshold:.6g}" if found.exists else "no threshold passes"
    logger.info("%s on %d items: %s, %s", found.method, found.n_items, passing, level)
    return found


def _select_by_group(
    rule: Rule, parts: list[Part], thresholds: Any, weights: ItemWeights, groups: Any
) -> Selection:
    """One threshold per group, so that the promise holds within each and not only on average."""
    if any(isinstance(part.losses, Sweep) for part in parts):
        raise TypeError("groups needs losses whose items can be selected, got a Sweep")
    given = [p.losses if isinstance(p.losses, Scored) else np.asarray(p.losses) for p in parts]
    counts = {each.n_items if isinstance(each, Scored) else len(each) for each in given}
    if len(counts) > 1:
        raise ValueError(f"groups needs losses of the same items, got {counts} of them")
    by_group = {}
    for name, own in rows_of_groups(groups, counts.pop()).items():
        taken = [each.take(own) if isinstance(each, Scored) else each[own] for each in given]
        mine = [part._replace(losses=each) for part, each in zip(parts, taken, strict=True)]
        try:
            by_group[name] = _select(rule, mine, thresholds, weights.take(own))
        except ValueError as error:
            raise ValueError(f"in group {name!r}, items numbered from 0: {error}") from error
    return _combine_groups(by_group)


def _combine_groups(by_group: dict[str, Selection]) -> Selection:
    """One record over the groups; its own threshold is the safest of theirs."""
    parts = list(by_group.values())
    sign = 1 if parts[0].safer == "larger" else -1
    safest = max(parts, key=lambda part: (sign * part.threshold, not part.exists))
    sure = safest.confidence
    condition = ON_AVERAGE if sure is None else f"with probability at least {sure:g} for each,"
    largest = ("risk", "promise", "stability_term", "existence_term")
    added = ("n_items", "effective_sample_size", "n_candidates", "n_nonmonotone")
    return replace(
        safest,
        exists=all(part.exists for part in parts),
        statement=f"within each group, {condition} as stated in its own selection",
        monotone=all(part.monotone for part in parts),
        warnings=tuple(f"{n}: {text}" for n, part in by_group.items() for text in part.warnings),
        chain=None,
        kept=None,
        groups=by_group,
        **{name: max(getattr(part, name) for part in parts) for name in largest},
        **{name: sum(getattr(part, name) for part in parts) for name in added},
    )


def _select(rule: Rule, parts: list[Part], thresholds: Any, weights: ItemWeights) -> Selection:
    """Sweep each loss, stop by the rule, and describe the safest of the thresholds."""
    sweeps = [_sweep(rule, part, thresholds, weights) for part in parts]
    levels = [part.level for part in parts]
    if len({sweep.safer for sweep in sweeps}) > 1:
        directions = ", ".join(f"{sweep.loss}: {sweep.safer}" for sweep in sweeps)
        raise ValueError(f"losses must not be safest at opposite ends, got {directions}")
    stops = rule.stops(sweeps, levels)
    exists = min(stop.place for stop in stops) >= 0
    places = _common(sweeps, stops) if exists else [-1] * len(sweeps)
    measured: list[float | None] = [None] * len(sweeps)
    if exists and rule.method == "gCRC":
        measured = stability.measure(sweeps, levels, rule.lipschitz)
    found = [
        _describe(rule, sweep, level, stop._replace(place=place), each)
        for sweep, level, stop, place, each in zip(
            sweeps, levels, stops, places, measured, strict=True
        )
    ]
    return found[0] if len(found) == 1 else _combine_losses(found, stops)


def _one_per_loss(rule: Rule, losses: Any, loss: Any, level: Any, bound: Any) -> Iterator[Part]:
    """The losses: several are a mapping of names to losses, or several names of claim losses."""
    names: list[Any] = [None]
    inputs, kinds = [losses], [loss]
    if isinstance(losses, Mapping):
        if loss is not None or not losses:
            names = list(losses)
            raise ValueError(f"losses is a mapping of {names}, so loss must be None, got {loss!r}")
        names, inputs, kinds = list(losses), list(losses.values()), [None] * len(losses)
    elif isinstance(loss, (list, tuple)):
        if not loss or not all(isinstance(each, str) or callable(each) for each in loss):
            raise TypeError(f"loss must hold names or functions, one at least, got {loss!r}")
        names, inputs, kinds = list(loss), [losses] * len(loss), list(loss)
    asked = "promise" if rule.kind == "promise" else "alpha"
    levels = _value_per_loss(asked, level, names)
    bounds = _value_per_loss("bound", bound, names)
    for own, kind, each, most, name in zip(inputs, kinds, levels, bounds, names, strict=True):
        largest = own.bound if isinstance(own, Sweep) else 1.0 if most is None else most
        validate.number("bound", largest, above=0, below=1e300)
        each = validate.number(asked, each, above=0, below=largest)
        yield Part(own, kind, each, most, None if name is None or callable(name) else str(name))


def _value_per_loss(name: str, value: Any, names: Sequence[Any]) -> list[Any]:
    """One value per loss: by name, in order, or the same for all."""
    if np.ndim(value) == 0 and not isinstance(value, Mapping):
        return [value] * len(names)
    if len(value) != len(names) or (isinstance(value, Mapping) and set(value) != set(names)):
        raise ValueError(f"{name} must have one value per loss, {list(names)}, got {value!r}")
    return [value[key] for key in names] if isinstance(value, Mapping) else list(value)


def _sweep(rule: Rule, part: Part, thresholds: Any, weights: ItemWeights) -> Sweep:
    swept = prepare(part.losses, thresholds, part.loss, part.bound, weights)
    if swept.shown is not None and part.level > swept.shown.share:
        share = f"share of FalseAmongShown, {swept.shown.share:g}"
        raise ValueError(f"{rule.kind} = {part.level:g} must be at most the {share}")
    if part.name is None:
        return swept
    if swept.scored is not None and part.name != swept.loss and part.name in LOSS_WORDS:
        raise ValueError(f"losses: {part.name!r} is the name of another loss than {swept.loss!r}")
    return replace(swept, loss=part.name)


def _common(sweeps: Sequence[Sweep], stops: Sequence[Stop]) -> list[int]:
    """For each loss, its candidate at the safest of the thresholds."""
    chosen = [sweep.thresholds[stop.place] for sweep, stop in zip(sweeps, stops, strict=True)]
    if sweeps[0].safer == "larger":
        most = max(chosen)
        return [int(np.searchsorted(-each.thresholds, -most, side="right")) - 1 for each in sweeps]
    return [int(np.searchsorted(each.thresholds, min(chosen))) for each in sweeps]


def _combine_losses(parts: list[Selection], stops: Sequence[Stop]) -> Selection:
    """Several losses, each described at the safest of their thresholds, in one record."""
    safest_of = max if parts[0].safer == "larger" else min
    threshold = safest_of(part.threshold for part in parts)
    parts = [replace(part, threshold=threshold) for part in parts]
    failed = [part.loss for part, stop in zip(parts, stops, strict=True) if stop.place < 0]
    warnings = [f"{part.loss}: {warning}" for part in parts for warning in part.warnings]
    if failed:
        warnings = [f"no threshold passes for: {', '.join(failed)}"]
    return replace(
        max(parts, key=lambda part: part.risk / part.alpha),
        statement="each loss separately: " + "; ".join(f"{p.loss}: {p.statement}" for p in parts),
        warnings=tuple(warnings),
        monotone=all(part.monotone for part in parts),
        n_nonmonotone=sum(part.n_nonmonotone for part in parts),
        by_loss=tuple(parts),
    )


def _describe(
    rule: Rule, sweep: Sweep, level: float, stop: Stop, measured: float | None
) -> Selection:
    """The selection of one candidate; a place of −1 says that none passes."""
    place, exists = max(stop.place, 0), stop.place >= 0
    safest = None if rule.kind == "confidence" else stability.safest_mean(sweep)
    promise = Promise(sweep.bound, "none: no threshold passes")
    if exists:
        promise = rule.promise(sweep, level, measured, safest)
    words = "loss" if sweep.scored is None else LOSS_WORDS.get(sweep.loss, "loss")
    statement = promise.statement.replace("expected loss", f"expected {words}", 1)
    threshold = float(sweep.thresholds[place])
    if not exists and sweep.exact and sweep.safer == "smaller":
        threshold = -np.inf  # safer than the lowest score seen, for scores to come
    at_alpha = rule.kind == "alpha"
    risks = sweep.risks(conservative=at_alpha, envelope=rule.envelope)
    found = Selection(
        method=rule.method,
        rule=rule.kind,
        threshold=threshold,
        exists=exists,
        risk=float(risks[place]),
        alpha=level,
        promise=promise.value,
        statement=statement,
        n_candidates=len(sweep.thresholds),
        stability_term=promise.stability_term,
        existence_term=safest.excess_where_passing(level) if safest and at_alpha else 0.0,
        safe_loss=math.nan if safest is None else safest.mean,
        safe_error=math.nan if safest is None else safest.standard_error,
        kept=None if sweep.scored is None else _kept(sweep.scored, threshold),
        **_curve(sweep, risks, place),
        **{name: getattr(sweep, name) for name in SHARED},
        **stop.recorded,
    )
    return replace(found, warnings=tuple(_warnings(sweep, found, measured is not None)))


def _kept(scored: Scored, threshold: float) -> KeptShare:
    """What a threshold keeps of the claims, or of items with one score each."""
    scores, sizes = scored.scores, np.diff(scored.offsets)
    if not len(scores):
        return KeptShare(scored.unit, 0, 0, 0, 0, 0)
    highest = np.maximum.reduceat(scores, scored.offsets[:-1][sizes > 0])
    kept, emptied = int((scores >= threshold).sum()), int((highest < threshold).sum())
    squares, ends = int(np.square(sizes).sum()), (float(scores.min()), float(scores.max()))
    return KeptShare(scored.unit, len(scores), kept, len(highest), emptied, squares, *ends)


def _warnings(sweep: Sweep, found: Selection, estimated: bool) -> list[str]:
    """What changes a decision."""
    if not found.exists:
        mean, count = float(sweep.risks(conservative=False)[0]), counted(found.n_items, "item")
        told = f"the safest, {sweep.thresholds[0]:g}, has a mean loss of {mean:.4g} on {count}"
        lacking, least = "" if mean > found.alpha else ", too few", found.bound / found.alpha
        if found.rule == "alpha" and found.n_items + 1 < least:
            lacking = f", too few: {math.ceil(least) - 1:,} are needed"
        return [f"no threshold passes: {told}{lacking}"]
    listed = []
    if found.keeps_nothing:
        listed.append(f"the threshold keeps next to nothing: {found.kept}")
    safe = f"{found.safe_loss:.4g} ± {found.safe_error:.2g}"
    if found.chain is not None and found.safe_loss + 2 * found.safe_error > found.chain.level:
        listed.append(
            f"the promise needs a safest threshold that costs at most {found.chain.level:.4g}, and "
            f"it costs {safe}: begin with a safer one, or name a larger promise"
        )
    elif found.chain is None and found.existence_term > LARGE_TERM * found.promise:
        listed.append(
            f"the safest threshold's own mean loss, {safe}, is close to the tolerated "
            f"{found.alpha:g}: on other data nothing might pass"
        )
    few = found.n_items < MIN_ITEMS_FOR_STABILITY
    if few and estimated and not found.monotone:
        listed.append(
            f"the stability of the threshold is estimated from {found.n_items} items only, so the "
            "promise may be too small: use promise= or monotonized_crc, or more items"
        )
    return listed


def _curve(sweep: Sweep, risks: Floats, place: int) -> dict[str, Any]:
    """The curve in increasing order of thresholds, thinned evenly, with the chosen candidate."""
    count = len(sweep.thresholds)
    picked = np.linspace(0, count - 1, min(count, MAX_CURVE_POINTS)).astype(np.int64)
    picked[np.argmin(np.abs(picked - place))] = place
    kept = np.empty(0)
    if sweep.scored is not None and len(sweep.scored.scores):
        scores = np.sort(sweep.scored.scores)
        kept = 1 - np.searchsorted(scores, sweep.thresholds[picked]) / len(scores)
    order = slice(None, None, -1) if sweep.safer == "larger" else slice(None)
    columns = {"thresholds": sweep.thresholds[picked], "risks": risks[picked], "kept": kept}
    return {f"curve_{name}": validate.frozen(each[order]) for name, each in columns.items()}


# ---- whether scores and labels make sense ------------------------------------------------------


def look_at(losses: Any, grouped: bool) -> list[str]:
    """What looks wrong with claims or labels."""
    doubts: list[str] = []
    for each in losses.values() if isinstance(losses, Mapping) else [losses]:
        if not isinstance(each, Scored):
            continue
        labels, ones = each.supported, int(each.supported.sum())
        if len(labels) >= MIN_LABELS_OF_ONE_KIND and ones in (0, len(labels)):
            doubts.append(
                f"{ONE_LABEL} All {len(labels):,} are {'1, true' if ones else '0, false'}, as "
                "where a column of words was compared with a word that it does not hold"
            )
        if min(ones, len(labels) - ones, each.n_items) >= MIN_COMPARED:
            if (each.scores == labels).all():
                doubts.append("the scores are the labels: they must be known before the labels")
            area, error = _area(each)
            if area <= INVERTED_AREA and area + INVERTED_STANDARD_ERRORS * error < 0.5:
                doubts.append(
                    f"{INVERTED} What is labelled 1, supported or positive, scores lower than what "
                    f"is labelled 0 (area under the curve {area:.3f} ± {error:.2g})"
                )
        if each.items is not None and MIN_COMPARED <= len(labels) == each.n_items:
            doubts.append(
                f"each of the {each.n_items:,} items has exactly one claim: if items name claims "
                "and not their answers, the promise takes the claims of an answer for independent"
            )
        if each._groups is not None and not grouped:
            doubts.append(
                "these claims have groups, but the promise of one threshold is on average over "
                "them: pass groups=claims.groups, or build the claims without groups"
            )
    return list(dict.fromkeys(doubts))


def _area(scored: Scored) -> tuple[float, float]:
    """The area under the ROC curve, ties counted half, and its standard error over items.

    It is the probability that a supported claim scores higher than one that is not. The error comes
    from the influence function of the area, with the claims of an item as one cluster.
    """
    labels, rank = scored.supported, np.unique(scored.scores, return_inverse=True)[1]
    ones, zeros = (np.bincount(rank[each], minlength=rank.max() + 1) for each in (labels, ~labels))
    # Of each claim, the share of those with the other label that it scores right against.
    below_ones, below_zeros = ((np.cumsum(n) - n / 2) / n.sum() for n in (ones, zeros))
    share = np.where(labels, below_zeros[rank], 1 - below_ones[rank])
    area = float(share[labels].mean())
    influence = (share - area) / np.where(labels, ones.sum(), zeros.sum())
    return area, float(np.sqrt(np.square(np.bincount(scored.owner, influence)).sum()))
