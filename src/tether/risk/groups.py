"""One threshold per group, so that the promise holds within each and not only on average."""

from __future__ import annotations

import logging
import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from tether._core import validate
from tether._core.types import Integers
from tether._core.user_warnings import warn_user
from tether._core.warning_categories import AssumptionWarning
from tether.risk.claims import Claims
from tether.risk.group_names import group_names
from tether.risk.kept_share import together
from tether.risk.loss_matrix import as_chunk, chunks_of
from tether.risk.per_item import PerItem, in_item_order
from tether.risk.repeated_claims import single_claims_warning
from tether.risk.risk_curve import MAX_NAMED_ITEMS, Sweep
from tether.risk.rule import Request, Rule
from tether.risk.scanned_claims import ScannedClaims
from tether.risk.scanned_selection import select_in_parts
from tether.risk.score_direction import (
    inverted_warning,
    labels_as_scores_warning,
    measured_area,
    one_label_warning,
    uninformative_note,
)
from tether.risk.scored_labels import ScoredLabels
from tether.risk.select import one_per_loss, select
from tether.risk.selection import POOL_NAME, Selection

logger = logging.getLogger("tether.risk")


def select_by_group(
    rule: Rule, request: Request, groups: PerItem | None, minimum_group_size: int | None
) -> Selection:
    """Select within each group; without `groups`, among all items at once.

    A group of fewer than `minimum_group_size` items joins the pool of all small groups, which gets
    one threshold and whose promise is an average over them. By default a group is small when
    bound / (n + 1) > alpha: then no threshold could pass, whatever its losses.

    The threshold of the pool is chosen on the items of all groups of up to `minimum_group_size`
    items. With the next item of a small group its group has one item more, so among these items and
    the next one the groups of at most `minimum_group_size` items are the same ones whichever item
    comes last, and they are exchangeable. Those of the small groups alone are not: a group that is
    usually larger is small exactly where it has fewer items than its share.
    """
    found = _select_by_group(rule, request, groups, minimum_group_size)
    losses = request.losses
    for each in losses.values() if isinstance(losses, Mapping) else (losses,):
        area = measured_area(each)
        looks = (
            one_label_warning(each),
            inverted_warning(each, area),
            labels_as_scores_warning(each),
            single_claims_warning(each),
            each.copies_warning if isinstance(each, ScannedClaims) else None,
        )
        doubts = [text for text in looks if text is not None]
        if groups is None and _has_groups(each):
            doubts.append(_unused_groups(rule.method))
        for doubt in doubts:
            warn_user(doubt, AssumptionWarning)
        notes = () if (note := uninformative_note(area)) is None else (note,)
        if doubts or notes:
            found = replace(found, warnings=(*doubts, *found.warnings, *notes))
            break
    logger.info(
        "%s on %d items: %s, %s %s",
        *(
            found.method,
            found.n_items,
            f"threshold {found.threshold:.6g}" if found.exists else "no threshold passes",
            *request.target,
        ),
    )
    return found


def _has_groups(losses: object) -> bool:
    if isinstance(losses, ScannedClaims):
        return losses.columns.groups is not None
    return isinstance(losses, Claims) and losses._groups is not None


def _unused_groups(method: str) -> str:
    """Say that the groups of claims were not used, and how they are."""
    function = f"tether.{method.lower().replace(' ', '_')}"
    return (
        "these claims have groups, but one threshold was chosen for all of them: the promise is on "
        f"average over the groups, not within each. For one threshold per group use "
        f"{function}(claims, groups=claims.groups); otherwise build the claims without groups"
    )


def _select_by_group(
    rule: Rule, request: Request, groups: PerItem | None, minimum_group_size: int | None
) -> Selection:
    """The selection, or one for each group."""
    if isinstance(request.losses, ScannedClaims):
        return _select_scanned(rule, request, groups, minimum_group_size)
    if groups is None:
        if minimum_group_size is not None:
            raise ValueError(f"minimum_group_size = {minimum_group_size!r} needs groups")
        return select(rule, request)
    labels = in_item_order("groups", groups, request.losses)
    request = replace(request, losses=_indexable(request.losses))
    one_per_loss(request)  # raises for invalid arguments once, before any group is looked at
    names, group_of_item = _group_of_items(request.losses, labels)
    minimum_group_size = _checked_minimum(request, minimum_group_size)
    sizes = np.bincount(group_of_item, minlength=len(names))
    small = sizes < minimum_group_size
    members = {names[i].item(): np.flatnonzero(group_of_item == i) for i in np.flatnonzero(~small)}
    if small.any():
        members[POOL_NAME] = np.flatnonzero((sizes <= minimum_group_size)[group_of_item])
    by_group = {name: _select_one(name, rule, request, items) for name, items in members.items()}
    return _combine(by_group, tuple(names[small].tolist()), minimum_group_size)


