"""The model of a plan for clip.

The expected condition on n rows, with the largest ratio M, is

    h(β) = n·E[(l − α)·min(ρ, β)] + (B − α)·min(M, β)  ≤  0.

It is linear between ratios. Without a row of loss l and ratio ρ it is h(β) ≤ (l − α)·min(ρ, β):
the first passage of h(β)/β over l − α if that is below ρ, and else that of h over (l − α)·ρ. A
calibration states, as the stability, the mean of |β₋/β − 1| or its inverse over the rows' weights,
with betas between the smallest and the largest ratio it sees. The normalizing constant cancels
without contexts, and with contexts in which ratios are spread alike.
"""

from __future__ import annotations

import math

import numpy as np

from tether._core.first_passage import first_past
from tether._core.types import Floats
from tether.planning.plan_model import CONDITION_TOLERANCE, PlanModel


class ClipModel(PlanModel):
    """What to expect of clip."""

    def _solve(self, alpha: float, rows: int) -> tuple[float, float]:
        """Beta, and how much one row can change it."""
        of, worst = self.population, 1 - alpha
        log_top = self.largest_log_ratio(rows)
        place = int(np.searchsorted(of.log_ratio, log_top))
        log_ratio, share, loss = (
            np.insert(values, place, value)
            for values, value in ((of.log_ratio, log_top), (of.share, 0.0), (of.loss, 0.0))
        )
        ratio, above = np.exp(log_ratio), loss - alpha
        amount = rows * share * above
        # What is constant, and what is proportional to β, from each ratio to the next one.
        constant = np.concatenate(([0.0], np.cumsum(amount * ratio)))
        slope = np.concatenate(([0.0], np.cumsum(amount)))
        slope = slope[-1] - slope
        constant[place + 1 :] += worst * ratio[place]
        slope[: place + 1] += worst
        if slope[0] > CONDITION_TOLERANCE * rows:
            return 0.0, math.inf
        by_beta = constant[1:] / ratio + slope[1:]
        failing = by_beta > CONDITION_TOLERANCE * rows
        beta = math.inf
        if failing.any():
            at = int(np.argmax(failing))
            beta = float(ratio[at])
            if slope[at] > 0:
                beta = min(beta, -float(constant[at]) / float(slope[at]))
        log_beta = float(log_ratio[-1]) if math.isinf(beta) else math.log(max(beta, ratio[0]))
        # Where a row cancels itself only rounding is left, which must not count as a crossing.
        level = above + CONDITION_TOLERANCE * rows
        without = _log_beta_without(ratio, level, constant, slope, by_beta)
        low = min(self.population.smallest_log_ratio(rows), log_beta, 0.0)
        moved = np.abs(np.clip(without, low, max(float(log_ratio[-1]), log_beta, 0.0)) - log_beta)
        weight = share * np.minimum(ratio, math.exp(log_beta))
        total = float(weight.sum()) + math.exp(min(log_beta, log_top)) / rows
        return beta, float(weight @ np.expm1(moved)) / total


def _log_beta_without(
    ratio: Floats, above: Floats, constant: Floats, slope: Floats, by_beta: Floats
) -> Floats:
    """Log of beta without a row of each kind; −inf where none passes, inf where all do."""
    last = len(ratio)
    segment = first_past(np.append(slope[:1], by_beta), above, np.zeros(last, dtype=np.int64))
    before = np.clip(segment - 1, 0, last - 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        found = constant[before] / (above - slope[before])
        found = np.select([segment == 0, segment > last], [0.0, np.inf], found)
        rest = np.flatnonzero(~(found <= ratio))
        level = above[rest] * ratio[rest]
        segment = first_past(by_beta * ratio, level, rest)
        after = np.minimum(segment, last - 1)
        beyond = np.maximum((level - constant[after]) / slope[after], ratio[rest])
        found[rest] = np.where(segment >= last, np.inf, beyond)
        return np.asarray(np.log(found))
