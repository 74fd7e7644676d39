"""The betas at which the curve of a calibration on a log in parts is drawn."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tether._core.types import Floats
from tether.control.blend import blend_scores
from tether.control.curve import CURVE_MARGIN
from tether.control.parts.order_statistics import order_statistics
from tether.control.parts.rows import LogPart, ProposalsPart
from tether.control.parts.survey import listed_scores
from tether.control.parts.term_kernels import row_ratio

if TYPE_CHECKING:
    from tether.control.parts.problem import ProblemInParts


@dataclass(frozen=True)
class Breaks:
    """The finite log ratios of rows, and of tables or draws stored beside them."""

    blend: float

    def of(self, part: LogPart | ProposalsPart) -> Floats:
        """Those of a part."""
        if isinstance(part, ProposalsPart):
            ratio = _ratio(part.log_safe, part.log_optimized, self.blend)
        else:
            ratio = row_ratio(part, self.blend)
            listed = listed_scores(part)
            if listed is not None:
                drawn = _ratio(listed[0].ravel(), listed[1].ravel(), self.blend)
                ratio = np.append(ratio, drawn)
        return ratio[np.isfinite(ratio)]


@dataclass(frozen=True)
class CountBreaks:
    """How many there are."""

    blend: float

    def of(self, part: LogPart | ProposalsPart) -> Counted:
        """Those of a part."""
        return Counted(len(Breaks(self.blend).of(part)))


@dataclass(frozen=True)
class Counted:
    """A number that is added."""

    value: int

    def merge(self, other: Counted) -> Counted:
        """The sum."""
        return Counted(self.value + other.value)


def curve_grid(problem: ProblemInParts, log_beta: float, points: int) -> Floats:
    """The breakpoints, thinned to equal steps of their rank, and beta."""
    sources: list[tuple[Any, Any]] = [(problem.log, Breaks(problem.blend))]
    if problem.proposals is not None:
        sources.append((problem.proposals, Breaks(problem.blend)))
    if problem.family.saturates:
        count = sum(source.reduce(CountBreaks(problem.blend))[0].value for source, _ in sources)
        breaks = np.empty(0)
        if not problem.has_draws:  # the rows are the draws too
            ranks = np.linspace(0, 2 * count - 1, points).round().astype(np.int64) // 2
        else:
            ranks = np.linspace(0, count - 1, points).round().astype(np.int64)
        if count:
            breaks = order_statistics(sources, ranks)
    else:
        lo, hi = problem.span
        # No breakpoints: the policy changes most where β·ratio passes one, and never stops.
        breaks = np.linspace(-hi - CURVE_MARGIN, -lo + CURVE_MARGIN, points)
    return np.unique(np.append(breaks, log_beta if np.isfinite(log_beta) else []))


def _ratio(safe: Floats, optimized: Floats, blend: float) -> Floats:
    with np.errstate(invalid="ignore"):
        return np.asarray(blend_scores(optimized, safe, blend) - safe)
