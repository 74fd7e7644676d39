"""Rows that a function visits must be the same in every pass: a beta of two passes mixes them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tether._core import frames
from tether._core.bit_sums import MODULUS, sum_bits
from tether._core.kernels import Kernel, merge_all, needs_whole_parts


@dataclass(frozen=True)
class Visited:
    """A summary, with the number of rows and, for each column, the sum of the bits of its values.

    Neither depends on the order of rows and parts.
    """

    summary: Any
    rows: int
    sums: Mapping[str, int]

    def merge(self, other: Visited) -> Visited:
        """What was visited in both."""
        sums = {name: (bits + other.sums[name]) % MODULUS for name, bits in self.sums.items()}
        summary = merge_all((self.summary, other.summary))
        return Visited(summary, self.rows + other.rows, sums)

    def difference(self, earlier: Visited) -> str | None:
        """How these rows differ from those of an earlier pass, or None."""
        if self.rows != earlier.rows:
            return f"{earlier.rows:,} rows and then {self.rows:,}"
        for name in self.sums.keys() & earlier.sums.keys():
            if self.sums[name] != earlier.sums[name]:
                return f"other values of {name!r}"
        return None

    def joined(self, earlier: Visited) -> Visited:
        """What is known of the rows after both passes; the summaries are left out."""
        return Visited(None, self.rows, {**earlier.sums, **self.sums})


@dataclass(frozen=True)
class Visiting:
    """A kernel that also notes which rows it was given."""

    kernel: Kernel

    @property
    def columns(self) -> tuple[str, ...]:
        """Those of the kernel."""
        return self.kernel.columns

    @property
    def whole_parts(self) -> bool:
        """Whether the kernel must see the rows of one item together."""
        return needs_whole_parts(self.kernel)

    def partial(self, columns: Any) -> Visited:
        """The summary of a part, and what it was made from."""
        summary = self.kernel.partial(columns)  # it says what is wrong with the columns
        read = {name: np.asarray(frames.column(columns, name, name)) for name in self.columns}
        rows = max((len(values) for values in read.values()), default=0)
        return Visited(summary, rows, {name: _bits(values) for name, values in read.items()})


def _bits(values: Any) -> int:
    """The sum of the bits of numbers; 0 for anything else."""
    return sum_bits(values) if values.dtype.kind in "biuf" else 0
