"""How many rows share their stored draws: they foresee no more than those of one row.

Rows of one context have the same draws where draws were made once per context and joined to the
rows. What no draw foresees depends on the largest share of rows with the same ones
(`tether.control.promise`), and what their common noise costs on all groups of rows
(`tether.control.shared_draws`). Rows with the same draws are taken to share them, though a few
draws of a few actions can be the same by chance.

Up to `COUNTED_GROUPS` different draws are counted exactly. With more of them the rows of several
are counted together, which is no less. There, rows are said to share draws only if counts are
larger or more uneven than chance makes those of rows with draws of their own.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tether._core.types import Floats, Integers

Hashes = NDArray[np.uint64]
COUNTED_GROUPS = 1 << 16
"""So many groups of rows with the same draws are told apart."""
DIGITS_SCALE = float(1 << 26)
"""Numbers are added up as integer multiples of its inverse squared."""
CHANCE_DEVIATIONS = 6.0
"""How many standard deviations are no chance."""


@dataclass(frozen=True)
class SharedDraws:
    """Hashes of draws, in order, and how many rows have each; or of their leading digits.

    Whether it is the digits depends on all hashes only, not on the order in which they come.
    """

    hashes: Hashes
    rows: Integers
    exact: bool = True

    @classmethod
    def of(cls, hashes: Hashes) -> SharedDraws:
        """Those of a part, with one hash per row."""
        return cls._limited(*np.unique(hashes, return_counts=True))

    def merge(self, other: SharedDraws) -> SharedDraws:
        """Those of both."""
        pair = (self, other)
        if not (self.exact and other.exact):
            pair = (self._grouped(), other._grouped())
        hashes, place = np.unique(
            np.concatenate([each.hashes for each in pair]), return_inverse=True
        )
        rows = np.zeros(len(hashes), dtype=np.int64)
        np.add.at(rows, place, np.concatenate([each.rows for each in pair]))
        if not pair[0].exact:
            return SharedDraws(hashes, rows, exact=False)
        return self._limited(hashes, rows)

    @property
    def shared(self) -> int:
        """How many rows have the draws of another one; at most, if they are counted together."""
        total = int(self.rows.sum())
        if self.exact:
            return total - len(self.rows)
        mean = total / COUNTED_GROUPS
        squares = float((self.rows.astype(np.float64) ** 2).sum())
        pairs = (squares - total * mean) / total  # 1 if no rows share draws
        uneven = pairs - 1 > CHANCE_DEVIATIONS * math.sqrt(2 / COUNTED_GROUPS)
        high = self.rows.max() > mean + 2 * CHANCE_DEVIATIONS * (math.sqrt(mean) + 1)
        return total - len(self.rows) if uneven or high else 0

    @property
    def largest(self) -> int:
        """How many rows have the same draws, at most."""
        return int(self.rows.max()) if self.shared else 1

    @property
    def different(self) -> int:
        """How many different draws there are, at least."""
        return len(self.rows) if self.shared else int(self.rows.sum())

    @classmethod
    def _limited(cls, hashes: Hashes, rows: Integers) -> SharedDraws:
        found = cls(hashes, rows)
        return found if len(hashes) <= COUNTED_GROUPS else found._grouped()

    def _grouped(self) -> SharedDraws:
        """The same by the leading digits of the hashes."""
        if not self.exact:
            return self
        groups, place = np.unique(group_keys(self.hashes, exact=False), return_inverse=True)
        rows = np.zeros(len(groups), dtype=np.int64)
        np.add.at(rows, place, self.rows)
        return SharedDraws(groups, rows, exact=False)


def group_keys(hashes: Hashes, exact: bool) -> Hashes:
    """By what the rows with these hashes are counted: the hashes, or their leading digits."""
    return hashes if exact else np.asarray(hashes // np.uint64(2**64 // COUNTED_GROUPS))


@dataclass(frozen=True)
class GroupSums:
    """Sums of several numbers from 0 to 1 over the rows of each group, in integers."""

    groups: Hashes
    digits: Integers
    """Of each group and number the upper and the lower digits of the sum."""

    @classmethod
    def of(cls, groups: Hashes, numbers: Floats) -> GroupSums:
        """Those of the rows of a part; `numbers` has one row per number."""
        scaled = numbers * DIGITS_SCALE
        upper = np.floor(scaled)
        digits = np.stack((upper, np.floor((scaled - upper) * DIGITS_SCALE)), axis=-1)
        return cls._added(groups, digits.swapaxes(0, 1).astype(np.int64))

    def merge(self, other: GroupSums) -> GroupSums:
        """Those of both."""
        groups = np.concatenate((self.groups, other.groups))
        return self._added(groups, np.concatenate((self.digits, other.digits)))

    @classmethod
    def _added(cls, groups: Hashes, digits: Integers) -> GroupSums:
        found, place = np.unique(groups, return_inverse=True)
        total = np.zeros((len(found), *digits.shape[1:]), dtype=np.int64)
        np.add.at(total, place, digits)
        return cls(found, total)

    @property
    def squares(self) -> list[float]:
        """The sum of the squares of the groups' sums, for each number."""
        sums = (self.digits[..., 0] + self.digits[..., 1] / DIGITS_SCALE) / DIGITS_SCALE
        return [math.fsum(column.tolist()) for column in (sums**2).T]
