"""The largest beta of mix, from one pass over the rows: a line plus the envelope of lines.

Multiplied by (1 + β), the condition is Σ a_i·(1 + β·ρ_i) + max_j u_j·(1 + β·ρ_j) ≤ 0, convex in β.
The sums over rows come from the tables of bins. Where the mixture is the safe policy only one line
of the maximum counts. Otherwise the highest lines at a grid of betas are read first, and then those
at the root that they give, until no other line is higher there.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tether._core.types import Floats, Integers
from tether.control.constraint import Constraint
from tether.control.parts.binned_condition import Cells, below_sum, power_above, signed_sum
from tether.control.parts.log_sum import LOG_TWO
from tether.control.parts.ratio_bins import BINS_PER_UNIT, LARGEST_BINNED_RATIO
from tether.control.solvers.mix import Lines, _others
from tether.control.solvers.segments import MAX_LOG_RANGE

if TYPE_CHECKING:
    from tether.control.parts.marginal import MarginalTerms

GRID_REACH, GRID_STEPS = 60.0, 121
"""The log betas, around those at which ratios count, at which the highest lines are read first."""
MAX_ENVELOPE_PASSES = 50
"""The most times that the highest lines are read."""


@dataclass(frozen=True)
class LinesByBin:
    """The level and the slope that the rows of each coarse bin add up to.

    A row that is heavier than all others by more than floats can tell is left out of its own bin
    alone. The difference to the sum of all bins would be the rounding of that row.
    """

    number: Integers
    count: Integers
    level: Floats
    slope: Floats

    def without_each(
        self, ratio: Floats, level: Floats, slope: Floats, counts: NDArray[np.bool_]
    ) -> tuple[Floats, Floats]:
        """The sums without each row, given the rows' own levels and slopes, and which count."""
        binned = np.maximum(ratio, -LARGEST_BINNED_RATIO)
        number = np.floor(binned * BINS_PER_UNIT).astype(np.int64)
        place = np.minimum(np.searchsorted(self.number, number), max(len(self.number) - 1, 0))
        alone = self.count[place] == 1
        found = []
        for bins, own in ((self.level, level), (self.slope, slope)):
            rest = np.where(alone, 0.0, bins[place] - own)
            # A row with an amount of zero is in no bin.
            found.append(np.where(counts, _others(bins)[place] + rest, bins.sum()))
        return found[0], found[1]


@dataclass(frozen=True)
class MixLines:
    """The condition as lines in γ = β·e^shift, with all amounts over 2^scale.

    `below` is what the negative amounts add up to, without its sign.
    """

    level: float
    below: float
    slope: float
    top_level: Floats
    top_slope: Floats
    shift: float
    scale: int
    by_bin: LinesByBin

    @classmethod
    def build(cls, cells: Cells, terms: MarginalTerms, constraint: Constraint) -> MixLines:
        """The lines of one constraint, read as far as its root needs."""
        tops = terms.exact_tops
        settled = tops is not None
        if tops is None:
            lowest, highest = terms.log.survey.ratio
            if lowest > highest:
                lowest = highest = 0.0
            grid = np.linspace(-highest - GRID_REACH, -lowest + GRID_REACH, GRID_STEPS)
            tops = terms.best_tops(np.append(grid, np.inf))
        lines = cls._of(cells, *tops, constraint)
        for _ in range(0 if settled else MAX_ENVELOPE_PASSES):
            root = lines.first_crossing()
            if root == -np.inf:
                root = float(grid[0])
            ratio, base = terms.best_tops(np.array([root]))
            if bool(np.any((tops[0] == ratio[0]) & (tops[1] == base[0]))):
                break
            tops = np.append(tops[0], ratio), np.append(tops[1], base)
            lines = cls._of(cells, *tops, constraint)
        return lines

    @classmethod
    def _of(cls, cells: Cells, ratio: Floats, log_base: Floats, constraint: Constraint) -> MixLines:
        log_level = math.log(constraint.worst) + log_base
        log_slope = log_level + ratio
        largest = max(float(cells.log_size.max(initial=-np.inf)), float(log_level.max()))
        scale = power_above(largest)
        unit = scale * LOG_TWO
        # The largest slope becomes one, so that no slope that counts underflows.
        shift = max(float(cells.log_rising.max(initial=-np.inf)), float(log_slope.max())) - unit
        shift = shift if np.isfinite(shift) else 0.0
        with np.errstate(under="ignore"):
            slopes = np.exp(cells.log_rising - shift - unit)
            levels = np.exp(cells.log_size - unit)
            return cls(
                level=signed_sum(cells.table, scale),
                below=below_sum(cells.table, scale),
                slope=math.fsum(slopes[0].tolist() + (-slopes[1]).tolist()),
                top_level=np.exp(log_level - unit),
                top_slope=np.exp(log_slope - shift - unit),
                shift=shift,
                scale=scale,
                by_bin=LinesByBin(
                    np.rint(cells.left * BINS_PER_UNIT).astype(np.int64),
                    cells.count,
                    levels[0] - levels[1],
                    slopes[0] - slopes[1],
                ),
            )

    @property
    def lines(self) -> Lines:
        """The same as the lines of the solver in memory, with all rows as one."""
        rows = (np.array([self.level]), np.array([self.slope]))
        return Lines(*rows, self.top_level, self.top_slope, self.shift, self.below)

    def first_crossing(self) -> float:
        """Log of the largest beta that passes; −inf if none does."""
        return self.lines.first_crossing()

    def without_each(self, ratio: Floats, amount: Floats, log_base: Floats) -> Floats:
        """Log of the largest beta without each row, given its ratio, and its amount times e^base.

        A base may be too small for a float while the slope that it gives to β counts.
        """
        unit = self.scale * LOG_TWO
        own_level = amount * np.exp(log_base - unit)
        own_slope = amount * np.exp(np.minimum(log_base + ratio - self.shift - unit, MAX_LOG_RANGE))
        level, slope = self.by_bin.without_each(ratio, own_level, own_slope, amount != 0)
        none_passes = (level >= 0) | (level + self.top_level.max(initial=0.0) > 0)
        smallest = np.full(len(ratio), np.inf)
        for top_level, top_slope in {*zip(self.top_level, self.top_slope, strict=True)}:
            total = slope + top_slope
            with np.errstate(divide="ignore", invalid="ignore"):
                root = -(level + top_level) / total
            smallest = np.minimum(smallest, np.where(total > 0, np.maximum(root, 0.0), np.inf))
        with np.errstate(divide="ignore"):
            return np.where(none_passes, -np.inf, np.log(smallest) - self.shift)
