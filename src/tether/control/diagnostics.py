"""Diagnostics: what a calibration rests on, measured when asked for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from tether._core.types import Floats
from tether.control.constraint import Constraint
from tether.control.context_draws import CLEARLY
from tether.control.problem import Weights

if TYPE_CHECKING:
    from tether.control.calibration import Calibration

BEYOND = 3.0
"""How far a curve without breakpoints is drawn past the last ratio, in log beta."""
FEW = 30.0
"""Fewer effective rows than this are worth a warning."""


def rows_beyond(weights: Weights) -> int:
    """How many rows have a larger ratio than any draw, so that the test weight may be too small."""
    if not weights.drawn:
        return 0
    with np.errstate(invalid="ignore"):
        drawn = weights.draws.log_optimized - weights.draws.log_safe
    top = drawn.max(initial=-np.inf, where=np.isfinite(drawn))
    return int(np.sum(weights.log.log_optimized - weights.log.log_safe > top))


def measured_smoothness(weights: Weights, points: int = 257) -> float:
    """The steepest change of any log-weight against log beta, on a grid over the whole reach."""
    grid = np.linspace(*weights.searched(), points)
    step = (grid[-1] - grid[0]) / (points - 1)
    if step == 0:
        return 0.0
    steepest, last = 0.0, None
    for log_beta in grid:
        rows, _ = weights.at(log_beta)
        now = np.append(rows, weights.log_draws(log_beta))
        if last is not None:
            with np.errstate(invalid="ignore"):
                change = np.abs(now - last)
            steepest = max(steepest, float(change.max(initial=0.0, where=np.isfinite(change))))
        last = now
    return steepest / float(step)


def risk_curve(
    constraint: Constraint, weights: Weights, log_beta: float, points: int
) -> tuple[Floats, Floats]:
    """The calibrated risk at the breakpoints, thinned to equal steps of their rank, and at beta."""
    with np.errstate(invalid="ignore"):
        breaks = np.concatenate(
            [part.log_optimized - part.log_safe for part in (weights.log, weights.draws)]
        )
    breaks = np.sort(breaks[np.isfinite(breaks)])
    if len(breaks) and not weights.family.saturates:
        # No breakpoints: the policy moves where β·ratio passes one, and stops only slowly.
        breaks = np.linspace(-breaks[-1] - BEYOND, -breaks[0] + BEYOND, points)
    if len(breaks):
        breaks = breaks[np.linspace(0, len(breaks) - 1, points).round().astype(int)]
    grid = np.unique(np.append(breaks, log_beta if np.isfinite(log_beta) else []))
    return grid, constraint.risks(weights, grid)


def doubts(found: Calibration, weights: Weights) -> Iterator[str]:
    """The warnings of a calibration."""
    if not found.exists:
        yield (
            f"no beta passes: even the safe policy's calibrated risk is {found.risk:.4g}, above "
            f"alpha = {found.alpha:g}; serve the safe policy only, collect rows, or raise alpha"
        )
    if not weights.drawn and weights.test_weight == "analytic":
        yield "without proposals the test point has the analytic weight, the largest possible"
    rows, test = weights.at(found.reached)
    heavier = int(np.sum(rows > test + 1e-9))
    if heavier and weights.test_weight != "analytic":
        yield (
            f"{heavier} row(s) of the log weigh more than the test point, which should weigh the "
            f"most: draw more proposals from the optimized policy, or give a larger number"
        )
    outside = float(np.mean(np.isneginf(weights.draws.log_safe)))
    if outside and weights.log.log_safe_all is None:
        yield (
            f"{outside:.1%} of the proposals are actions that the safe policy never takes: no "
            f"tethered policy takes them either, not even at an infinite beta"
        )
    if not (weights.family.normalized or weights.draws.both):
        yield (
            "some contexts have proposals of one policy only: their normalizers are noisy, and "
            "the weights with them; draw a few from each policy in every context"
        )
    if not (weights.exact or weights.certified):
        yield (
            f"family {found.family!r} states no smoothness: the betas between those that the "
            f"search looked at are not certified"
        )
    if found.exists and found.effective_sample_size < FEW:
        yield (
            f"the weighted log is worth {found.effective_sample_size:.1f} rows: beta rests on few "
            f"of them"
        )
    mean, error = _mean_ratio(weights)
    if mean > 1 + CLEARLY * error:
        yield (
            f"the optimized policy's probabilities, summed over what the log shows, come to "
            f"{mean:.3g} ± {error:.2g} and should be at most 1: check that the log was scored "
            f"under the policy that produced it"
        )


def _mean_ratio(weights: Weights) -> tuple[float, float]:
    """The mean of optimized over mixture density in the log: at most one if scores are right."""
    with np.errstate(over="ignore", invalid="ignore"):
        ratios = np.exp(weights.log.log_optimized - weights.log_mix)
        mean, error = float(ratios.mean()), float(ratios.std() / np.sqrt(len(ratios)))
    return (mean, error) if np.isfinite(error) else (np.inf, 0.0)
