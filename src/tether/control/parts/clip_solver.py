"""The largest beta of clip without contexts, from two passes over the rows.

The first pass makes tables of bins, the second collects the terms of the bins that the tables do
not certify, normally one. If these hold too many terms, they are divided into finer bins instead,
in one more pass each time; the finest are narrower than rounding, and are solved as they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from tether._core.types import Booleans, Floats
from tether.control.parts.binned_condition import BinnedCondition, Cells
from tether.control.parts.log_sum import LOG_TWO
from tether.control.parts.ratio_bins import Bins, BinTable, TopTable, fine_parts
from tether.control.solvers.segments import Carry, Segments, Terms

MAX_COLLECTED = 1 << 20
"""The most terms that are collected; more are divided into finer bins."""
MAX_DIVIDED = 64
"""The most bins that are divided to find out what leaving out a row changes."""
MAX_LEVELS = 3
"""How often bins are divided to find out what leaving out a row changes."""


@dataclass(frozen=True)
class Collected:
    """Terms of one constraint in some intervals, in order of their ratios, and candidates."""

    ratio: Floats
    amount: Floats
    log_base: Floats
    top_ratio: Floats
    top_base: Floats

    def inside(
        self, left: float, right: float, log_worst: float, scale: int, raised: float = 0.0
    ) -> Terms:
        """The terms with ratios in [left, right), with amounts over 2^scale, and raised if < 0."""
        rows = slice(*np.searchsorted(self.ratio, (left, right)))
        tops = slice(*np.searchsorted(self.top_ratio, (left, right)))
        base = self.log_base[rows] - scale * LOG_TWO
        plain = np.ldexp(self.amount[rows], -scale)
        amount = np.where(
            self.log_base[rows] == 0, plain, self.amount[rows] * np.exp(np.minimum(base, 700.0))
        )
        if raised:
            amount = np.where(amount < 0, amount * (1 + raised), amount)
        top = np.exp(np.minimum(self.top_base[tops] + log_worst - scale * LOG_TWO, 700.0))
        return Terms(self.ratio[rows], amount, self.top_ratio[tops], top)


class TermsInParts(Protocol):
    """Where the terms of the condition come from, for several constraints at once."""

    def tables(self, bins: Bins) -> tuple[Mapping[str, BinTable], TopTable]:
        """Tables of all terms, by constraint, and of the candidates."""
        ...

    def collect(self, left: Floats, right: Floats) -> Mapping[str, Collected]:
        """The terms in the intervals [left, right), by constraint."""
        ...


@dataclass(frozen=True)
class Band:
    """h between the earliest and the latest beta without a row, with amounts over 2^scale."""

    earliest: float
    latest: float
    segments: Segments | None
    complete: bool
    scale: int


@dataclass(frozen=True)
class Request:
    """A first crossing that is asked for: of h of a constraint plus a number."""

    name: str
    extra: tuple[int, float] = (1, -np.inf)


class BinnedClip:
    """First crossings of h for several constraints, whose tables are kept."""

    def __init__(
        self,
        terms: TermsInParts,
        tables: Mapping[str, BinTable],
        tops: TopTable,
        log_worst: Mapping[str, float],
        constant_base: float = -np.inf,
    ) -> None:
        self.terms = terms
        self.conditions = {
            name: BinnedCondition(
                Cells.build(Bins(), table, tops),
                log_worst[name],
                constant_base + log_worst[name] if constant_base > -np.inf else -np.inf,
            )
            for name, table in tables.items()
        }
        self.level = 0
        self._kept: tuple[Floats, Floats, Mapping[str, Collected]] | None = None

    def first_crossings(self, requests: list[Request]) -> list[float]:
        """The log of the largest beta for each request; −inf where there is none."""
        while True:
            asked = [(each, self._condition(each)) for each in requests]
            passing = [condition for _, condition in asked if condition.passes_at_zero()]
            left, right, count = self._doubtful(passing)
            if count <= MAX_COLLECTED or fine_parts(left, right) == 1:
                break
            self._divide(left, right)
        collected: Mapping[str, Collected] = {}
        if len(left):
            collected = self._collect(left, right, count)
        return [self._crossing(condition, collected.get(each.name)) for each, condition in asked]

    def band(self, name: str, earliest: float, latest: float) -> Band:
        """H between two betas: what decides where it crosses without any one row."""
        condition = self.conditions[name]
        edge, cells = condition.edge, condition.cells
        if earliest == latest or not len(edge):
            return Band(earliest, latest, None, complete=False, scale=0)
        start = float(edge[max(int(np.searchsorted(edge, earliest, side="right")) - 1, 0)])
        stop = float(edge[min(int(np.searchsorted(edge, latest)), len(edge) - 1)])
        stop = max(start, stop)
        inside = (cells.left >= start) & (cells.right <= stop)
        count = int(cells.count[inside].sum())
        left, right = cells.left[inside], cells.right[inside]
        few = inside.sum() <= MAX_DIVIDED and self.level < MAX_LEVELS
        if count > MAX_COLLECTED and few and fine_parts(left, right) > 1:
            self._divide(left, right)
            return self.band(name, earliest, latest)
        carry, scale = condition.carry(start, inside)
        terms = NOTHING
        if inside.any():
            found = self._collect(np.array([start]), np.array([stop]), count)[name]
            terms = found.inside(start, stop, condition.log_worst, scale)
        segments = Segments.build(terms, start, stop, carry)
        return Band(earliest, latest, segments, complete=bool(stop == edge[-1]), scale=scale)

    def _collect(self, left: Floats, right: Floats, count: int) -> Mapping[str, Collected]:
        """The terms in intervals, or points in their place if there are too many."""
        if count > MAX_COLLECTED:
            return {name: self._points(each.cells) for name, each in self.conditions.items()}
        if self._kept is not None:
            from_, to, kept = self._kept
            place = np.maximum(np.searchsorted(from_, left, side="right") - 1, 0)
            if (left >= from_[place]).all() and (right <= to[place]).all():
                return kept
        # Everything between the first and the last interval is needed soon, if it is not too much.
        if self._count_between(left[0], right[-1]) <= MAX_COLLECTED:
            left, right = left[:1], right[-1:]
        self._kept = (left, right, self.terms.collect(left, right))
        return self._kept[2]

    def _count_between(self, left: float, right: float) -> int:
        """How many terms there are between two edges."""
        counts = []
        for each in self.conditions.values():
            chosen = (each.cells.left >= left) & (each.cells.right <= right)
            counts.append(int(each.cells.count[chosen].sum()))
        return max(counts)

    def _condition(self, request: Request) -> BinnedCondition:
        condition = self.conditions[request.name]
        if request.extra[1] == -np.inf:
            return condition.raised_by_tie()
        return replace(condition, extra=request.extra)

    def _doubtful(self, conditions: list[BinnedCondition]) -> tuple[Floats, Floats, int]:
        """The cells that some condition does not certify, and how many terms they hold."""
        intervals: dict[float, tuple[float, int]] = {}
        for each in conditions:
            for _, cell in each.doubtful:
                if cell >= 0:
                    start, end = float(each.cells.left[cell]), float(each.cells.right[cell])
                    count = max(int(each.cells.count[cell]), intervals.get(start, (0.0, 0))[1])
                    intervals[start] = (end, count)
        left = np.array(sorted(intervals))
        right = np.array([intervals[each][0] for each in left.tolist()])
        return left, right, sum(count for _, count in intervals.values())

    def _divide(self, left: Floats, right: Floats) -> None:
        """Replace cells by finer ones, in one pass."""
        bins = Bins(left, right, fine_parts(left, right))
        tables, tops = self.terms.tables(bins)
        for name, condition in self.conditions.items():
            opened: Booleans = np.isin(condition.cells.left, left)
            finer = Cells.build(bins, tables[name], tops)
            cells = condition.cells.replaced(opened, finer)
            self.conditions[name] = replace(condition, cells=cells)
        self.level += 1

    def _points(self, cells: Cells) -> Collected:
        """Cells as terms at their mean ratios, of each sign: at the edges of cells h is unchanged.

        The finest cells are narrower than rounding.
        """
        used = [np.isfinite(logs) for logs in cells.log_size]
        ratio = np.concatenate(
            [_inside(cells, cells.log_size[sign], cells.log_rising[sign]) for sign in (0, 1)]
        )
        signs = np.repeat([1.0, -1.0], [int(each.sum()) for each in used])
        base = np.concatenate([cells.log_size[sign][used[sign]] for sign in (0, 1)])
        order = np.argsort(ratio, kind="stable")
        top_ratio = _inside(cells, cells.top_base, cells.top_rising)
        top_base = cells.top_base[np.isfinite(cells.top_base)]
        return Collected(ratio[order], signs[order], base[order], top_ratio, top_base)

    def _crossing(self, condition: BinnedCondition, collected: Collected | None) -> float:
        if not condition.passes_at_zero():
            return -np.inf
        edge = condition.edge
        for number, cell in condition.doubtful:
            left, right = float(edge[number]), float(edge[number + 1])
            inside = np.zeros(len(condition.cells.left), dtype=np.bool_)
            inside[cell] = cell >= 0
            carry, scale = condition.carry(left, inside)
            terms = NOTHING
            if cell >= 0:
                assert collected is not None
                terms = collected.inside(left, right, condition.log_worst, scale, condition.raised)
            crossing = sorted_crossing(terms, left, right, carry)
            if crossing is not None:
                return crossing
        positive, negative = condition.parts
        if len(edge) > 1 and (failing := np.flatnonzero(positive[1:] > negative[1:] + 1e-9)).size:
            return float(edge[failing[0] + 1])
        last = float(edge[-1])
        carry, _ = condition.carry(last, np.zeros(len(condition.cells.left), dtype=np.bool_))
        return float(Segments.build(NOTHING, last, last, carry).roots(np.array([1]))[0])


NOTHING = Terms(*np.empty((4, 0)))


def _inside(cells: Cells, log_size: Floats, log_rising: Floats) -> Floats:
    """The log ratio at which a term of each cell has both of its sums; inside, up to rounding."""
    used = np.isfinite(log_size)
    last = np.nextafter(cells.right[used], -np.inf)
    return np.asarray(np.clip(log_rising[used] - log_size[used], cells.left[used], last))


def sorted_crossing(terms: Terms, lo: float, hi: float, carry: Carry) -> float | None:
    """The first crossing in [lo, hi], or None, by sorting the ratios."""
    segments = Segments.build(terms, lo, hi, carry)
    positive = np.flatnonzero(segments.value > 0)
    if len(positive) == 0:
        return None
    if positive[0] == 0:
        return lo
    return min(float(segments.roots(positive[:1])[0]), float(segments.edge[positive[0]]))
