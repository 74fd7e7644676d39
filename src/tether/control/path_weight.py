"""The test weight of a path: the largest weight among draws of the policies along it.

The next action is drawn by the policy that is served. Draws of the optimized policy, far away from
it, would weigh more than the next action ever does; draws of the safe policy less. So proposals are
drawn by policies along the path, and at each beta the weight is the largest among the draws of all
policies up to the first that is at or beyond this beta.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from tether._core.types import Floats, Integers
from tether.control.policy_path import PolicyPath
from tether.control.proposals import Proposals
from tether.control.test_weight import Candidates

if TYPE_CHECKING:
    from tether.control.problem import Problem


@dataclass(frozen=True)
class PathWeight:
    """The largest weight among the draws of policies along a path, at each of its betas."""

    path: PolicyPath
    log_weights: Floats
    """One for each of the path's betas, and one at the end for the optimized policy."""
    label: ClassVar[str] = "empirical"
    constant: ClassVar[None] = None
    grows: ClassVar[bool] = False

    def candidates(self, problem: Problem) -> Candidates:
        """None: the weights are in the table."""
        return Candidates(np.empty(0), np.empty(0), np.empty(0, dtype=np.int64))

    def log_weight(self, problem: Problem, log_beta: float) -> float:
        """The weight at the beta of the path that is served."""
        if log_beta == np.inf:
            return float(self.log_weights[-1])
        return float(self.log_weights[max(self.path.column(log_beta), 0)])


def largest_weights(proposals: Proposals) -> PathWeight:
    """The test weight that proposals along a path give."""
    path = proposals.policy_path
    assert path is not None
    assert path.drawn_at is not None
    if path.drawn_at.max() < np.inf:
        raise ValueError(
            f"drawn_at of the proposals has no draw of the optimized policy (inf), the end of the "
            f"path: nothing is known of weights beyond its largest log beta, "
            f"{path.drawn_at.max():g}"
        )
    log_mix = proposals.log_safe if proposals.log_mix is None else proposals.log_mix
    possible = log_mix > -np.inf
    table = np.column_stack((path.log_density, proposals.log_optimized))
    if (outside := ~possible & (table > -np.inf).any(axis=1)).any():
        raise ValueError(
            f"draw {int(np.argmax(outside))} is an action that the policies which produced the log "
            f"never take, and the tethered policy does: its weight is infinite. The safe policy "
            f"must be able to take every action of the optimized one (absolute continuity)"
        )
    table = table[possible]
    log_weight = table - log_mix[possible, None]
    levels = path.drawn_at[possible]
    weights = [
        float(log_weight[_counted(levels, log_beta), column].max())
        for column, log_beta in enumerate(path.every_log_beta)
    ]
    return PathWeight(path, np.array(weights))


def _counted(levels: Floats, log_beta: float) -> Integers:
    """The draws of all policies up to the first at or beyond a beta."""
    return np.flatnonzero(levels <= levels[levels >= log_beta].min())
