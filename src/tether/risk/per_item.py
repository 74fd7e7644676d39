"""One value per item: by item name, or by position where the order of the items is the user's own.

Claims from a table are ordered by item name, not by row. A group or weight by position would be
that of another item there, and nothing in the numbers would show it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tether.risk.claims import Claims
from tether.risk.item_weights import ItemColumn
from tether.risk.scanned_claims import ScannedClaims

PerItem: TypeAlias = ArrayLike | Mapping[Any, Any] | ItemColumn
"""One value per item: in the order of the items, by item name, or a column of claims in parts."""


def in_item_order(name: str, values: PerItem | None, losses: Any) -> Any:
    """The values in the order of the items; None stays None."""
    if values is None:
        return None
    if isinstance(losses, ScannedClaims):
        if not isinstance(values, ItemColumn) or values.role != name:
            raise TypeError(
                f"{name} of claims in parts must be a column of them: pass it to Claims.scan, and "
                f"{name}=claims.{name} here; got {_shown(values)}"
            )
        return values
    if isinstance(values, ItemColumn):
        raise TypeError(f"{name} is a column of claims in parts, but the losses are not these")
    inputs = list(losses.values()) if isinstance(losses, Mapping) else [losses]
    item_names = [part.items if isinstance(part, Claims) else None for part in inputs]
    if isinstance(values, Mapping):
        return _by_name(name, values, item_names)
    if any(names is not None for names in item_names):
        raise ValueError(
            f"{name} must be a mapping from item name to value for claims whose items have names, "
            f"which are ordered by name and not by row; got {_shown(values)}. For groups, "
            "Claims.from_table(..., groups=column) takes one per claim: pass claims.groups"
        )
    for part in inputs:
        _require_same_index(name, values, part)
    return values


def _by_name(
    name: str, values: Mapping[Any, Any], item_names: list[NDArray[Any] | None]
) -> list[Any]:
    """The values of the named items, each of which must be there."""
    known = [names for names in item_names if names is not None]
    if len(known) < len(item_names) or not known:
        raise ValueError(
            f"{name} is a mapping, which needs items with names: Claims.from_table, or Claims with "
            "items; without them pass one value per item, in their order"
        )
    if not all(np.array_equal(names, known[0]) for names in known):
        raise ValueError(f"{name} needs losses of the same items, and their names differ")
    ordered = known[0].tolist()
    if missing := [item for item in ordered if item not in values]:
        raise ValueError(
            f"{name} has no value for {len(missing)} of {len(ordered)} items, the first of which "
            f"is {missing[0]!r}"
        )
    return [values[item] for item in ordered]


def _require_same_index(name: str, values: Any, losses: Any) -> None:
    """Refuse a column with another index than the table of losses: its rows may differ in order."""
    indices = [getattr(part, "index", None) for part in (values, losses)]
    if any(index is None or callable(index) for index in indices):
        return
    if not np.array_equal(np.asarray(indices[0]), np.asarray(indices[1])):
        raise ValueError(f"{name} has another index than losses: reindex it to that of losses")


def _shown(values: Any) -> str:
    return f"{type(values).__name__} of length {np.size(values)}"
