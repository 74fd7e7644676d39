"""What the methods share: one loss or several, one threshold or one per group, and its record."""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tether._core import validate
from tether._core.types import Floats, Integers
from tether._core.user_warnings import warn_user
from tether._core.warning_categories import AssumptionWarning
from tether.thresholds import checks
from tether.thresholds.claims import (
    Claims,
    ItemWeights,
    PerItem,
    ScoredLabels,
    group_names,
    in_item_order,
)
from tether.thresholds.losses import LOSS_WORDS, in_words
from tether.thresholds.rules import Promise, Rule, Stop
from tether.thresholds.selection import POOL_NAME, Selection, Stability, kept_together
from tether.thresholds.stability import safest_mean
from tether.thresholds.sweep import Sweep, as_matrix, prepare

logger = logging.getLogger("tether.thresholds")

MAX_CURVE_POINTS = 1001
MIN_ITEMS_FOR_STABILITY = 30
"""With fewer items than this, an estimate of the stability deserves a warning."""
LARGE_TERM = 0.05
"""A term of the promise that is more than this share of it deserves a warning."""


@dataclass(frozen=True)
class Request:
    """The user's arguments, besides the method: `level` is alpha or the promise."""

    losses: Any
    thresholds: Any
    level: Any
    bound: Any
    loss: Any
    weights: ItemWeights
    name: str | None = None


def select(
    rule: Rule, request: Request, groups: PerItem | None, minimum: int | None = None
) -> Selection:
    """Select among all items, or within each group; look whether the data make sense."""
    if np.ndim(request.thresholds) == 0 and request.thresholds is not None:
        raise ValueError(
            f"thresholds must be one-dimensional, got {request.thresholds!r}: alpha and promise "
            f"are passed by name, as in alpha={request.thresholds!r}"
        )
    if groups is None and minimum is not None:
        raise ValueError(f"minimum_group_size = {minimum!r} needs groups")
    if groups is None:
        found = _select(rule, request)
    else:
        found = _select_by_group(rule, request, groups, minimum)
    doubts, notes = checks.look_at(request.losses, groups is not None, rule.method)
    for doubt in doubts:
        warn_user(doubt, AssumptionWarning)
    found = replace(found, warnings=(*doubts, *found.warnings, *notes))
    passing = f"threshold {found.threshold:.6g}" if found.exists else "no threshold passes"
    logger.info(
        "%s on %d items: %s, %s %s",
        *(found.method, found.n_items, passing, rule.argument, request.level),
    )
    return found


def _select_by_group(
    rule: Rule, request: Request, groups: PerItem, minimum: int | None
) -> Selection:
    """One threshold per group, so that the promise holds within each and not only on average.

    A group of fewer than `minimum` items joins the pool of all small groups, which gets one
    threshold and whose promise is an average over them. By default a group is small when
    bound / (n + 1) > alpha: then no threshold could pass, whatever its losses.

    The threshold of the pool is chosen on the items of all groups of up to `minimum` items. With
    the next item of a small group its group has one item more, so among these items and the next
    one the groups of at most `minimum` items are the same ones whichever item comes last, and they
    are exchangeable. Those of the small groups alone are not: a group that is usually larger is
    small exactly where it has fewer items than its share. The proofs of the soft chain and of
    Learn then Test take independent items of one distribution instead, so these two have no pool.
    """
    labels = in_item_order("groups", groups, request.losses)
    request = replace(request, losses=_indexable(request.losses))
    parts = _one_per_loss(rule, request)  # raises for invalid arguments, before any group
    lengths = [_n_items(part.losses) for part in parts]
    if len(set(lengths)) > 1:
        raise ValueError(f"groups needs losses of the same items, got lengths {lengths}")
    labels = validate.labels("groups", labels, lengths[0])
    distinct, group_of_item = np.unique(labels, return_inverse=True)
    names = group_names(distinct)
    if POOL_NAME in names.tolist():
        raise ValueError(f"groups holds {POOL_NAME!r}, which is reserved: rename it")
    sizes = np.bincount(group_of_item, minlength=len(names))
    least = 1
    if rule.pools:
        bounds = [1.0 if part.bound is None else part.bound for part in parts]
        least = math.ceil(max(bounds) / min(part.level for part in parts) * (1 - 1e-12)) - 1
        least = least if minimum is None else validate.integer("minimum_group_size", minimum, 1)
    small = sizes < least
    members = {names[i].item(): np.flatnonzero(group_of_item == i) for i in np.flatnonzero(~small)}
    if small.any():
        members[POOL_NAME] = np.flatnonzero((sizes <= least)[group_of_item])
    by_group = {}
    for name, items in members.items():
        try:
            by_group[name] = _select(rule, _part(request, items))
        except ValueError as error:
            raise ValueError(f"in group {name!r}, items numbered from 0: {error}") from error
    return _combine_groups(by_group, tuple(names[small].tolist()), least)


