"""The solver for paths of policies: every beta of the path, from the smallest on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tether._core.types import Floats
from tether.control.solvers.excess import Excess
from tether.control.solvers.search import risks

if TYPE_CHECKING:
    from tether.control.constraint import Constraint
    from tether.control.problem import Problem

__all__ = ["largest", "leave_one_out", "risks"]


def largest(problem: Problem, constraint: Constraint) -> float:
    """Log of the largest beta of the path that passes, as all smaller ones do; −inf for none."""
    excess = Excess(problem, constraint)
    found = -np.inf
    for log_beta in problem.path_log_betas:
        if excess(float(log_beta)) > 0:
            break
        found = float(log_beta)
    return found


def leave_one_out(problem: Problem, constraint: Constraint) -> Floats:
    """The same without each row in turn, exactly."""
    excess = Excess(problem, constraint)
    found = np.full(len(problem.log), -np.inf)
    passing = np.ones(len(problem.log), dtype=np.bool_)
    for log_beta in problem.path_log_betas:
        passing &= excess.without_each(float(log_beta)) <= 0
        if not passing.any():
            break
        found[passing] = log_beta
    return found
