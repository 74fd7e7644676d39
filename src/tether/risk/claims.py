"""Scored claims: the pieces of an answer, each with a confidence and a label."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from tether._core import validate
from tether._core.types import Booleans, Floats, Integers

BLOCK = 1 << 18  # claims handled at once: small enough for the cache, large enough for numpy


@dataclass(frozen=True, eq=False)
class Claims:
    """The claims of many items: those of item i are `offsets[i]:offsets[i + 1]`.

    `scores` say how confident one is in a claim and `supported` whether it is true. An item may
    have no claim at all. Items are assumed exchangeable; claims within an item need not be.

    >>> Claims([0.9, 0.4, 0.7], [1, 0, 1], offsets=[0, 2, 3])
    Claims(items=2, claims=3, supported=2)
    """

    scores: Floats
    supported: Booleans
    offsets: Integers

    def __init__(self, scores: Any, supported: Any, offsets: Any) -> None:
        scores = finite("scores", scores)
        supported = binary("supported", supported)
        validate.same_length("supported", supported, "scores", len(scores))
        object.__setattr__(self, "scores", scores)
        object.__setattr__(self, "supported", supported)
        object.__setattr__(self, "offsets", _offsets(offsets, len(scores)))

    @classmethod
    def from_table(cls, scores: Any, supported: Any, items: Any) -> Claims:
        """Claims from three columns of one row a claim; `items` names the item of each.

        Rows of one item need not stand together. Items are ordered by name. An item without any
        row cannot be seen here: give `offsets` when there are such items.
        """
        scores, supported = finite("scores", scores), binary("supported", supported)
        names = validate.labels("items", items, len(scores))
        validate.same_length("supported", supported, "scores", len(scores))
        _, inverse, sizes = np.unique(names, return_inverse=True, return_counts=True)
        order = np.argsort(inverse, kind="stable")
        return cls(scores[order], supported[order], np.concatenate([[0], np.cumsum(sizes)]))

    def __repr__(self) -> str:
        return (
            f"Claims(items={self.items}, claims={len(self.scores)}, "
            f"supported={int(self.supported.sum())})"
        )

    @property
    def items(self) -> int:
        """How many items there are."""
        return len(self.offsets) - 1

    def take(self, items: Any) -> Claims:
        """The claims of some items only, by number in the order given, or by a boolean mask."""
        items = _chosen(items, self.items)
        sizes = np.diff(self.offsets)[items]
        ends = np.cumsum(sizes)
        rows = np.repeat(self.offsets[items] - (ends - sizes), sizes) + np.arange(sizes.sum())
        return _unchecked(self.scores[rows], self.supported[rows], np.concatenate([[0], ends]))

    def between(self, first: int, stop: int) -> Claims:
        """The claims of neighbouring items, read in place."""
        offsets = self.offsets[first : stop + 1]
        where = slice(int(offsets[0]), int(offsets[-1]))
        return _unchecked(self.scores[where], self.supported[where], offsets - offsets[0])

    def blocks(self) -> Iterator[tuple[Integers, Any]]:
        """Blocks of items of one size: the items, and where their claims are.

        Where is a slice when the items are neighbours (read in place, without a copy), or else an
        array of positions, one row an item. Items without claims come in no block.
        """
        sizes = np.diff(self.offsets)
        alike = bool((sizes == sizes[0]).all())
        for size in np.unique(sizes[sizes > 0]):
            members = np.arange(len(sizes)) if alike else np.flatnonzero(sizes == size)
            rows = max(1, BLOCK // int(size))
            for start in range(0, len(members), rows):
                items = members[start : start + rows]
                first = self.offsets[items]
                if alike:
                    yield items, slice(int(first[0]), int(first[-1] + size))
                else:
                    yield items, first[:, None] + np.arange(size)


def _unchecked(scores: Floats, supported: Booleans, offsets: Integers) -> Claims:
    """Claims from arrays already known to be good (they may be empty)."""
    claims = object.__new__(Claims)
    for name, value in (("scores", scores), ("supported", supported), ("offsets", offsets)):
        object.__setattr__(claims, name, validate.frozen(value))
    return claims


def _chosen(items: Any, count: int) -> Integers:
    array = np.asarray(items)
    if array.dtype == np.bool_:
        validate.same_length("items", array, "claims", count)
        return np.flatnonzero(array)
    if array.size == 0:
        return np.zeros(0, dtype=np.int64)
    if array.dtype.kind not in "iu" or array.ndim != 1:
        raise TypeError(
            "items must be numbers of items, or a boolean for each, got dtype "
            f"{array.dtype} and shape {array.shape}"
        )
    if array.min() < 0 or array.max() >= count:
        bad = (array < 0) | (array >= count)
        validate.reject("items", array, bad, f"a number from 0 to {count - 1}")
    return array


def finite(name: str, values: Any) -> Floats:
    """Scores: real and finite. NaN has no place in an order, and infinity leaves no safer one."""
    array = validate.floats(name, values)
    for start in range(0, len(array), BLOCK):
        if not np.isfinite(array[start : start + BLOCK]).all():
            validate.reject(name, array, ~np.isfinite(array), "a finite score")
    return array


def binary(name: str, values: Any) -> Booleans:
    """Labels: booleans, or numbers that are 0 or 1."""
    validate.reject_masked(name, values)
    array = np.asarray(values)
    if array.dtype == np.bool_ and array.ndim == 1 and array.size:
        return validate.frozen(array)
    numbers = validate.floats(name, array)
    bad = (numbers != 0) & (numbers != 1)
    if bad.any():
        validate.reject(name, numbers, bad, "a label of 0 or 1")
    return validate.frozen(numbers.astype(np.bool_))


def _offsets(values: Any, claims: int) -> Integers:
    validate.reject_masked("offsets", values)
    array = np.asarray(values)
    if array.dtype.kind not in "iu" or array.ndim != 1 or len(array) < 2:
        raise ValueError(
            "offsets must be one-dimensional integers, one more than there are items, "
            f"got dtype {array.dtype} and shape {array.shape}"
        )
    array = array.astype(np.int64)
    if array[0] != 0:
        raise ValueError(f"offsets must start at 0, got offsets[0] = {array[0]}")
    falls = np.flatnonzero(np.diff(array) < 0)
    if len(falls):
        i = int(falls[0])
        raise ValueError(
            f"offsets must not fall, got offsets[{i}] = {array[i]} before "
            f"offsets[{i + 1}] = {array[i + 1]}"
        )
    if array[-1] != claims:
        raise ValueError(f"offsets must end at the {claims} claims there are, got {array[-1]}")
    return validate.frozen(array)
