"""What a plan rests on, measured from a log: the losses of both policies, and their distance."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tether._core.types import Floats
from tether.control.log import Log

SMALLEST_SPREAD = 1e-3
"""Two policies that are the same have ratios without a spread, for which there is no model."""


class PlanInputs(NamedTuple):
    """The expected losses of both policies, and the standard deviation of their log ratios."""

    safe_risk: float
    optimized_risk: float
    log_ratio_spread: float


def measure_inputs(log: Log) -> PlanInputs:
    """Means over the rows, weighted where other policies than the safe one produced them.

    Rows that the optimized policy never takes count for the losses, and not for the spread.
    """
    if not isinstance(log, Log):
        raise TypeError(
            f"log must be a tether.Log in memory, got {type(log).__name__}; or pass safe_risk, "
            "optimized_risk and log_ratio_spread"
        )
    if len(log.loss) > 1:
        raise ValueError(f"a plan is for one loss, and the log has the losses {list(log.loss)}")
    (loss,) = log.loss.values()
    base = log.log_safe if log.log_mix is None else log.log_mix
    safe, optimized = _normalized(log.log_safe - base), _normalized(log.log_optimized - base)
    ratio = log.log_optimized - log.log_safe
    weight = np.where(np.isfinite(ratio), safe, 0.0)
    ratio, weight = np.where(weight > 0, ratio, 0.0), weight / max(weight.sum(), 1e-300)
    spread = float(np.sqrt(weight @ np.square(ratio - weight @ ratio)))
    return PlanInputs(float(safe @ loss), float(optimized @ loss), max(spread, SMALLEST_SPREAD))


def _normalized(log_weight: Floats) -> Floats:
    """Weights that sum to 1; equal ones where none is above 0."""
    largest = log_weight.max()
    if largest == -np.inf:
        return np.full(len(log_weight), 1 / len(log_weight))
    weight: Floats = np.exp(log_weight - largest)
    weight /= weight.sum()
    return weight