def _combine_groups(
    by_group: dict[str, Selection], pooled: tuple[str, ...], least: int
) -> Selection:
    """One record over the groups; its own threshold is the safest of theirs.

    Its counts are sums over groups and pool, so items that are in both count twice.
    """
    parts = list(by_group.values())
    sign = 1 if parts[0].safer == "larger" else -1
    safest = max(parts, key=lambda part: (sign * part.threshold, not part.exists))
    statement = "within each group, as stated in its own selection"
    if pooled:
        statement += f"; on average over the pooled groups (fewer than {least} items)"
    return replace(
        safest,
        exists=all(part.exists for part in parts),
        risk=max(part.risk for part in parts),
        promise=max(part.promise for part in parts),
        stability_term=max(part.stability_term for part in parts),
        existence_term=max(part.existence_term for part in parts),
        statement=statement,
        n_items=sum(part.n_items for part in parts),
        effective_sample_size=sum(part.effective_sample_size for part in parts),
        n_candidates=sum(part.n_candidates for part in parts),
        monotone=all(part.monotone for part in parts),
        n_nonmonotone=sum(part.n_nonmonotone for part in parts),
        warnings=tuple(f"{n}: {text}" for n, part in by_group.items() for text in part.warnings),
        stability=None,
        chain=None,
        kept=kept_together(parts),
        groups=by_group,
        pooled_groups=pooled,
    )


def _indexable(losses: Any) -> Any:
    if isinstance(losses, Mapping):
        return {name: _indexable(value) for name, value in losses.items()}
    if isinstance(losses, Sweep):
        raise TypeError("groups needs losses whose items can be selected, got a Sweep")
    return losses if isinstance(losses, (Claims, ScoredLabels)) else as_matrix(losses)


def _n_items(losses: Any) -> int:
    return losses.n_items if isinstance(losses, (Claims, ScoredLabels)) else len(losses)


def _part(request: Request, items: Integers) -> Request:
    def pick(losses: Any) -> Any:
        if isinstance(losses, Mapping):
            return {name: pick(value) for name, value in losses.items()}
        return losses[items] if isinstance(losses, np.ndarray) else losses.take(items)

    return replace(request, losses=pick(request.losses), weights=request.weights.take(items))


def _select(rule: Rule, request: Request) -> Selection:
    """Sweep each loss, stop by the rule, and describe the safest of the thresholds."""
    parts = _one_per_loss(rule, request)
    sweeps = [_sweep(part) for part in parts]
    levels = [part.level for part in parts]
    for part, sweep in zip(parts, sweeps, strict=True):
        validate.number(rule.argument, part.level, above=0, below=sweep.bound)
        if sweep.shown is not None and part.level > sweep.shown.share:
            raise ValueError(
                f"{rule.argument} = {part.level:g} with FalseAmongShown({sweep.shown.share:g}, "
                f"...), whose mean says nothing above its share: pass {sweep.shown.share:g}"
            )
    if len({sweep.safer for sweep in sweeps}) > 1:
        directions = ", ".join(f"{sweep.loss}: {sweep.safer}" for sweep in sweeps)
        raise ValueError(
            f"these losses are safest at opposite ends ({directions}), so they cannot share a "
            "threshold"
        )
    stops = rule.stops(sweeps, levels)
    exists = min(stop.index for stop in stops) >= 0
    places = _common(sweeps, stops) if exists else [-1] * len(sweeps)
    measured = rule.measure(sweeps, levels) if exists else [None] * len(sweeps)
    found = [
        describe(rule, sweep, level, stop._replace(index=place), each)
        for sweep, level, stop, place, each in zip(
            sweeps, levels, stops, places, measured, strict=True
        )
    ]
    return found[0] if len(found) == 1 else _combine_losses(found, stops)


