"""Order statistics of values in parts: the k-th smallest, exactly, for many k at once.

Floats are mapped to integers of the same order. The first pass counts by the leading 16 bits; as
long as the buckets that hold the wanted ranks have too many values to collect, a pass counts these
buckets by 12 more bits; then their values are collected. After all 64 bits a bucket is one value.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tether._core.types import Floats, Integers
from tether.control.parts.term_kernels import Gathered

MAX_GATHERED = 1 << 20
"""The most values that are collected."""
FIRST_BITS, MORE_BITS = 16, 12
"""How many bits of a value the first pass and each later one count by."""

Keys = NDArray[np.uint64]
Sources = Sequence[tuple[Any, Any]]
"""Pairs of a log or proposals in parts and a kernel that gives the values of a part."""


@dataclass(frozen=True)
class Counts:
    """How many values each bucket has."""

    counts: Integers

    def merge(self, other: Counts) -> Counts:
        """Those of both."""
        return Counts(self.counts + other.counts)


@dataclass(frozen=True)
class CountValues:
    """Values counted by more bits in buckets of their leading bits; all values at first."""

    values: Any
    bits: int
    buckets: Keys | None

    def of(self, part: Any) -> Counts:
        """The counts of a part."""
        keys = ordered_keys(self.values.of(part))
        if self.buckets is None:
            place = (keys >> np.uint64(64 - FIRST_BITS)).astype(np.int64)
            return Counts(np.bincount(place, minlength=1 << FIRST_BITS))
        keys, bucket = _inside(keys, self.bits, self.buckets)
        rest = (keys >> np.uint64(64 - self.bits - MORE_BITS)).astype(np.int64)
        place = (bucket << MORE_BITS) + (rest & ((1 << MORE_BITS) - 1))
        return Counts(np.bincount(place, minlength=len(self.buckets) << MORE_BITS))


@dataclass(frozen=True)
class GatherValues:
    """The values in some buckets."""

    values: Any
    bits: int
    buckets: Keys

    def of(self, part: Any) -> Gathered:
        """Those of a part."""
        values = self.values.of(part)
        kept = np.isin(ordered_keys(values) >> np.uint64(64 - self.bits), self.buckets)
        return Gathered(((values[kept],),))


def order_statistics(sources: Sources, ranks: Integers) -> Floats:
    """The values with the given ranks, from 0 on, among all values of the sources."""
    bits = FIRST_BITS
    counts = _reduced(sources, lambda values: CountValues(values, 0, None)).counts
    buckets = np.flatnonzero(counts).astype(np.uint64)
    counts = counts[counts > 0]
    before = np.zeros(len(ranks), dtype=np.int64)
    own = np.zeros(len(ranks), dtype=np.int64)
    while True:
        # Which bucket each rank lies in, and how many values come before that bucket.
        ends = np.cumsum(counts)
        if bits == FIRST_BITS:
            own = np.searchsorted(ends, ranks, side="right")
            before = ends[own] - counts[own]
        chosen, place = np.unique(own, return_inverse=True)
        if counts[chosen].sum() <= MAX_GATHERED or bits >= 64:
            break
        kernel = partial(CountValues, bits=bits, buckets=buckets[chosen])
        finer = _reduced(sources, kernel).counts.reshape(len(chosen), -1)
        within = np.cumsum(finer, axis=1)
        fine = np.array(
            [
                np.searchsorted(within[k], rank - start, side="right")
                for k, rank, start in zip(place, ranks, before, strict=True)
            ]
        )
        before = before + within[place, fine] - finer[place, fine]
        prefixes = (buckets[chosen][:, None] << np.uint64(MORE_BITS)) + np.arange(
            1 << MORE_BITS, dtype=np.uint64
        )
        flat = place * (1 << MORE_BITS) + fine
        occupied = np.unique(flat)
        own = np.searchsorted(occupied, flat)
        buckets, counts = prefixes.ravel()[occupied], finer.ravel()[occupied]
        bits += MORE_BITS
    if bits >= 64:
        return _values(buckets[own])
    gather = partial(GatherValues, bits=bits, buckets=buckets[chosen])
    (values,) = _reduced(sources, gather).sorted()
    keys = ordered_keys(values) >> np.uint64(64 - bits)
    first = np.searchsorted(keys, buckets[chosen])
    return np.asarray(values[first[place] + (ranks - before)])


def quantiles(
    source: Any,
    kernel: Any,
    rows: int,
    probabilities: Floats,
    transform: Callable[[Floats], Floats],
    shift: float,
) -> Floats:
    """Linear quantiles of transform(value − shift), for an increasing transform."""
    position = (rows - 1) * probabilities
    low = np.floor(position).astype(np.int64)
    high = np.minimum(low + 1, rows - 1)
    found = transform(order_statistics([(source, kernel)], np.append(low, high)) - shift)
    lower, upper = found[: len(low)], found[len(low) :]
    return np.asarray(lower + (position - low) * (upper - lower))


def ordered_keys(values: Floats) -> Keys:
    """Integers in the order of floats; −0 counts as 0."""
    bits = (values + 0.0).view(np.uint64)
    negative = bits >> np.uint64(63) == 1
    return np.where(negative, ~bits, bits | np.uint64(1 << 63))


def _values(keys: Keys) -> Floats:
    """The floats of ordered integers."""
    positive = keys >> np.uint64(63) == 1
    bits = np.where(positive, keys & np.uint64((1 << 63) - 1), ~keys)
    return bits.view(np.float64)


def _inside(keys: Keys, bits: int, buckets: Keys) -> tuple[Keys, Integers]:
    """The keys in some buckets, and which bucket each is in."""
    leading = keys >> np.uint64(64 - bits)
    place = np.minimum(np.searchsorted(buckets, leading), len(buckets) - 1)
    kept = buckets[place] == leading
    return keys[kept], place[kept]


def _reduced(sources: Sources, kernel: Callable[[Any], Any]) -> Any:
    total: Any = None
    for source, values in sources:
        (found,) = source.reduce(kernel(values))
        total = found if total is None else total.merge(found)
    return total
