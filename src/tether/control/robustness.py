"""Robustness: how wrong the weights may be before no beta passes.

With P the weighted sum of the rows above alpha and of the test point, and N that of the rows below
it, a ratio error g turns the condition P ≤ N into P·g ≤ N/g. A beta passes as long as this holds at
the safest one, so the largest g is √(N/P) there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from tether.control.constraint import Constraint
from tether.control.problem import Problem
from tether.control.solvers.excess import Excess


def largest_ratio_error(problem: Problem, constraints: Sequence[Constraint]) -> float:
    """The largest factor that every constraint leaves; below 1 where some constraint fails."""
    safest, _ = problem.search_range()
    excess = [Excess(problem, replace(each, ratio_error=1.0))(safest) for each in constraints]
    return float(np.exp(-max(excess) / 2))
