"""Rows that a function visits must be the same in every pass: a beta of two passes mixes them."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tether._core import frames
from tether._core.bit_sums import MODULUS, sum_bits, sum_paired_bits
from tether._core.kernels import Kernel, merge_all, needs_whole_parts


@dataclass(frozen=True)
class Visited:
    """A summary, with the number of rows and sums of the bits of each column and of pairs of them.

    None of these depends on the order of rows and parts.
    """

    summary: Any
    rows: int
    sums: Mapping[str, int]
    number: int = 0
    """Which pass it was made in."""

    def merge(self, other: Visited) -> Visited:
        """What was visited in both."""
        sums = {
            name: (self.sums.get(name, 0) + other.sums.get(name, 0)) % MODULUS
            for name in self.sums.keys() | other.sums.keys()
        }
        summary = merge_all((self.summary, other.summary))
        return Visited(summary, self.rows + other.rows, sums, self.number)

    def difference(self, earlier: Visited) -> str | None:
        """How these rows differ from those of an earlier pass, or None."""
        if self.rows != earlier.rows:
            return f"{earlier.rows:,} rows and then {self.rows:,}"
        for name in self.sums.keys() & earlier.sums.keys():
            if self.sums[name] != earlier.sums[name]:
                return f"other values of '{name}'"
        return None

    def joined(self, earlier: Visited) -> Visited:
        """What is known of the rows after both passes; the summaries are left out."""
        return Visited(None, self.rows, {**earlier.sums, **self.sums}, self.number)


@dataclass(frozen=True)
class Visiting:
    """A kernel that also notes which rows it was given, and in which pass.

    With `paired` also which values stand beside each other: an engine keeps rows together.
    """

    kernel: Kernel
    number: int = 0
    paired: bool = False

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
        numbers = {name: values for name, values in read.items() if values.dtype.kind in "biuf"}
        sums = {name: sum_bits(values) for name, values in numbers.items()}
        flat = [name for name, values in numbers.items() if self.paired and values.ndim == 1]
        for first, second in itertools.pairwise(flat):
            pair = f"{first}' beside '{second}"
            sums[pair] = sum_paired_bits(numbers[first], numbers[second])
        return Visited(summary, rows, sums, self.number)
