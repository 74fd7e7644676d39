"""What the four methods share: one loss or several, all items or groups of them, one record."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from tether._core import validate
from tether.risk.item_weights import ItemWeights
from tether.risk.risk_curve import NAMED, Sweep
from tether.risk.selection import Selection, Stability
from tether.risk.sweep_losses import prepare

CURVE_POINTS = 1001


@dataclass(frozen=True)
class Rule:
    """One method: which sums it reads, where it stops, what it promises.

    `stop` gives, for each loss, the index of the chosen candidate (−1: none).
    """

    method: str
    stop: Callable[[Sequence[Sweep], Sequence[float]], list[int]]
    promise: Callable[[Sweep, float, Stability | None], str]
    caution: Callable[[Sweep], tuple[str, ...]] = lambda sweep: ()
    stability: Callable[[Sweep, float, int], Stability | None] = lambda sweep, alpha, index: None
    lipschitz: float | None = None
    envelope: bool = False
    conservative: bool = True
    too_few: Callable[[Sweep, float], str | None] = lambda sweep, alpha: None
    settings: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Request:
    """What the user asked for, besides the method."""

    losses: Any
    thresholds: Any
    alpha: Any
    bound: Any
    loss: Any
    weights: ItemWeights
    name: str | None = None
    numbers: Any = None  # of the items, where these are some of many


def select(rule: Rule, request: Request) -> Selection:
    """Sweep each loss, stop by the rule, take the safest of the thresholds, and say so."""
    parts = separate(request)
    sweeps = [_sweep(rule, part) for part in parts]
    alphas = [
        validate.number(_named("alpha", parts, i), parts[i].alpha, above=0, below=sweep.bound)
        for i, sweep in enumerate(sweeps)
    ]
    _same_direction(sweeps)
    for sweep in sweeps:
        if not np.isfinite(sweep.bound * (sweep.items + 1)):
            raise ValueError(
                f"bound = {sweep.bound:g} is so large that sums of losses overflow; rescale "
                "losses, alpha and bound"
            )
    stops = rule.stop(sweeps, alphas)
    if len(sweeps) == 1:
        return _describe(rule, sweeps[0], alphas[0], stops[0])
    return _combine(rule, sweeps, alphas, stops)


def _sweep(rule: Rule, part: Request) -> Sweep:
    found = prepare(
        part.losses, part.thresholds, part.loss, part.bound, part.weights, envelope=rule.envelope
    )
    if part.numbers is not None:
        found = replace(found, faulty=tuple(int(part.numbers[i]) for i in found.faulty))
    return found if part.name is None else replace(found, loss=part.name)


def _describe(rule: Rule, sweep: Sweep, alpha: float, index: int, alone: bool = True) -> Selection:
    exists = index >= 0
    found = rule.stability(sweep, alpha, index) if alone and exists else None
    if rule.envelope and sweep.envelope is not None:
        sweep = replace(sweep, sums=sweep.envelope)
    at = slice(max(index, 0), max(index, 0) + 1)
    thresholds, risks = _curve(sweep, rule.conservative, index)
    safest = float(sweep.thresholds[0])
    if sweep.exact and sweep.safer == "smaller":
        safest = -np.inf  # safer than the lowest score seen, for scores to come
    return Selection(
        method=rule.method,
        threshold=float(sweep.thresholds[index]) if exists else safest,
        exists=exists,
        risk=float(sweep.risks(conservative=rule.conservative, where=at)[0]),
        alpha=alpha,
        bound=sweep.bound,
        loss=sweep.loss,
        safer=sweep.safer,
        items=sweep.items,
        effective_sample_size=sweep.effective_sample_size,
        candidates=len(sweep.thresholds),
        monotone=sweep.monotone,
        faults=sweep.faults,
        faulty=sweep.faulty,
        guarantee=rule.promise(sweep, alpha, found) if exists else "none: no threshold passes",
        warnings=(
            *rule.caution(sweep),
            *_outcome(rule, sweep, alpha, index),
            *_unused(rule, sweep, alone, exists and found is None),
        ),
        stability=found,
        settings=dict(rule.settings),
        curve_thresholds=thresholds,
        curve_risks=risks,
    )


def _outcome(rule: Rule, sweep: Sweep, alpha: float, index: int) -> tuple[str, ...]:
    """Words for a threshold that does not exist, or keeps nothing."""
    if index >= 0:
        if sweep.thresholds[index] == np.inf and sweep.safer == "larger":
            return ("only +inf passes: nothing is kept",)
        return ()
    least = sweep.test_weight * sweep.bound
    if isinstance(sweep.total, float):
        least /= sweep.total + sweep.test_weight
        if rule.conservative and least > alpha:
            return (
                f"no threshold passes: {sweep.items} items leave a conservative risk of at least "
                f"{least:.4g} even with no loss at all, above alpha {alpha:g}",
            )
        if words := rule.too_few(sweep, alpha):
            return (f"no threshold passes: {words}",)
        return (f"no threshold passes: the safest, {sweep.thresholds[0]:g}, already fails",)
    return (
        "no threshold passes: so few are selected near the safest threshold that no rate among "
        "them can be shown; give thresholds that start where more are selected",
    )


def _unused(rule: Rule, sweep: Sweep, alone: bool, missing: bool) -> tuple[str, ...]:
    """Words for a Lipschitz constant that no stability goes with."""
    if rule.lipschitz is None or not missing:
        return ()
    if not alone:
        reason = "several losses"
    elif sweep.weighted:
        reason = "weighted items"
    else:
        reason = "a share of the selected" if sweep.share else "a stream that has passed"
    return (f"lipschitz = {rule.lipschitz:g} is not used: no stability is measured for {reason}",)


def _curve(sweep: Sweep, conservative: bool, index: int) -> tuple[Any, Any]:
    """The curve in rising order of thresholds, thinned evenly but for the chosen candidate."""
    count = len(sweep.thresholds)
    picked = np.linspace(0, count - 1, min(count, CURVE_POINTS)).astype(np.int64)
    picked[np.argmin(np.abs(picked - max(index, 0)))] = max(index, 0)
    thresholds, risks = (
        sweep.thresholds[picked],
        sweep.risks(conservative=conservative, where=picked),
    )
    order = slice(None, None, -1) if sweep.safer == "larger" else slice(None)
    return validate.frozen(thresholds[order]), validate.frozen(risks[order])


def _combine(
    rule: Rule,
    sweeps: Sequence[Sweep],
    alphas: Sequence[float],
    stops: Sequence[int],
) -> Selection:
    """Several losses: the safest of their thresholds, at which each is described."""
    larger = sweeps[0].safer == "larger"
    common = [-1] * len(sweeps)
    if min(stops) >= 0:
        chosen = [sweep.thresholds[stop] for sweep, stop in zip(sweeps, stops, strict=True)]
        threshold = max(chosen) if larger else min(chosen)
        common = [_index_at(sweep, threshold) for sweep in sweeps]
    parts = [
        _describe(rule, sweep, alpha, index, alone=False)
        for sweep, alpha, index in zip(sweeps, alphas, common, strict=True)
    ]
    if min(stops) < 0:
        threshold = (max if larger else min)(part.threshold for part in parts)
    parts = [replace(part, threshold=float(threshold)) for part in parts]
    binding = max(parts, key=lambda part: part.risk / part.alpha)
    failed = [part.loss for part, stop in zip(parts, stops, strict=True) if stop < 0]
    warnings = [f"{part.loss}: {warning}" for part in parts for warning in part.warnings]
    if failed:
        warnings = [f"no threshold passes for: {', '.join(failed)}"]
    return replace(
        binding,
        guarantee="each loss on its own: " + "; ".join(f"{p.loss}: {p.guarantee}" for p in parts),
        warnings=tuple(warnings),
        monotone=all(part.monotone for part in parts),
        faults=sum(part.faults for part in parts),
        faulty=tuple(sorted({i for part in parts for i in part.faulty})[:NAMED]),
        parts=tuple(parts),
    )


def _index_at(sweep: Sweep, threshold: float) -> int:
    """The candidate that keeps the same claims as a threshold: the smallest at least as large."""
    if sweep.safer == "larger":
        return len(sweep.thresholds) - int(np.searchsorted(sweep.thresholds[::-1], threshold)) - 1
    return int(np.searchsorted(sweep.thresholds, threshold))


def separate(request: Request) -> list[Request]:
    """One request a loss: a mapping of names to losses, or several names of claim losses."""
    if isinstance(request.losses, Mapping):
        names: list[Any] = list(request.losses)
        if not names:
            raise ValueError("losses is an empty mapping: at least one loss is needed")
        if request.loss is not None:
            raise ValueError("loss is for one set of claims; a mapping of losses names its own")
        inputs = [request.losses[name] for name in names]
        kinds: list[Any] = [None] * len(names)
    elif isinstance(request.loss, (list, tuple)):
        kinds = list(request.loss)
        if not kinds:
            raise ValueError("loss is an empty list: at least one loss is needed")
        for kind in kinds:
            if not isinstance(kind, str) and not callable(kind):
                raise TypeError(f"loss must hold names or callables, got {kind!r}")
        names = kinds
        inputs = [request.losses] * len(kinds)
    else:
        return [request]
    alphas = _spread("alpha", request.alpha, names)
    bounds = _spread("bound", request.bound, names)
    return [
        replace(request, losses=given, loss=kind, alpha=alpha, bound=bound, name=_word(name))
        for given, kind, alpha, bound, name in zip(
            inputs, kinds, alphas, bounds, names, strict=True
        )
    ]


def _word(name: Any) -> str | None:
    return None if callable(name) else str(name)


def _spread(name: str, value: Any, names: Sequence[Any]) -> list[Any]:
    """One value a loss: by name, in order, or the same for all."""
    if isinstance(value, Mapping):
        if set(value) != set(names):
            raise ValueError(f"{name} must have the keys {list(names)}, got {list(value)}")
        return [value[key] for key in names]
    if np.ndim(value) == 0:
        return [value] * len(names)
    if len(value) != len(names):
        raise ValueError(f"{name} must have one value a loss ({len(names)}), got {value!r}")
    return list(value)


def _named(name: str, parts: Sequence[Request], index: int) -> str:
    return name if len(parts) == 1 else f"{name}[{index}]"


def _same_direction(sweeps: Sequence[Sweep]) -> None:
    if len({sweep.safer for sweep in sweeps}) > 1:
        ways = ", ".join(f"{sweep.loss}: {sweep.safer}" for sweep in sweeps)
        raise ValueError(
            f"these losses are safest at opposite ends ({ways}); no threshold is safest for all"
        )
