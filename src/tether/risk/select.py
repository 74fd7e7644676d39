"""What the four methods share: one loss or several, and one record of the result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tether._core import validate
from tether.risk.describe import describe
from tether.risk.loss_words import LOSS_WORDS
from tether.risk.promised_level import promised_level
from tether.risk.risk_curve import MAX_NAMED_ITEMS, Sweep
from tether.risk.rule import Request, Rule
from tether.risk.selection import Selection
from tether.risk.sweep_losses import prepare


def select(rule: Rule, request: Request) -> Selection:
    """Sweep each loss, stop by the rule, and describe the safest of the thresholds."""
    parts = one_per_loss(request)
    return choose(rule, parts, [_sweep(rule, part) for part in parts])


def tolerated_losses(parts: Sequence[Request], bounds: Sequence[float]) -> list[float]:
    """What is tolerated of each loss, checked against its bound."""
    return [
        validate.number(
            _argument_name(part.target.name, parts, i), part.target.value, above=0, below=bound
        )
        for i, (part, bound) in enumerate(zip(parts, bounds, strict=True))
    ]


def choose(rule: Rule, parts: Sequence[Request], sweeps: Sequence[Sweep]) -> Selection:
    """Stop by the rule in sweeps that are there, and describe the safest of the thresholds."""
    tolerated = tolerated_losses(parts, [sweep.bound for sweep in sweeps])
    name = parts[0].target.name
    _require_same_direction(sweeps)
    for sweep, value in zip(sweeps, tolerated, strict=True):
        share = sweep.loss_settings.get("share", value)
        if share != value or (sweep.loss_settings and name != "promise"):
            raise ValueError(
                f"{name} = {value:g} with FalseAmongShown({share:g}, ...), which is about its own "
                f"share: pass promise={share:g}, and neither another number nor alpha"
            )
        if not np.isfinite(sweep.bound * (sweep.n_items + 1)):
            raise ValueError(
                f"bound = {sweep.bound:g} is so large that sums of losses overflow; rescale "
                "losses, alpha and bound"
            )
    if name == "alpha":
        return _at_levels(rule, sweeps, tolerated, [None] * len(sweeps))
    _refuse_rates_among_the_selected(rule, sweeps, tolerated)
    _require_separate_promises(rule, sweeps)
    found = [promised_level(rule, *pair) for pair in zip(sweeps, tolerated, strict=True)]
    alphas = [t if level is None else level for level, t in zip(found, tolerated, strict=True)]
    return _at_levels(rule, sweeps, alphas, tolerated, [level is not None for level in found])


def _at_levels(
    rule: Rule,
    sweeps: Sequence[Sweep],
    alphas: Sequence[float],
    targets: Sequence[float | None],
    reached: Sequence[bool] | None = None,
) -> Selection:
    """Stop at these levels and describe the result; where a target is not reached, none passes."""
    stops = rule.stop(sweeps, alphas)
    if reached is not None:
        stops = [stop if ok else -1 for stop, ok in zip(stops, reached, strict=True)]
    exists = min(stops) >= 0
    places = _common(sweeps, stops) if exists else [-1] * len(sweeps)
    measured = rule.stability(sweeps, alphas) if exists else [None] * len(sweeps)
    parts = [
        describe(rule, sweep, alpha, place, target=target, stability=stability)
        for sweep, alpha, place, target, stability in zip(
            sweeps, alphas, places, targets, measured, strict=True
        )
    ]
    return parts[0] if len(parts) == 1 else _combine(parts, stops)


def _common(sweeps: Sequence[Sweep], stops: Sequence[int]) -> list[int]:
    """For each loss, its candidate at the safest of the thresholds."""
    chosen = [sweep.thresholds[stop] for sweep, stop in zip(sweeps, stops, strict=True)]
    threshold = max(chosen) if sweeps[0].safer == "larger" else min(chosen)
    return [_index_at(sweep, threshold) for sweep in sweeps]


def _sweep(rule: Rule, part: Request) -> Sweep:
    losses: Any = part.losses
    loss: Any = part.loss
    bound: Any = part.bound
    swept = prepare(losses, part.thresholds, loss, bound, part.weights, envelope=rule.envelope)
    if part.item_indices is not None:
        among_all = tuple(int(part.item_indices[i]) for i in swept.nonmonotone_items)
        swept = replace(swept, nonmonotone_items=among_all)
    if part.name is None:
        return swept
    if swept.kept_counts is not None and part.name != swept.loss and part.name in LOSS_WORDS:
        raise ValueError(
            f"losses: {part.name!r} is the name of another loss than {swept.loss!r}, which this "
            "is: the promise would state the wrong one; choose another name"
        )
    return replace(swept, loss=part.name)


def _combine(parts: list[Selection], stops: Sequence[int]) -> Selection:
    """Several losses, each described at the safest of their thresholds, in one record."""
    safest_of = max if parts[0].safer == "larger" else min
    threshold = safest_of(part.threshold for part in parts)
    parts = [replace(part, threshold=threshold) for part in parts]
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
    target = request.target
    tolerated = [
        target._replace(value=value) for value in _value_per_loss(target.name, target.value, names)
    ]
    bounds = _value_per_loss("bound", request.bound, names)
    return [
        replace(request, losses=losses, loss=kind, target=each, bound=bound, name=_loss_name(name))
        for losses, kind, each, bound, name in zip(
            inputs, kinds, tolerated, bounds, names, strict=True
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


def _require_separate_promises(rule: Rule, sweeps: Sequence[Sweep]) -> None:
    """Refuse a promise for several losses where each depends on where the others stop."""
    separate = rule.levels is None or rule.envelope or all(sweep.monotone for sweep in sweeps)
    if len(sweeps) > 1 and not separate:
        named = ", ".join(sweep.loss for sweep in sweeps if not sweep.monotone)
        raise ValueError(
            f"promise = ... for several losses needs losses that are monotone in the threshold, "
            f"and these are not: {named}; pass alpha, or use monotonized_crc"
        )


def _refuse_rates_among_the_selected(
    rule: Rule, sweeps: Sequence[Sweep], promises: Sequence[float]
) -> None:
    """Refuse a promise for a rate whose stability is not measured, so that none is stated."""
    for sweep, promise in zip(sweeps, promises, strict=True):
        if sweep.among_selected and rule.levels is not None:
            name = rule.method.lower().replace(" ", "_")
            raise ValueError(
                f"promise = {promise:g}: {name} states no promise for {sweep.loss!r}, a rate among "
                "the selected, since the stability of its threshold is not measured; use "
                "tether.ltt, or gcrc with alpha instead of promise, which controls the rate in the "
                "long run"
            )


def _require_same_direction(sweeps: Sequence[Sweep]) -> None:
    if len({sweep.safer for sweep in sweeps}) > 1:
        directions = ", ".join(f"{sweep.loss}: {sweep.safer}" for sweep in sweeps)
        raise ValueError(
            f"these losses are safest at opposite ends ({directions}), so they cannot share a "
            "threshold"
        )
