"""One part of claims that are split over files: its columns as claims of whole items."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tether._core import validate
from tether._core.kernels import Columns, Several, merge_all
from tether._core.types import Floats
from tether.risk.claims import Claims
from tether.risk.item_blocks import item_blocks


@dataclass(frozen=True)
class ClaimColumns:
    """The names of the columns of claims; weights are given as they are or as logarithms."""

    scores: str
    supported: str
    items: str
    groups: str | None = None
    weights: str | None = None
    log_weights: str | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """The columns that are read."""
        named = (self.scores, self.supported, self.items)
        optional = (self.groups, self.weights, self.log_weights)
        return tuple(dict.fromkeys((*named, *(name for name in optional if name is not None))))


@dataclass(frozen=True, eq=False)
class ClaimPart:
    """The claims of whole items, and what each item has."""

    claims: Claims
    groups: NDArray[Any] | None
    log_weights: Floats | None

    @classmethod
    def read(cls, names: ClaimColumns, columns: Columns) -> ClaimPart:
        """Check the columns of one part and put its claims in the order of the items."""
        groups = None if names.groups is None else columns[names.groups]
        claims = Claims._from_columns(
            columns[names.scores], columns[names.supported], columns[names.items], groups
        )
        by_item = None if groups is None else np.asarray(list(claims.groups.values()))
        return cls(claims, by_item, _log_weights(names, columns, claims))

    def among(self, groups: Collection[Any] | None) -> ClaimPart | None:
        """The items of some groups (all, where None); None where there are none."""
        if groups is None:
            return self
        assert self.groups is not None
        chosen = np.flatnonzero(np.isin(self.groups, list(groups)))
        if len(chosen) == 0:
            return None
        if len(chosen) == self.claims.n_items:
            return self
        logs = None if self.log_weights is None else self.log_weights[chosen]
        return ClaimPart(self.claims.take(chosen), self.groups[chosen], logs)


def _log_weights(names: ClaimColumns, columns: Columns, claims: Claims) -> Floats | None:
    """The logarithm of each item's weight, which must be the same in all its rows."""
    name = names.weights or names.log_weights
    if name is None:
        return None
    if names.weights is not None:
        weights = validate.floats(name, columns[name])
        valid = (weights >= 0) & (weights < np.inf)
        if not valid.all():
            validate.reject(name, weights, ~valid, "a finite weight of at least 0")
        with np.errstate(divide="ignore"):
            rows = np.log(weights)
    else:
        rows = validate.log_probabilities(name, columns[name], zero=True)
    assert claims.items is not None
    place = np.searchsorted(claims.items, columns[names.items])
    first = np.full(claims.n_items, np.nan)
    first[place[::-1]] = rows[::-1]
    differs = rows != first[place]
    if differs.any():
        row = int(np.argmax(differs))
        raise ValueError(
            f"{name} must be the same for all claims of an item, and differs for item "
            f"{claims.items[place[row]].item()!r}"
        )
    return first


@dataclass(frozen=True)
class ClaimKernel:
    """Several jobs on the same claims, in one pass: each part is read once for all of them."""

    names: ClaimColumns
    jobs: tuple[Any, ...]
    whole_parts: bool = True
    """Claims of one item must be together: a file is one part."""

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that are read."""
        return self.names.names

    def partial(self, columns: Columns) -> Several:
        """The summary of each job, made from blocks of items."""
        plain = {name: columns[name] for name in self.columns}
        found = merge_all(self._of_block(plain, b) for b in item_blocks(plain, self.names.items))
        assert found is not None
        return found

    def _of_block(self, columns: Columns, block: Columns) -> Several:
        """The summary of each job on some of the items."""
        try:
            part = ClaimPart.read(self.names, block)
        except (TypeError, ValueError):
            ClaimPart.read(self.names, columns)  # its error counts rows from the first of the part
            raise
        return Several(tuple(job.partial(part) for job in self.jobs))
