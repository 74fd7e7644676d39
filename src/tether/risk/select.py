"""What the four methods share: one loss or several, and one record of the result."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from tether._core import validate
from tether._core.types import Floats, Integers
from tether.risk.item_weights import ItemWeights
from tether.risk.loss_inputs import LossInputs, LossNames, PerLoss
from tether.risk.promises import Promise
from tether.risk.risk_curve import MAX_NAMED_ITEMS, Sweep
from tether.risk.selection import Selection, Stability
from tether.risk.sweep_losses import prepare

MAX_CURVE_POINTS = 1001


@dataclass(frozen=True)
class Rule:
    """One method: which sums it reads, where it stops, what it promises.

    `stop` returns, for each loss, the index of the chosen candidate (−1: none).
    """

    method: str
    stop: Callable[[Sequence[Sweep], Sequence[float]], list[int]]
    promise: Callable[[Sweep, float, Stability | None], Promise]
    warnings: Callable[[Sweep], tuple[str, ...]] = lambda sweep: ()
    stability: Callable[[Sweep, float], Stability | None] = lambda sweep, alpha: None
    lipschitz: float | None = None
    envelope: bool = False
    conservative: bool = True
    too_few: Callable[[Sweep, float], str | None] = lambda sweep, alpha: None
    settings: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Request:
    """The user's arguments, besides the method."""

    losses: LossInputs
    thresholds: ArrayLike | None
    alpha: PerLoss
    bound: PerLoss
    loss: LossNames
    weights: ItemWeights
    name: str | None = None
    item_indices: Integers | None = None  # among all items, where these are those of one group


def select(rule: Rule, request: Request) -> Selection:
    """Sweep each loss, stop by the rule, and describe the safest of the thresholds."""
    parts = one_per_loss(request)
    sweeps = [_sweep(rule, part) for part in parts]
    alphas = [
        validate.number(_argument_name("alpha", parts, i), part.alpha, above=0, below=sweep.bound)
        for i, (part, sweep) in enumerate(zip(parts, sweeps, strict=True))
    ]
    _require_same_direction(sweeps)
    for sweep in sweeps:
        if not np.isfinite(sweep.bound * (sweep.n_items + 1)):
            raise ValueError(
                f"bound = {sweep.bound:g} is so large that sums of losses overflow; rescale "
                "losses, alpha and bound"
            )
    stops = rule.stop(sweeps, alphas)
    if len(sweeps) == 1:
        return _describe(rule, sweeps[0], alphas[0], stops[0])
    return _combine(rule, sweeps, alphas, stops)


def _sweep(rule: Rule, part: Request) -> Sweep:
    losses: Any = part.losses
    loss: Any = part.loss
    bound: Any = part.bound
    swept = prepare(losses, part.thresholds, loss, bound, part.weights, envelope=rule.envelope)
    if part.item_indices is not None:
        among_all = tuple(int(part.item_indices[i]) for i in swept.nonmonotone_items)
        swept = replace(swept, nonmonotone_items=among_all)
    return swept if part.name is None else replace(swept, loss=part.name)


def _describe(rule: Rule, sweep: Sweep, alpha: float, index: int, alone: bool = True) -> Selection:
    exists = index >= 0
    stability = rule.stability(sweep, alpha) if alone and exists else None
    promise = Promise(sweep.bound, "none: no threshold passes")
    if exists:
        promise = rule.promise(sweep, alpha, stability)
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
        promise=promise.value,
        statement=promise.statement,
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
            *_outcome_warnings(rule, sweep, alpha, index),
            *_unused_lipschitz(rule, sweep, alone, exists and stability is None),
        ),
        stability_detail=stability,
        settings=dict(rule.settings),
        curve_thresholds=thresholds,
        curve_risks=risks,
    )


