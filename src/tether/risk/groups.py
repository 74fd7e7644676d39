"""One threshold a group, so that the promise holds within each and not only on average."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from tether import _check
from tether.risk.claims import Claims
from tether.risk.driver import Request, Rule, select
from tether.risk.labels import ScoredLabels
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
    names, of_item = _groups(request.losses, groups)
    if minimum_group is None:
        alpha, bound = _tightest(request.alpha), _largest(request.bound)
        alpha = _check.number("alpha", alpha, above=0, below=bound)
        minimum_group = math.ceil(bound / alpha * (1 - 1e-12)) - 1
    elif isinstance(minimum_group, bool) or not isinstance(minimum_group, int) or minimum_group < 1:
        raise ValueError(f"minimum_group must be a whole number ≥ 1, got {minimum_group!r}")
    sizes = np.bincount(of_item, minlength=len(names))
    small = sizes < minimum_group
    members = {str(names[i]): np.flatnonzero(of_item == i) for i in np.flatnonzero(~small)}
    if small.any():
        members[POOL] = np.flatnonzero(small[of_item])
    found = {name: select(rule, _part(request, items)) for name, items in members.items()}
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
        faulty=(),
        guarantee="within each group, as its own record says"
        + (f"; on average over the pooled (fewer than {minimum_group} items)" if pooled else ""),
        warnings=tuple(warnings),
        stability=None,
        groups=found,
        pooled=pooled,
    )


def _groups(losses: Any, groups: Any) -> tuple[Any, Any]:
    if isinstance(losses, dict):
        losses = next(iter(losses.values()))
    if isinstance(losses, (Claims, ScoredLabels)):
        items = losses.items
    elif isinstance(losses, np.ndarray) and losses.ndim == 2:
        items = len(losses)
    else:
        raise TypeError(
            "groups needs losses whose items can be picked: an array, Claims or ScoredLabels, "
            f"got {type(losses).__name__}"
        )
    labels = _check.labels("groups", groups, items)
    names, of_item = np.unique(labels, return_inverse=True)
    return names, of_item


def _part(request: Request, items: Any) -> Request:
    """The same request for some items only."""

    def pick(losses: Any) -> Any:
        if isinstance(losses, dict):
            return {name: pick(value) for name, value in losses.items()}
        return losses[items] if isinstance(losses, np.ndarray) else losses.take(items)

    return replace(request, losses=pick(request.losses), weights=request.weights.take(items))


def _tightest(alpha: Any) -> Any:
    values = list(alpha.values()) if isinstance(alpha, dict) else np.atleast_1d(alpha).tolist()
    return min(values)


def _largest(bound: Any) -> Any:
    values = list(bound.values()) if isinstance(bound, dict) else np.atleast_1d(bound).tolist()
    return max(values)
