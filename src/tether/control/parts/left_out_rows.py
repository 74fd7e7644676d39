"""How far the weights of rows with contexts move when each is left out."""

from __future__ import annotations

from dataclasses import dataclass

from tether.control.constraint import Constraint
from tether.control.left_out import Levels, largest_changes, own_changes
from tether.control.parts.log_sum import LogSums
from tether.control.parts.rows import LogPart
from tether.control.parts.weights import WeightsOfPart


@dataclass(frozen=True)
class MoveRows:
    """Σw at beta, and the sum of the largest changes of w at the betas without each row."""

    weights: WeightsOfPart
    constraints: tuple[Constraint, ...]
    levels: Levels
    at: float

    def of(self, part: LogPart) -> LogSums:
        """The sums of a part."""
        problem = self.weights.problem(part)
        here, _ = problem.log_weights(self.at)
        changes = own_changes(problem, here)
        found = largest_changes(problem, self.constraints, self.levels.points, changes, self.levels)
        return LogSums.of([here, found])