def _outcome_warnings(rule: Rule, sweep: Sweep, alpha: float, index: int) -> tuple[str, ...]:
    """A warning where no threshold passes, or only one that keeps nothing."""
    if index >= 0:
        if sweep.thresholds[index] == np.inf and sweep.safer == "larger":
            return ("only +inf passes: nothing is kept",)
        return ()
    minimum_risk = sweep.test_weight * sweep.bound
    if isinstance(sweep.total_weight, float):
        minimum_risk /= sweep.total_weight + sweep.test_weight
        if rule.conservative and minimum_risk > alpha:
            return (
                f"no threshold passes: {sweep.n_items} items leave a conservative risk of at least "
                f"{minimum_risk:.4g} even with no loss at all, above alpha {alpha:g}",
            )
        if reason := rule.too_few(sweep, alpha):
            return (f"no threshold passes: {reason}",)
        return (f"no threshold passes: the safest, {sweep.thresholds[0]:g}, already fails",)
    return (
        "no threshold passes: too few items are selected near the safest threshold to establish a "
        "rate among them; pass thresholds that start where more are selected",
    )


def _unused_lipschitz(rule: Rule, sweep: Sweep, alone: bool, missing: bool) -> tuple[str, ...]:
    """A warning for a Lipschitz constant without a stability to go with it."""
    if rule.lipschitz is None or not missing:
        return ()
    if not alone:
        reason = "several losses"
    elif sweep.weighted:
        reason = "weighted items"
    else:
        reason = "a rate among the selected" if sweep.among_selected else "a stream"
    return (f"lipschitz = {rule.lipschitz:g} is not used: no stability is measured for {reason}",)


def _curve(sweep: Sweep, conservative: bool, index: int) -> tuple[Floats, Floats]:
    """The curve in increasing order of thresholds, thinned evenly, with the chosen candidate."""
    count = len(sweep.thresholds)
    picked = np.linspace(0, count - 1, min(count, MAX_CURVE_POINTS)).astype(np.int64)
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
    """Several losses: describe each at the safest of their thresholds."""
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
        statement="each loss separately: " + "; ".join(f"{p.loss}: {p.statement}" for p in parts),
        warnings=tuple(warnings),
        monotone=all(part.monotone for part in parts),
        n_nonmonotone=sum(part.n_nonmonotone for part in parts),
        nonmonotone_items=tuple(
            sorted({i for part in parts for i in part.nonmonotone_items})[:MAX_NAMED_ITEMS]
        ),
        by_loss=tuple(parts),
    )


def _index_at(sweep: Sweep, threshold: float) -> int:
    """The candidate that keeps the same claims as a threshold: the smallest at least as large."""
    if sweep.safer == "larger":
        return len(sweep.thresholds) - int(np.searchsorted(sweep.thresholds[::-1], threshold)) - 1
    return int(np.searchsorted(sweep.thresholds, threshold))


def one_per_loss(request: Request) -> list[Request]:
    """One request per loss: a mapping of names to losses, or several names of claim losses."""
    if isinstance(request.losses, Mapping):
        names: list[Any] = list(request.losses)
        if not names:
            raise ValueError("losses is an empty mapping: at least one loss is needed")
        if request.loss is not None:
            raise ValueError(
                f"loss = {request.loss!r} cannot be passed with a mapping, which names its losses"
            )
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
    alphas = _value_per_loss("alpha", request.alpha, names)
    bounds = _value_per_loss("bound", request.bound, names)
    return [
        replace(request, losses=losses, loss=kind, alpha=alpha, bound=bound, name=_loss_name(name))
        for losses, kind, alpha, bound, name in zip(
            inputs, kinds, alphas, bounds, names, strict=True
        )
    ]


def _loss_name(name: Any) -> str | None:
    return None if callable(name) else str(name)


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


def _argument_name(name: str, parts: Sequence[Request], index: int) -> str:
    return name if len(parts) == 1 else f"{name}[{index}]"


def _require_same_direction(sweeps: Sequence[Sweep]) -> None:
    if len({sweep.safer for sweep in sweeps}) > 1:
        directions = ", ".join(f"{sweep.loss}: {sweep.safer}" for sweep in sweeps)
        raise ValueError(
            f"these losses are safest at opposite ends ({directions}), so they cannot share a "
            "threshold"
        )
