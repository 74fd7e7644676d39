"""One threshold a group, so that the promise holds within each and not only on average."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from tether._core import validate
from tether.risk.claims import Claims
from tether.risk.loss_matrix import as_chunk, chunks_of
from tether.risk.risk_curve import NAMED, Sweep
from tether.risk.scored_labels import ScoredLabels
from tether.risk.select import Request, Rule, select, separate
from tether.risk.selection import POOL, Selection


def select_grouped(
    rule: Rule, request: Request, groups: Any, minimum_group: int | None
) -> Selection:
    """Select within each group; without `groups`, among all items at once.

    A group of fewer than `minimum_group` items joins the pool of all small groups, which gets one
    threshold and whose promise is an average over them. By default a group is small when
    bound / (n + 1) > alpha: then no threshold could pass, whatever its losses.
    """
    if groups is None:
        if minimum_group is not None:
            raise ValueError(f"minimum_group = {minimum_group!r} needs groups")
        return select(rule, request)
    request = replace(request, losses=_pickable(request.losses))
    separate(request)  # what is wrong with it is wrong in every group: say so once, and first
    names, of_item = _groups(request.losses, groups)
    if minimum_group is None:
        bound = max(_numbers("bound", request.bound, below=np.inf))
        alpha = min(_numbers("alpha", request.alpha, below=bound))
        minimum_group = math.ceil(bound / alpha * (1 - 1e-12)) - 1
    elif isinstance(minimum_group, bool) or not isinstance(minimum_group, int) or minimum_group < 1:
        raise ValueError(f"minimum_group must be a whole number ≥ 1, got {minimum_group!r}")
    sizes = np.bincount(of_item, minlength=len(names))
    small = sizes < minimum_group
    members = {str(names[i]): np.flatnonzero(of_item == i) for i in np.flatnonzero(~small)}
    if small.any():
        members[POOL] = np.flatnonzero(small[of_item])
    found = {name: _select(name, rule, request, items) for name, items in members.items()}
    return _gather(found, tuple(str(name) for name in names[small]), minimum_group)


def _gather(found: dict[str, Selection], pooled: tuple[str, ...], minimum_group: int) -> Selection:
    """One record over the groups; its own threshold is the safest of theirs."""
    larger = next(iter(found.values())).safer == "larger"
    pick = max if larger else min
    safest = pick(found.values(), key=lambda part: part.threshold)
    warnings = [f"{name}: {warning}" for name, part in found.items() for warning in part.warnings]
    return replace(
        safest,
        exists=all(part.exists for part in found.values()),
        risk=max(part.risk for part in found.values()),
        items=sum(part.items for part in found.values()),
        effective_sample_size=sum(part.effective_sample_size for part in found.values()),
        candidates=sum(part.candidates for part in found.values()),
        monotone=all(part.monotone for part in found.values()),
        faults=sum(part.faults for part in found.values()),
        faulty=tuple(sorted(i for part in found.values() for i in part.faulty)[:NAMED]),
        guarantee="within each group, as its own record says"
        + (f"; on average over the pooled (fewer than {minimum_group} items)" if pooled else ""),
        warnings=tuple(warnings),
        stability=None,
        groups=found,
        pooled=pooled,
    )


def _select(name: str, rule: Rule, request: Request, items: Any) -> Selection:
    try:
        return select(rule, _part(request, items))
    except ValueError as error:
        raise ValueError(f"in group {name!r}, items numbered from 0: {error}") from error


def _pickable(losses: Any) -> Any:
    """Losses whose items can be picked by number: rows and tables become arrays."""
    if isinstance(losses, Mapping):
        return {name: _pickable(value) for name, value in losses.items()}
    if isinstance(losses, (Claims, ScoredLabels)):
        return losses
    if isinstance(losses, (Iterator, Sweep)):
        raise TypeError(
            "groups needs losses whose items can be picked: an array, Claims or ScoredLabels, "
            f"got {type(losses).__name__}"
        )
    chunks = [as_chunk(chunk) for chunk in chunks_of(losses)]
    if len({chunk.shape[1] for chunk in chunks}) != 1:
        raise ValueError(
            "losses must be chunks of the same thresholds, got shapes "
            f"{[chunk.shape for chunk in chunks]}"
        )
    return chunks[0] if len(chunks) == 1 else np.concatenate(chunks)


def _groups(losses: Any, groups: Any) -> tuple[Any, Any]:
    sizes = (
        {name: _items(value) for name, value in losses.items()}
        if isinstance(losses, Mapping)
        else {"": _items(losses)}
    )
    if len(set(sizes.values())) > 1:
        raise ValueError(f"groups needs losses of the same items, got lengths {sizes}")
    labels = validate.labels("groups", groups, next(iter(sizes.values()), 0))
    names, of_item = np.unique(labels, return_inverse=True)
    if POOL in names.astype(np.str_):
        raise ValueError(f"groups holds {POOL!r}, the name of the pool of small groups: rename it")
    return names, of_item


def _items(losses: Any) -> int:
    return losses.items if isinstance(losses, (Claims, ScoredLabels)) else len(losses)


def _part(request: Request, items: Any) -> Request:
    """The same request for some items only."""

    def pick(losses: Any) -> Any:
        if isinstance(losses, Mapping):
            return {name: pick(value) for name, value in losses.items()}
        return losses[items] if isinstance(losses, np.ndarray) else losses.take(items)

    weights = request.weights.take(items)
    return replace(request, losses=pick(request.losses), weights=weights, numbers=items)


def _numbers(name: str, given: Any, below: float) -> list[float]:
    """One number, or one a loss, by name or in order."""
    values = list(given.values()) if isinstance(given, Mapping) else given
    values = values if isinstance(values, (list, tuple, np.ndarray)) else [values]
    if len(values) == 0:
        raise ValueError(f"{name} is empty: at least one number is needed, got {given!r}")
    return [validate.number(name, value, above=0, below=below) for value in values]
