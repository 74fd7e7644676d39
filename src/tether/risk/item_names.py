"""Whether an item is in several parts, which must not be, in little memory.

Where the names in each part lie between those of others, as in files that were written in order,
no item can be in two parts. Otherwise hashes of all names are compared: at once where they are
few, else some of them in each of several passes that read only the names.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tether._core import validate
from tether._core.kernels import Columns
from tether.risk.claim_parts import ClaimColumns

HASHES_AT_ONCE = 1 << 21
"""About how many hashes of names are in memory together."""
HASH_FACTOR, HASH_START = np.uint64(0x100000001B3), np.uint64(0xCBF29CE484222325)
"""Two constants that spread texts over 64 bits."""
SHARE_FACTOR = np.uint64(0x9E3779B97F4A7C15)
"""A constant that spreads integers in sequence over 64 bits."""

Hashes = NDArray[np.uint64]


@dataclass(frozen=True, eq=False)
class ItemNames:
    """How many items there are, the first and last name of each block, and a hash of each name."""

    n_items: int
    ends: tuple[tuple[Any, Any], ...]
    hashes: tuple[Hashes, ...] | None
    """None where there are too many to keep."""

    @classmethod
    def of(cls, names: NDArray[Any]) -> ItemNames:
        """Different names, in order."""
        return cls(len(names), ((names[0].item(), names[-1].item()),), (name_hashes(names),))

    def merge(self, other: ItemNames) -> ItemNames:
        """The names in both."""
        n_items, hashes = self.n_items + other.n_items, None
        if n_items <= HASHES_AT_ONCE and self.hashes is not None and other.hashes is not None:
            hashes = self.hashes + other.hashes
        return ItemNames(n_items, self.ends + other.ends, hashes)

    @property
    def n_shares(self) -> int:
        """In how many shares all hashes are compared."""
        return 1 if self.hashes is not None else -(-self.n_items // HASHES_AT_ONCE)

    def apart(self) -> bool:
        """Whether no two blocks overlap, so that no name can be in both."""
        ordered = sorted(self.ends)
        return all(before[1] < after[0] for before, after in pairwise(ordered))


@dataclass(frozen=True, eq=False)
class HashesResult:
    """Hashes of some of the names, once per part, and how many names there are."""

    n_items: int
    hashes: tuple[Hashes, ...]

    def merge(self, other: HashesResult) -> HashesResult:
        """The hashes of both."""
        return HashesResult(self.n_items + other.n_items, self.hashes + other.hashes)


@dataclass(frozen=True)
class ShareOfHashes:
    """The hashes of one of several shares of the names."""

    share: int
    shares: int

    def partial(self, names: NDArray[Any]) -> HashesResult:
        """Those in one part."""
        hashes = name_hashes(names)
        own = ((hashes * SHARE_FACTOR) >> np.uint64(33)) % np.uint64(self.shares)
        return HashesResult(len(names), (hashes[own == self.share],))


@dataclass(frozen=True, eq=False)
class NamesResult:
    """Names with some hashes, once per part in which they occur, and how many names there are."""

    n_items: int
    names: tuple[Any, ...]

    def merge(self, other: NamesResult) -> NamesResult:
        """The names in both."""
        return NamesResult(self.n_items + other.n_items, self.names + other.names)

    def in_several_parts(self) -> list[Any]:
        """The names that occur more than once, sorted."""
        return sorted(name for name, count in Counter(self.names).items() if count > 1)


@dataclass(frozen=True, eq=False)
class NamesOfHashes:
    """The names of the items whose hashes occur in several parts: two names may share a hash."""

    hashes: Hashes

    def partial(self, names: NDArray[Any]) -> NamesResult:
        """The names in one part."""
        found = names[np.isin(name_hashes(names), self.hashes)]
        return NamesResult(len(names), tuple(found.tolist()))


@dataclass(frozen=True)
class NameKernel:
    """A job on the different names of the items in each part, in order."""

    names: ClaimColumns
    job: ShareOfHashes | NamesOfHashes
    whole_parts: bool = True
    """A file is one part, so that the names in it are counted once."""

    @property
    def columns(self) -> tuple[str, ...]:
        """The column that is read."""
        return (self.names.items,)

    def partial(self, columns: Columns) -> HashesResult | NamesResult:
        """The summary of the job."""
        names = columns[self.names.items]
        return self.job.partial(np.unique(validate.labels("items", names, len(names))))


def repeated_hashes(hashes: tuple[Hashes, ...]) -> Hashes:
    """The hashes that occur more than once."""
    found = np.concatenate(hashes)
    found.sort()
    return np.unique(found[1:][found[1:] == found[:-1]])


def name_hashes(names: NDArray[Any]) -> Hashes:
    """A hash per name: an integer is its own; equal texts have equal hashes in every process."""
    if names.dtype.kind in "iu":
        return names.astype(np.uint64)
    texts = names.astype(np.str_)
    width = texts.dtype.itemsize // 4
    letters = np.ascontiguousarray(texts).view(np.uint32).reshape(len(texts), width)
    hashes = np.full(len(texts), HASH_START)
    for column in letters.T:
        code = column.astype(np.uint64)
        spread = (hashes ^ code) * HASH_FACTOR
        spread ^= spread >> np.uint64(29)
        hashes = np.where(code == 0, hashes, spread)  # padding behind shorter texts
    return hashes
