"""The calibrated risk along beta, for plots and reports."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from tether._core.columns import Columns
from tether._core.types import Floats
from tether._core.validate import frozen
from tether.control.constraint import Constraint
from tether.control.problem import Problem

CURVE_MARGIN = 3.0
"""How far past the last ratio a curve without breakpoints is drawn, in log beta."""


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


def curve_columns(curves: Mapping[str, Curve]) -> Columns:
    """The curves of all constraints as columns, one below the other."""
    table = Columns()
    table["constraint"] = np.repeat(list(curves), [len(each.risk) for each in curves.values()])
    for name in ("log_beta", "beta", "risk"):
        table[name] = np.concatenate([getattr(each, name) for each in curves.values()])
    return table


def risk_curve(problem: Problem, constraint: Constraint, log_beta: float, points: int) -> Curve:
    """The calibrated risk at the breakpoints, thinned to equal steps of their rank, and at beta."""
    if len(betas := problem.path_log_betas):
        grid = betas[np.isfinite(betas)]
        return Curve(frozen(grid), frozen(problem.solver.risks(problem, constraint, grid)))
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