def _select_scanned(
    rule: Rule, request: Request, groups: PerItem | None, minimum: int | None
) -> Selection:
    """The same for claims in parts, with all groups in the same passes."""
    if groups is None:
        if minimum is not None:
            raise ValueError(f"minimum_group_size = {minimum!r} needs groups")
        return select_in_parts(rule, request, {"": None})[""]
    claims = request.losses
    assert isinstance(claims, ScannedClaims)
    in_item_order("groups", groups, claims)
    one_per_loss(request)
    minimum = _checked_minimum(request, minimum)
    sizes = claims.group_sizes()
    _require_no_pool_name([str(name) for name in sizes])
    small = [name for name, size in sizes.items() if size < minimum]
    members: dict[str, Any] = {str(n): (n,) for n, size in sizes.items() if size >= minimum}
    if small:
        members[POOL_NAME] = tuple(name for name, size in sizes.items() if size <= minimum)
    by_group = select_in_parts(rule, request, members)
    return _combine(by_group, tuple(str(name) for name in small), minimum)


def _require_no_pool_name(names: Collection[str]) -> None:
    if POOL_NAME in names:
        raise ValueError(
            f"groups holds {POOL_NAME!r}, which is reserved for the pool of small groups: rename it"
        )


def _checked_minimum(request: Request, minimum: int | None) -> int:
    if minimum is None:
        bound = max(_checked_numbers("bound", request.bound, below=np.inf))
        alpha = min(_checked_numbers(*request.target, below=bound))
        return math.ceil(bound / alpha * (1 - 1e-12)) - 1
    if isinstance(minimum, bool) or not isinstance(minimum, int) or minimum < 1:
        raise ValueError(f"minimum_group_size must be an integer of at least 1, got {minimum!r}")
    return minimum


def _combine(
    by_group: dict[str, Selection], pooled_groups: tuple[str, ...], minimum_group_size: int
) -> Selection:
    """One record over the groups; its own threshold is the safest of theirs.

    Its counts are sums over groups and pool, so items that are in both count twice.
    """
    parts = by_group.values()
    # Of groups with the same threshold one that nothing passes in, whose losses say so too.
    sign = 1 if next(iter(parts)).safer == "larger" else -1
    safest = max(parts, key=lambda part: (sign * part.threshold, not part.exists))
    statement = "within each group, as stated in its own selection"
    if pooled_groups:
        statement += f"; on average over the pooled groups (fewer than {minimum_group_size} items)"
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
        nonmonotone_items=tuple(
            sorted({i for part in parts for i in part.nonmonotone_items})[:MAX_NAMED_ITEMS]
        ),
        warnings=tuple(
            f"{name}: {warning}" for name, part in by_group.items() for warning in part.warnings
        ),
        stability_detail=None,
        kept=together(part.kept_when_served for part in parts),
        groups=by_group,
        pooled_groups=pooled_groups,
    )


def _select_one(name: str, rule: Rule, request: Request, items: Integers) -> Selection:
    try:
        return select(rule, _part(request, items))
    except ValueError as error:
        raise ValueError(f"in group {name!r}, items numbered from 0: {error}") from error


def _indexable(losses: Any) -> Any:
    """Losses whose items can be selected by index: rows and tables become arrays."""
    if isinstance(losses, Mapping):
        return {name: _indexable(value) for name, value in losses.items()}
    if isinstance(losses, (Claims, ScoredLabels)):
        return losses
    if isinstance(losses, (Iterator, Sweep)):
        raise TypeError(
            "groups needs losses whose items can be selected: an array, Claims or ScoredLabels, "
            f"got {type(losses).__name__}"
        )
    chunks = [as_chunk(chunk) for chunk in chunks_of(losses)]
    if len({chunk.shape[1] for chunk in chunks}) != 1:
        raise ValueError(
            "losses must be chunks of the same thresholds, got shapes "
            f"{[chunk.shape for chunk in chunks]}"
        )
    return chunks[0] if len(chunks) == 1 else np.concatenate(chunks)


def _group_of_items(losses: Any, groups: ArrayLike) -> tuple[np.ndarray, Integers]:
    """The names of the groups, and the index of each item's group among them."""
    sizes = (
        {name: _n_items(value) for name, value in losses.items()}
        if isinstance(losses, Mapping)
        else {"": _n_items(losses)}
    )
    if len(set(sizes.values())) > 1:
        raise ValueError(f"groups needs losses of the same items, got lengths {sizes}")
    labels = validate.labels("groups", groups, next(iter(sizes.values()), 0))
    distinct, group_of_item = np.unique(labels, return_inverse=True)
    names = group_names(distinct)
    _require_no_pool_name(names.tolist())
    return names, group_of_item


def _n_items(losses: Any) -> int:
    return losses.n_items if isinstance(losses, (Claims, ScoredLabels)) else len(losses)


def _part(request: Request, items: Integers) -> Request:
    """The same request for some of the items."""

    def pick(losses: Any) -> Any:
        if isinstance(losses, Mapping):
            return {name: pick(value) for name, value in losses.items()}
        return losses[items] if isinstance(losses, np.ndarray) else losses.take(items)

    weights = request.weights.take(items)
    return replace(request, losses=pick(request.losses), weights=weights, item_indices=items)


def _checked_numbers(name: str, given: Any, below: float) -> list[float]:
    """One number, or one per loss, by name or in order."""
    values = list(given.values()) if isinstance(given, Mapping) else given
    values = values if isinstance(values, (list, tuple, np.ndarray)) else [values]
    if len(values) == 0:
        raise ValueError(f"{name} is empty: at least one number is needed, got {given!r}")
    return [validate.number(name, value, above=0, below=below) for value in values]
