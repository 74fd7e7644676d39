"""The condition of clip without contexts, from tables of bins.

With t = log β and as in `tether.control.solvers.segments`, h(t) = Σ a_i·min(ρ_i/β, 1) plus
max_j u_j·min(ρ_j/β, 1). At the edges of bins the positive and the negative part of h are known.
Between two edges both parts decrease, and multiplied by β both increase; so an interval is
certified where the positive part at one end is at most the negative part at the other. What is left
is opened: its terms are collected, and h is solved in closed form between its ratios.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from tether._core.ties import raised_by_tie
from tether._core.types import Booleans, Floats, Integers
from tether.control.parts.log_sum import LOG_TWO
from tether.control.parts.ratio_bins import (
    LOG_POWER,
    LOWER_DIGITS,
    LOWER_SCALE,
    POWER_DIGITS,
    UNIT_DIGITS,
    Bins,
    BinTable,
    TopTable,
)
from tether.control.solvers.segments import MAX_LOG_RANGE, Carry

CERTIFIED_MARGIN = 1e-9
"""By how much, in logs, a comparison of sums must be clear to count as certain."""
LONGEST_GAP = 128.0
"""The longest interval of log beta without a ratio that is solved at once."""
KEPT_DIGITS = 512
"""How many binary digits of an integer sum are turned into a float."""


@dataclass(frozen=True)
class Cells:
    """Bins [left, right) in order, with the sums of their terms; those of one level or of several.

    `log_size` and `log_rising` hold, for the positive and the negative terms, the logs of Σ|a| and
    of Σ|a|·ρ; the candidates of the test weight have the largest log base and log base + log ratio.
    `table` has the digits of the sums, by `cell`.
    """

    left: Floats
    right: Floats
    count: Integers
    log_size: Floats
    log_rising: Floats
    top_base: Floats
    top_rising: Floats
    table: BinTable
    cell: Integers

    @classmethod
    def build(cls, bins: Bins, table: BinTable, tops: TopTable) -> Cells:
        """The bins in which a table has terms or candidates."""
        number = np.union1d(table.bin, tops.number)
        left, right = bins.edges(number)
        cell = np.searchsorted(number, table.bin)
        top = np.searchsorted(number, tops.number)
        count = np.bincount(cell, table.count, len(number)).astype(np.int64)
        count[top] += tops.count
        top_base, top_rising = np.full((2, len(number)), -np.inf)
        top_base[top], top_rising[top] = tops.base, tops.rising
        logs = _table_logs(table)
        log_size, log_rising = np.full((2, 2, len(number)), -np.inf)
        for sign in (0, 1):
            chosen = table.negative == bool(sign)
            for logs_of_table, per_cell in ((logs[0], log_size), (logs[1], log_rising)):
                np.logaddexp.at(per_cell[sign], cell[chosen], logs_of_table[chosen])
        return cls(
            left, right, count, log_size, log_rising + right, top_base, top_rising, table, cell
        )

    def replaced(self, opened: Booleans, finer: Cells) -> Cells:
        """The same with some cells replaced by finer ones."""
        kept = ~opened
        order = np.argsort(np.concatenate((self.left[kept], finer.left)), kind="stable")
        place = np.empty(len(order), dtype=np.int64)
        place[order] = np.arange(len(order))
        new_number = np.cumsum(kept) - 1
        rows = kept[self.cell]
        coarse = self.table.of_bins(rows)
        table = BinTable(
            np.concatenate((coarse.key, finer.table.key)),
            np.concatenate((coarse.count, finer.table.count)),
            np.concatenate((coarse.digits, finer.table.digits)),
        )
        cell = np.concatenate((new_number[self.cell[rows]], int(kept.sum()) + finer.cell))

        names = ("left", "right", "count", "log_size", "log_rising", "top_base", "top_rising")
        joined: dict[str, Any] = {}
        for name in names:
            values = (getattr(self, name)[..., kept], getattr(finer, name))
            joined[name] = np.concatenate(values, axis=-1)[..., order]
        return Cells(**joined, table=table, cell=place[cell])


@dataclass(frozen=True)
class BinnedCondition:
    """h at the edges of its cells, and what is certain between them.

    `log_worst` is the log of the test point's amount, `log_constant` that of a candidate with an
    infinite ratio, and `extra` a number that is added to h, as a sign and a log. `raised` is the
    share by which negative amounts are raised, far below the margin of what counts as certain.
    """

    cells: Cells
    log_worst: float
    log_constant: float = -np.inf
    extra: tuple[int, float] = (1, -np.inf)
    raised: float = 0.0

    @cached_property
    def edge(self) -> Floats:
        """All edges of cells, in order, and points between cells that are far apart.

        Over a longer interval one scale does not hold what falls and what does not fall with beta.
        """
        edge = np.union1d(self.cells.left, self.cells.right)
        far = np.flatnonzero(np.diff(edge) > LONGEST_GAP)
        between = [np.arange(edge[at] + LONGEST_GAP, edge[at + 1], LONGEST_GAP) for at in far]
        return np.union1d(edge, np.concatenate(between)) if len(far) else edge

    @cached_property
    def parts(self) -> tuple[Floats, Floats]:
        """Logs of the positive and of the negative part of h at every edge."""
        cells, edge = self.cells, self.edge
        above_from = np.searchsorted(cells.left, edge, side="left")
        below_to = np.searchsorted(cells.right, edge, side="right")

        def suffix(logs: Floats, combine: np.ufunc) -> Floats:
            run = combine.accumulate(logs[::-1])[::-1]
            return np.append(run, -np.inf)[above_from]

        def prefix(logs: Floats, combine: np.ufunc) -> Floats:
            run = combine.accumulate(logs)
            return np.concatenate(([-np.inf], run))[below_to] - edge

        signed = [
            np.logaddexp(
                suffix(cells.log_size[sign], np.logaddexp),
                prefix(cells.log_rising[sign], np.logaddexp),
            )
            for sign in (0, 1)
        ]
        top = np.maximum(suffix(cells.top_base, np.maximum), prefix(cells.top_rising, np.maximum))
        top = np.maximum(top + self.log_worst, self.log_constant)
        signed[0] = np.logaddexp(signed[0], top)
        sign, log_extra = self.extra
        which = 0 if sign > 0 else 1
        signed[which] = np.logaddexp(signed[which], log_extra)
        return signed[0], signed[1]

    @cached_property
    def doubtful(self) -> list[tuple[int, int]]:
        """Intervals that are not certified up to the first that fails at its end, in order.

        Each is the number of its left edge, and that of its cell or −1 if no ratio lies in it.
        """
        positive, negative = self.parts
        edge = self.edge
        falling = negative[1:]
        rising = negative[:-1] + edge[:-1] - edge[1:]
        certain = (positive[:-1] + CERTIFIED_MARGIN <= falling) & (falling > -np.inf)
        certain |= (positive[1:] + CERTIFIED_MARGIN <= rising) & (rising > -np.inf)
        failing = np.flatnonzero(positive[1:] > negative[1:] + CERTIFIED_MARGIN)
        stop = int(failing[0]) + 1 if len(failing) else len(edge) - 1
        found = np.flatnonzero(~certain[:stop])
        cell = np.minimum(np.searchsorted(self.cells.left, edge[found]), len(self.cells.left) - 1)
        cell = np.where(self.cells.left[cell] == edge[found], cell, -1)
        return list(zip(found.tolist(), cell.tolist(), strict=True))

    def passes_at_zero(self) -> bool:
        """Whether h is at most zero at a beta of zero, with a row below alpha."""
        return bool(self.cells.table.negative.any()) and not self._at_zero()[0] > 0

    def raised_by_tie(self) -> BinnedCondition:
        """The same with negative amounts raised so that a tie at a beta of zero passes."""
        excess, scale = self._at_zero()
        return replace(self, raised=raised_by_tie(excess, below_sum(self.cells.table, scale)))

    def _at_zero(self) -> tuple[float, int]:
        """H at a beta of zero over 2^scale, and the scale."""
        table = self.cells.table
        top = float(self.cells.top_base.max(initial=-np.inf)) + self.log_worst
        top = max(top, self.log_constant)
        largest = float(_table_logs(table)[0].max(initial=-np.inf))
        scale = power_above(max(largest, top, self.extra[1]))
        total = self._sum(table, scale) + scaled(1, top, scale) + scaled(*self.extra, scale)
        return total, scale

    def _sum(self, table: BinTable, scale: int) -> float:
        """The sum of terms over 2^scale, the negative ones raised."""
        total = signed_sum(table, scale)
        return total - self.raised * below_sum(table, scale) if self.raised else total

    def carry(self, start: float, inside: Booleans) -> tuple[Carry, int]:
        """What cells outside an interval contribute inside it, over 2^scale; and the scale.

        The interval begins at an edge, and the cells in it are given.
        """
        cells, left = self.cells, int(np.searchsorted(self.edge, start))
        is_above = (cells.left >= start) & ~inside
        is_below = (cells.right <= start) & ~inside
        top_above = float(cells.top_base[is_above].max(initial=-np.inf)) + self.log_worst
        top_above = max(top_above, self.log_constant)
        top_below = float(cells.top_rising[is_below].max(initial=-np.inf)) - start
        top_below += self.log_worst
        above = cells.table.of_bins(is_above[cells.cell])
        largest = max(*(float(part[left]) for part in self.parts), top_above, self.extra[1])
        scale = power_above(largest)
        with np.errstate(under="ignore"):
            terms = np.exp(cells.log_rising[:, is_below] - start - scale * LOG_TWO)
        carry = Carry(
            above=self._sum(above, scale) + scaled(*self.extra, scale),
            below=math.fsum(terms[0].tolist() + (-(1 + self.raised) * terms[1]).tolist()),
            top_above=scaled(1, top_above, scale),
            top_below=scaled(1, top_below, scale),
        )
        return carry, scale


def power_above(log: float) -> int:
    """The power of two above e^log, as a scale; 0 for zero."""
    return math.ceil(log / LOG_TWO) if math.isfinite(log) else 0


def scaled(sign: int, log: float, scale: int) -> float:
    """sign·e^log over 2^scale."""
    return sign * math.exp(min(log - scale * LOG_TWO, MAX_LOG_RANGE)) if log > -math.inf else 0.0


def signed_sum(table: BinTable, scale: int) -> float:
    """The sum of all terms over 2^scale, rounded once: integers until the end."""
    total, power = 0, table.power
    lowest = int(power.min(initial=0))
    for each in np.unique(power).tolist():
        chosen = power == each
        sign = np.where(table.negative[chosen], -1, 1)
        upper = int((table.digits[chosen, 0] * sign).sum())
        lower = int((table.digits[chosen, 1] * sign).sum())
        total += ((upper << LOWER_DIGITS) + lower) << (POWER_DIGITS * (each - lowest))
    spare = max(total.bit_length() - KEPT_DIGITS, 0)
    return math.ldexp(total >> spare, spare + POWER_DIGITS * lowest - UNIT_DIGITS - scale)


def below_sum(table: BinTable, scale: int) -> float:
    """What the negative terms add up to, without its sign, over 2^scale."""
    return -signed_sum(table.of_bins(table.negative), scale)


def _table_logs(table: BinTable) -> tuple[Floats, Floats]:
    """Logs of the two sums in every row of a table, the second relative to the right edge."""

    def logs(first: int) -> Floats:
        with np.errstate(divide="ignore"):
            sums = np.log(table.digits[:, first] * LOWER_SCALE + table.digits[:, first + 1])
        return np.asarray(sums - UNIT_DIGITS * LOG_TWO + table.power * LOG_POWER)

    return logs(0), logs(2)