def _one_per_loss(rule: Rule, request: Request) -> list[Request]:
    """One request per loss: a mapping of names to losses, or several names of claim losses."""
    losses, loss = request.losses, request.loss
    if isinstance(losses, Mapping):
        if loss is not None or not losses:
            raise ValueError(
                f"losses is a mapping, which names its losses, one at least: got loss = {loss!r} "
                f"and the names {list(losses)}"
            )
        names: list[Any] = list(losses)
        inputs, kinds = list(losses.values()), [None] * len(names)
    elif isinstance(loss, (list, tuple)):
        if not loss or not all(isinstance(each, str) or callable(each) for each in loss):
            raise TypeError(f"loss must hold names or functions, one at least, got {loss!r}")
        names, kinds, inputs = list(loss), list(loss), [losses] * len(loss)
    else:
        names, kinds, inputs = [None], [loss], [losses]
    levels = _value_per_loss(rule.argument, request.level, names)
    bounds = _value_per_loss("bound", request.bound, names)
    for level, bound in zip(levels, bounds, strict=True):
        most = validate.number("bound", 1.0 if bound is None else bound, above=0, below=1e300)
        if not any(isinstance(each, Sweep) for each in inputs):
            validate.number(rule.argument, level, above=0, below=most)
    rows = zip(inputs, kinds, levels, bounds, names, strict=True)
    return [
        replace(request, losses=a, loss=b, level=c, bound=d, name=_name(e))
        for a, b, c, d, e in rows
    ]


def _name(name: Any) -> str | None:
    return None if name is None or callable(name) else str(name)


def _value_per_loss(name: str, value: Any, names: Sequence[Any]) -> list[Any]:
    """One value per loss: by name, in order, or the same for all."""
    if isinstance(value, Mapping):
        if set(value) != set(names):
            raise ValueError(f"{name} must have the keys {list(names)}, got {list(value)}")
        return [value[key] for key in names]
    if np.ndim(value) == 0:
        return [value] * len(names)
    if len(value) != len(names):
        raise ValueError(f"{name} must have one value per loss ({len(names)}), got {value!r}")
    return list(value)


def _sweep(part: Request) -> Sweep:
    swept = prepare(part.losses, part.thresholds, part.loss, part.bound, part.weights)
    if part.name is None:
        return swept
    if swept.kept is not None and part.name != swept.loss and part.name in LOSS_WORDS:
        raise ValueError(
            f"losses: {part.name!r} is the name of another loss than {swept.loss!r}, which this "
            "is: the promise would state the wrong one; choose another name"
        )
    return replace(swept, loss=part.name)


def _common(sweeps: Sequence[Sweep], stops: Sequence[Stop]) -> list[int]:
    """For each loss, its candidate at the safest of the thresholds."""
    chosen = [sweep.thresholds[stop.index] for sweep, stop in zip(sweeps, stops, strict=True)]
    if sweeps[0].safer == "larger":
        most = max(chosen)
        return [len(s.thresholds) - np.searchsorted(s.thresholds[::-1], most) - 1 for s in sweeps]
    return [int(np.searchsorted(each.thresholds, min(chosen))) for each in sweeps]


def _combine_losses(parts: list[Selection], stops: Sequence[Stop]) -> Selection:
    """Several losses, each described at the safest of their thresholds, in one record."""
    safest_of = max if parts[0].safer == "larger" else min
    threshold = safest_of(part.threshold for part in parts)
    parts = [replace(part, threshold=threshold) for part in parts]
    binding = max(parts, key=lambda part: part.risk / part.alpha)
    failed = [part.loss for part, stop in zip(parts, stops, strict=True) if stop.index < 0]
    warnings = [f"{part.loss}: {warning}" for part in parts for warning in part.warnings]
    if failed:
        warnings = [f"no threshold passes for: {', '.join(failed)}"]
    return replace(
        binding,
        statement="each loss separately: " + "; ".join(f"{p.loss}: {p.statement}" for p in parts),
        warnings=tuple(warnings),
        monotone=all(part.monotone for part in parts),
        n_nonmonotone=sum(part.n_nonmonotone for part in parts),
        by_loss=tuple(parts),
    )


