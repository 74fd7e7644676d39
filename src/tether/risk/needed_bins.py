"""Which bins of scores may hold the candidate at which a method stops.

The sum of losses is known at the end of every bin, and inside of it lies between its value at the
beginning plus all rises and minus all falls. So most bins certainly pass or certainly fail.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tether._core.types import Booleans, Floats
from tether.risk.exact_sums import ExactSums
from tether.risk.score_table import LossColumn, ScoreTable

SLACK = 1e-11
"""How close to a limit, relatively, a sum counts as doubtful: above rounding, below a tie."""
MARGIN_BINS = 2
"""How many bins in front of the doubtful ones are collected as well, where items are."""


class Reach(NamedTuple):
    """The sums of losses that matter to a method: from `low` to `high`, with `limit` between them.

    It stops before the first sum above the limit, or at the boldest candidate whose sum is at most
    the limit.
    """

    low: float
    limit: float
    high: float
    boldest: bool


class BinSums(NamedTuple):
    """The sums of one loss along the bins, safest first."""

    sums: Floats
    """Before the first bin and after each."""
    largest: Floats
    """At most this inside each bin."""
    smallest: Floats
    """At least this inside each bin."""

    @classmethod
    def of(cls, column: LossColumn, bound: float, single: Booleans, *, larger: bool) -> BinSums:
        """Add up the bins in the order in which thresholds meet them."""
        order = slice(None, None, -1) if larger else slice(None)
        totals = ExactSums(column.totals.high[order], column.totals.low[order])
        rises = ExactSums(column.rises.high[order], column.rises.low[order])
        falls = ExactSums(rises.high - totals.high, rises.low - totals.low)
        sums = totals.running(column.start).as_floats() * bound
        largest = np.where(single[order], sums[1:], sums[:-1] + rises.as_floats() * bound)
        smallest = np.where(single[order], sums[1:], sums[:-1] - falls.as_floats() * bound)
        return cls(sums, largest, smallest)


class Span(NamedTuple):
    """Consecutive bins, safest first, from `first` up to and without `stop`."""

    first: int
    stop: int


def doubtful(bins: BinSums, reach: Reach) -> Booleans:
    """The bins that may hold the candidate at which a method stops."""
    slack = SLACK * (abs(reach.limit) + 1)
    places = np.arange(len(bins.largest))
    if reach.boldest:
        passing = np.flatnonzero(bins.sums[1:] <= reach.low - slack)
        after = places > (passing[-1] if len(passing) else -1)
        return np.asarray(after & (bins.smallest <= reach.limit + slack))
    failing = np.flatnonzero(bins.sums > reach.limit + slack)
    stop = int(failing[0]) if len(failing) else len(bins.sums)  # the bin before this sum
    return np.asarray((places < stop) & (bins.largest > reach.limit - slack))


def span(bins: BinSums, reach: Reach, margin: int) -> Span:
    """The bins in which a sum from `low` to `high` may occur before one above `high` is certain."""
    slack = SLACK * (abs(reach.limit) + 1)
    above = np.flatnonzero(bins.largest > reach.low - slack)
    certain = np.flatnonzero(bins.sums[1:] > reach.high + slack)
    first = int(above[0]) if len(above) else len(bins.largest)
    stop = int(certain[0]) + 1 if len(certain) else len(bins.largest)
    return Span(max(first - margin, 0), max(stop, min(first + 1, len(bins.largest))))


def single_scores(table: ScoreTable) -> Booleans:
    """Which bins hold a single score."""
    return np.asarray(table.lowest == table.highest)
