"""The model of a plan for mix, whose condition is a straight line in beta.

A weight of mix is (1 + β·ρ)/(1 + β), with or without contexts. Times 1 + β, the expected condition
on n rows with the largest ratio M is

    n·E[(l − α)·(1 + β·ρ)] + (B − α)·(1 + β·M)  ≤  0,

so beta has a closed form, and so has the beta without a row of loss l and ratio ρ, which leaves out
(l − α)·(1 + β·ρ). With x = β/(1 + β), the optimized policy's share, the row's own weight changes by
|ρ − 1| times the change of x. The stability is the sum of these changes over the total weight.
"""

from __future__ import annotations

import math

import numpy as np

from tether._core.types import Floats
from tether.planning.plan_model import CONDITION_TOLERANCE, PlanModel


class MixModel(PlanModel):
    """What to expect of mix."""

    def _solve(self, alpha: float, rows: int) -> tuple[float, float]:
        """Beta, and how much one row can change it."""
        of, worst = self.population, 1 - alpha
        above, share = of.loss - alpha, of.seen(rows)
        largest = math.exp(self.largest_log_ratio(rows))
        start = rows * (of.mean - alpha) + worst
        if start > CONDITION_TOLERANCE * rows:
            return 0.0, math.inf
        slope = rows * float(share @ (above * of.ratio)) + worst * largest
        part = float(_optimized_share(np.array(start), np.array(slope)))
        without = _optimized_share(start - above, slope - above * of.ratio)
        moved = float(share @ (np.abs(of.ratio - 1) * np.abs(without - part)))
        total = 1 - part + part * float(share @ of.ratio) + (1 - part + part * largest) / rows
        return (math.inf if part == 1 else part / (1 - part)), moved / total


def _optimized_share(start: Floats, slope: Floats) -> Floats:
    """β/(1 + β) at the largest β with start + β·slope ≤ 0; 1 where all have it, 0 where none."""
    room = np.maximum(-start, 0.0)
    return np.divide(room, room + slope, out=np.ones_like(room), where=slope > 0)
