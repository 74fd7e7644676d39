"""What a plan rests on, measured from a log: losses of both policies, and how far they differ."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from tether._core.types import Floats
from tether.control.log import Log
from tether.planning.population import LARGEST_PLANNED_LOG_RATIO, Population
from tether.planning.representative_log import MOST_CERTIFIED_ROWS, RepresentativeLog

SMALLEST_SPREAD = 1e-3
"""Two policies that are the same have ratios without a spread, for which there is no model."""

EQUAL_LOG_RATIOS = 1e-9
"""Log ratios that are no further apart than this are those of one action."""

MOST_NEVER_TAKEN = 0.05
"""The share of rows never taken by the optimized policy from which clip in contexts is refused."""


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
        raise ValueError(
            f"a plan is for one loss, and the log has the losses {list(log.loss)}: make a log of "
            f"each with the same probabilities, and take the plan that needs the most rows"
        )
    (loss,) = log.loss.values()
    base = log.log_safe if log.log_mix is None else log.log_mix
    safe, optimized = _normalized(log.log_safe - base), _normalized(log.log_optimized - base)
    ratio = log.log_optimized - log.log_safe
    weight = np.where(np.isfinite(ratio), safe, 0.0)
    ratio, weight = np.where(weight > 0, ratio, 0.0), weight / max(weight.sum(), 1e-300)
    spread = float(np.sqrt(weight @ np.square(ratio - weight @ ratio)))
    return PlanInputs(float(safe @ loss), float(optimized @ loss), max(spread, SMALLEST_SPREAD))


def refuse_never_taken(log: Log) -> None:
    """Refuse to plan clip in contexts where many actions are never the optimized policy's.

    Which ones these are depends on the context, and without tables of all actions the plan of clip
    takes contexts to be alike.
    """
    share = float(np.isneginf(log.log_optimized).mean())
    if log.contextual and not log.has_tables and share > MOST_NEVER_TAKEN:
        raise ValueError(
            f"clip cannot be planned from this log: the optimized policy never takes the actions "
            f"of {share:.1%} of its rows, and the plan of clip takes contexts to be alike. Plan "
            f"family='mix', or calibrate on the log to see the beta of clip"
        )


def measure_max_ratio(log: Log) -> float | None:
    """The largest ratio that the next action can have; None where the log does not tell."""
    if log.max_ratio is not None:
        return log.max_ratio
    if log.log_safe_all is None or log.log_optimized_all is None:
        return None
    possible = log.log_safe_all > -np.inf
    largest = (log.log_optimized_all[possible] - log.log_safe_all[possible]).max()
    return float(np.exp(min(largest, LARGEST_PLANNED_LOG_RATIO)))


def measure_population(log: Log, bound: float) -> Population:
    """The rows of a log as what a plan takes for the truth.

    Draws of the optimized policy go further than rows of the safe one: how far is known from the
    simple model, unless several rows have the largest ratio, as with a finite number of actions.
    """
    (loss,) = log.loss.values()
    base = log.log_safe if log.log_mix is None else log.log_mix
    log_ratio = log.log_optimized - log.log_safe
    rows = Population.from_rows(_normalized(log.log_safe - base), loss / bound, log_ratio)
    if np.sum(log_ratio >= log_ratio.max() - EQUAL_LOG_RATIOS) > 1:
        return rows
    found = measure_inputs(log)
    risks = found.safe_risk / bound, found.optimized_risk / bound
    return replace(rows, tail=Population.from_figures(*risks, found.log_ratio_spread))


def rows_with_tables(log: Log, bound: float, *, thinned: bool) -> RepresentativeLog | None:
    """The rows of a log with tables of all actions, each with its own context; None without."""
    if not log.has_tables:
        return None
    base = log.log_safe if log.log_mix is None else log.log_mix
    share = _normalized(log.log_safe - base)
    return RepresentativeLog.from_tables(
        log, bound, share, MOST_CERTIFIED_ROWS if thinned else None
    )


def _normalized(log_weight: Floats) -> Floats:
    """Weights that sum to 1; equal ones where none is above 0."""
    largest = log_weight.max()
    if largest == -np.inf:
        return np.full(len(log_weight), 1 / len(log_weight))
    weight: Floats = np.exp(log_weight - largest)
    weight /= weight.sum()
    return weight
