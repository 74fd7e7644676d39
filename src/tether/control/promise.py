"""The promise: what the expected loss of the next action is at most.

Serving the calibrated beta keeps the expected loss within α + max(α, B − α)·ε, where ε is the
relative replace-one stability of beta. It is estimated by leaving each row out: with β̂₋ᵢ the beta
without row i and the row's share of the weight, ε̂ = Σ_i share_i·(max(β̂/β̂₋ᵢ, β̂₋ᵢ/β̂)^K − 1), K being
the smoothness of the family. What the promise rests on can be looked at: the smoothness where it is
measured, the rows that no draw covers, the risk along beta, and warnings in words.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tether._core.types import Floats
from tether._core.validate import frozen
from tether.control.constraint import Constraint
from tether.control.context_draws import MAX_STANDARD_ERRORS
from tether.control.problem import Problem
from tether.control.solvers import search
from tether.control.solvers.weight_bounds import certified

if TYPE_CHECKING:
    from tether.control.calibration import Calibration

ASSUMPTIONS = (
    "the log was produced by the policies its mixture names and was not used for training; "
    "contexts keep coming from the same distribution; losses lie in [0, bound]; every "
    "log-probability is that of the policy as it samples"
)
MIN_EFFECTIVE_ROWS = 30.0
"""A smaller effective sample size than this is worth a warning."""
CURVE_MARGIN = 3.0
"""How far past the last ratio a curve without breakpoints is drawn, in log beta."""
SMOOTHNESS_POINTS = 257
"""Grid points at which the smoothness is measured."""


def instability(
    log_beta: float, without: Floats, share: Floats, smoothness: float, reach: tuple[float, float]
) -> float:
    """Estimate ε from beta, the betas without each row, the rows' shares and the smoothness K.

    Betas outside the reach of the policies all give the same policy as its nearest end.
    """
    with np.errstate(invalid="ignore", over="ignore"):
        moved = np.clip(without, *reach) - np.clip(log_beta, *reach)
        grown = np.expm1(smoothness * np.abs(np.where(np.isnan(moved), 0.0, moved)))
        return float(np.sum(share * grown, where=share > 0))


def promised_loss(constraint: Constraint, stability: float, *, exists: bool) -> float:
    """The stated bound on the expected loss: α + max(α, B − α)·ε, or B where no beta exists."""
    if not exists:
        return constraint.bound
    alpha, bound = constraint.alpha, constraint.bound
    return min(bound, alpha + max(alpha, bound - alpha) * stability)


def rows_beyond_draws(problem: Problem) -> int:
    """How many rows have a larger ratio than any draw: the test weight may then be too small."""
    if not problem.has_draws:
        return 0
    with np.errstate(invalid="ignore"):
        drawn = problem.draws.log_optimized - problem.draws.log_safe
    top = drawn.max(initial=-np.inf, where=np.isfinite(drawn))
    return int(np.sum(problem.log.log_optimized - problem.log.log_safe > top))


def measured_smoothness(problem: Problem, points: int = SMOOTHNESS_POINTS) -> float:
    """The steepest change of any log-weight per change of log beta, on a grid over the range."""
    grid = np.linspace(*problem.search_range(), points)
    step = (grid[-1] - grid[0]) / (points - 1)
    if step == 0:
        return 0.0
    steepest, previous = 0.0, None
    for log_beta in grid:
        rows, _ = problem.log_weights(log_beta)
        draws = problem.draws.log_weight(problem.family, log_beta, problem.log_psi(log_beta))
        current = np.append(rows, draws)
        if previous is not None:
            with np.errstate(invalid="ignore"):
                change = np.abs(current - previous)
            steepest = max(steepest, float(change.max(initial=0.0, where=np.isfinite(change))))
        previous = current
    return steepest / float(step)


@dataclass(frozen=True)
class Curve:
    """The calibrated risk of one constraint along beta.

    Parameters
    ----------
    log_beta : ndarray of float
        Log betas, in increasing order.
    risk : ndarray of float
        The calibrated risk at each of them.
    """

    log_beta: Floats
    risk: Floats

    @property
    def beta(self) -> Floats:
        """Beta itself; inf where it overflows."""
        with np.errstate(over="ignore"):
            return np.exp(self.log_beta)


def risk_curve(problem: Problem, constraint: Constraint, log_beta: float, points: int) -> Curve:
    """The calibrated risk at the breakpoints, thinned to equal steps of their rank, and at beta."""
    with np.errstate(invalid="ignore"):
        breaks = np.concatenate(
            [part.log_optimized - part.log_safe for part in (problem.log, problem.draws)]
        )
    breaks = np.sort(breaks[np.isfinite(breaks)])
    if len(breaks) and not problem.family.saturates:
        # No breakpoints: the policy changes most where β·ratio passes one, and never stops.
        breaks = np.linspace(-breaks[-1] - CURVE_MARGIN, -breaks[0] + CURVE_MARGIN, points)
    if len(breaks):
        breaks = breaks[np.linspace(0, len(breaks) - 1, points).round().astype(int)]
    grid = np.unique(np.append(breaks, log_beta if np.isfinite(log_beta) else []))
    return Curve(frozen(grid), frozen(problem.solver.risks(problem, constraint, grid)))


def find_warnings(found: Calibration, problem: Problem) -> Iterator[str]:
    """What a careful reader would want to know before deploying."""
    if not found.exists:
        yield (
            f"no beta passes: even the safe policy's calibrated risk is {found.risk:.4g}, above "
            f"alpha = {found.alpha:g}; serve the safe policy only, collect rows, or raise alpha"
        )
    analytic = problem.test_weight.label == "analytic"
    if not problem.has_draws and analytic:
        yield "without proposals the test point has the analytic weight, the largest possible"
    rows, test = problem.log_weights(found.effective_log_beta)
    heavier = int(np.sum(rows > test + 1e-9))
    if heavier and not analytic:
        yield (
            f"{heavier} row(s) of the log have a larger weight than the test point, which should "
            f"have the largest: draw more proposals from the optimized policy, or pass a larger "
            f"test_weight"
        )
    outside = float(np.mean(np.isneginf(problem.draws.log_safe)))
    if outside and problem.log.log_safe_all is None:
        yield (
            f"{outside:.1%} of the proposals are actions that the safe policy never takes: no "
            f"tethered policy takes them either, not even at an infinite beta"
        )
    if not (problem.family.normalized or problem.draws.both):
        yield (
            "some contexts have proposals of one policy only: their normalizers are noisy, and "
            "the weights with them; draw a few from each policy in every context"
        )
    if problem.solver is search and not certified(problem):
        yield (
            f"family {found.family!r} states no smoothness: the betas between those that the "
            f"search examined are not certified"
        )
    if found.exists and found.effective_sample_size < MIN_EFFECTIVE_ROWS:
        yield (
            f"the effective sample size is {found.effective_sample_size:.1f}: beta rests on few "
            f"rows"
        )
    mean, error = _mean_ratio(problem)
    if mean > 1 + MAX_STANDARD_ERRORS * error:
        yield (
            f"the optimized policy's probabilities, summed over the log, come to {mean:.3g} ± "
            f"{error:.2g} and should be at most 1: check that the log was scored under the policy "
            f"that produced it"
        )


def _mean_ratio(problem: Problem) -> tuple[float, float]:
    """The mean of optimized over mixture density in the log: at most one if scores are right."""
    with np.errstate(over="ignore", invalid="ignore"):
        ratios = np.exp(problem.log.log_optimized - problem.log_mix)
        mean, error = float(ratios.mean()), float(ratios.std() / np.sqrt(len(ratios)))
    return (mean, error) if np.isfinite(error) else (np.inf, 0.0)