def describe(
    rule: Rule, sweep: Sweep, level: float, stop: Stop, measured: Stability | None
) -> Selection:
    """The selection of the candidate with this index; −1 where none passes."""
    index, exists = max(stop.index, 0), stop.index >= 0
    kind = "confidence" if rule.method == "LTT" else rule.argument
    safest = None if kind == "confidence" else safest_mean(sweep)
    existence = 0.0
    if safest is not None and kind == "alpha":
        existence = safest.excess_where_passing(level)
    promise = Promise(sweep.bound, "none: no threshold passes")
    if exists:
        promise = rule.promise(sweep, level, measured, safest)
    swept = replace(sweep, sums=sweep.envelope) if rule.envelope else sweep
    threshold = float(sweep.thresholds[index])
    if not exists and sweep.exact and sweep.safer == "smaller":
        threshold = -np.inf  # safer than the lowest score seen, for scores to come
    curve = _curve(swept, index, conservative=kind == "alpha")
    named = promise.statement if sweep.kept is None else in_words(promise.statement, sweep.loss)
    found = Selection(
        method=rule.method,
        rule=kind,
        threshold=threshold,
        exists=exists,
        risk=float(swept.risks(conservative=kind == "alpha", where=index)),
        alpha=float(level),
        bound=sweep.bound,
        promise=promise.value,
        statement=named,
        loss=sweep.loss,
        safer=sweep.safer,
        n_items=sweep.n_items,
        effective_sample_size=sweep.effective_sample_size,
        n_candidates=len(sweep.thresholds),
        monotone=sweep.monotone,
        n_nonmonotone=sweep.n_nonmonotone,
        stability_term=promise.stability_term,
        existence_term=existence,
        safe_loss=math.nan if safest is None else safest.mean,
        safe_error=math.nan if safest is None else safest.standard_error,
        stability=None if measured is None or math.isnan(measured.epsilon) else measured,
        shown=sweep.shown,
        kept=None if sweep.kept is None else sweep.kept.at(index, threshold),
        curve_thresholds=curve[0],
        curve_risks=curve[1],
        curve_kept=curve[2],
        **stop.recorded,
    )
    return replace(found, warnings=(*rule.warnings(sweep), *_warnings(rule, sweep, found)))


def _warnings(rule: Rule, sweep: Sweep, found: Selection) -> list[str]:
    """What changes a decision."""
    if not found.exists:
        reason = rule.too_few(sweep, found.alpha)
        failing = f"the safest, {sweep.thresholds[0]:g}, already fails"
        return [f"no threshold passes: {reason or failing}"]
    listed = []
    if found.threshold == np.inf and found.safer == "larger":
        listed.append("only a threshold above all scores passes: nothing is kept")
    elif found.keeps_nothing:
        listed.append(f"the threshold keeps next to nothing: {found.kept}")
    if found.chain is not None and found.safe_loss + 2 * found.safe_error > found.chain.level:
        listed.append(
            f"the promise needs a safest threshold that costs at most {found.chain.level:.4g}, and "
            f"it costs {found.safe_loss:.4g} ± {found.safe_error:.2g}: begin with a safer one, or "
            "name a larger promise"
        )
    if found.chain is None and found.existence_term > LARGE_TERM * found.promise:
        listed.append(
            f"the safest threshold's own mean loss, {found.safe_loss:.4g} ± "
            f"{found.safe_error:.2g}, is close to the tolerated {found.alpha:g}: on other data "
            "nothing might pass"
        )
    if found.stability is not None and not sweep.monotone:
        if sweep.n_items < MIN_ITEMS_FOR_STABILITY:
            listed.append(
                f"the stability of the threshold is estimated from {sweep.n_items} items only, so "
                "the promise may be too small: use promise= or monotonized_crc, or more items"
            )
    return listed


def _curve(sweep: Sweep, index: int, *, conservative: bool) -> tuple[Floats, Floats, Floats]:
    """The curve in increasing order of thresholds, thinned evenly, with the chosen candidate."""
    count = len(sweep.thresholds)
    picked = np.linspace(0, count - 1, min(count, MAX_CURVE_POINTS)).astype(np.int64)
    picked[np.argmin(np.abs(picked - index))] = index
    kept = np.empty(0)
    if sweep.kept is not None and len(sweep.kept.scores):
        kept = sweep.kept.counts[picked] / len(sweep.kept.scores)
    columns = sweep.thresholds[picked], sweep.risks(conservative=conservative, where=picked), kept
    order = slice(None, None, -1) if sweep.safer == "larger" else slice(None)
    thresholds, risks, kept = (validate.frozen(column[order]) for column in columns)
    return thresholds, risks, kept
