"""How far beta moves when a row of a log in parts is left out: clip without contexts, and mix.

Leaving out a row removes one term of the condition, so the largest beta without it is the first
passage of the same function over a level that depends on the row (`tether.control.solvers.clip`).
The function is needed only between the earliest and the latest such beta: its pieces there are
small enough to be sent along with a kernel.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tether._core.first_passage import first_past
from tether._core.types import Floats
from tether.control.constraint import Constraint
from tether.control.families import Mix
from tether.control.left_out import log_change, log_expm1
from tether.control.parts.clip_solver import Band
from tether.control.parts.log_sum import LOG_TWO
from tether.control.parts.mix_solver import MixLines
from tether.control.parts.row_sums import LeftOut
from tether.control.parts.rows import LogPart
from tether.control.solvers.clip import SELF_CANCELLATION, _signed_log


def log_betas_without(band: Band, ratio: Floats, amount: Floats) -> Floats:
    """Log of the largest beta without each row, given its ratio and its amount over 2^scale."""
    rows = len(ratio)
    if band.segments is None or band.earliest == band.latest:
        return np.full(rows, band.earliest)
    amount = np.where(ratio > -np.inf, amount, 0.0)
    segments, edge, value = band.segments, band.segments.edge, band.segments.value
    own = np.searchsorted(edge, ratio) - (ratio < edge[0])
    level = amount + SELF_CANCELLATION * np.abs(amount)
    piece = first_past(value, level, np.zeros(rows, dtype=np.int64))
    clipped = piece <= own
    rest = np.flatnonzero(~clipped)
    levels, starts = _signed_log(level[rest], ratio[rest]), np.maximum(own[rest], 0)
    piece[rest] = first_past(_signed_log(value, edge), levels, starts)
    log_beta = np.where(piece == 0, band.earliest, band.latest)
    inside = (piece > 0) & (piece < len(edge) + band.complete)
    end, still_clipped = piece[inside], clipped[inside]
    decayed = level[inside] * np.exp(np.minimum(ratio[inside] - edge[end - 1], 0.0))
    roots = segments.roots(
        end, np.where(still_clipped, level[inside], 0.0), np.where(still_clipped, 0.0, decayed)
    )
    log_beta[inside] = np.minimum(roots, np.append(edge, np.inf)[end])
    return np.clip(log_beta, band.earliest, band.latest)


@dataclass(frozen=True)
class SmoothMoves(LeftOut):
    """Bounds on the move of each row from the smoothness K and the beta without it."""

    constraints: tuple[Constraint, ...]
    bands: tuple[Band, ...]
    log_beta: float
    smoothness: float
    reach: tuple[float, float]

    def log_changes(self, part: LogPart, ratio: Floats, base: Floats, rows: Floats) -> Floats:
        """Log of w·(e^(K·|move|) − 1)."""
        without = np.full(len(ratio), np.inf)
        for each, band in zip(self.constraints, self.bands, strict=True):
            amount = scaled_amounts(each, part, base, band.scale)
            without = np.minimum(without, log_betas_without(band, ratio, amount))
        with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
            moved = np.clip(without, *self.reach) - np.clip(self.log_beta, *self.reach)
            moved = np.abs(np.where(np.isnan(moved), 0.0, moved))
            return rows + np.where(rows > -np.inf, log_expm1(self.smoothness * moved), 0.0)


@dataclass(frozen=True)
class MixMoves(LeftOut):
    """The move of each row's own weight under mix."""

    constraints: tuple[Constraint, ...]
    lines: tuple[MixLines, ...]
    log_beta: float
    search_range: tuple[float, float]

    def log_changes(self, part: LogPart, ratio: Floats, base: Floats, rows: Floats) -> Floats:
        """Log of |w(β without the row) − w(β)|; a weight may be zero at one of the two."""
        without = np.full(len(ratio), np.inf)
        for each, lines in zip(self.constraints, self.lines, strict=True):
            amount = each.signed(part.loss[each.name])
            without = np.minimum(without, lines.without_each(ratio, amount, base))
        here, there = (
            Mix().log_density(np.zeros(len(ratio)), ratio, np.clip(beta, *self.search_range), 0.0)
            for beta in (self.log_beta, without)
        )
        return base + log_change(here, there)


def scaled_amounts(constraint: Constraint, part: LogPart, base: Floats, scale: int) -> Floats:
    """The signed amounts of the rows over 2^scale."""
    amount = constraint.signed(part.loss[constraint.name])
    if part.log_mix is None:
        return np.ldexp(amount, -scale)
    return np.asarray(amount * np.exp(base - scale * LOG_TWO))
