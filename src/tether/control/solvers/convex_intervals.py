"""Intervals of beta at whose ends the condition is decided, because it is convex between them.

Multiplied by its normalizer, the condition of mix is a sum of linear functions of β plus the
largest of such functions, so it is convex. That of clip without contexts is convex between two
neighboring log ratios, where every min(ρ, β) is linear. A convex function is positive inside an
interval only if it is positive at one of its ends.

Bounds on each weight do not see this: where the condition is exactly zero over a range of betas,
they certify no interval, however narrow.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tether._core.types import Floats
from tether.control.families import Clip, Mix

if TYPE_CHECKING:
    from tether.control.problem import Problem


def convex_breaks(problem: Problem) -> Floats | None:
    """The log betas between which the condition is convex, in order; None where none are known."""
    if isinstance(problem.family, Mix):
        return np.empty(0)
    if not isinstance(problem.family, Clip) or problem.log.contextual:
        return None
    ratios = [problem.log_ratio, problem.candidates.log_ratio]
    if problem.test_weight.constant is not None:  # it bounds weights divided by their normalizer
        draws = problem.draws
        possible = draws.log_safe > -np.inf
        ratios.append(draws.log_optimized[possible] - draws.log_safe[possible])
    breaks = np.unique(np.concatenate(ratios))
    return breaks[np.isfinite(breaks)]


def is_convex(breaks: Floats | None, left: float, right: float) -> bool:
    """Whether no break lies inside an interval of log beta."""
    if breaks is None:
        return False
    return bool(np.searchsorted(breaks, left, "right") >= np.searchsorted(breaks, right, "left"))
