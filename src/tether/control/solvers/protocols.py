"""What a solver does: the modules of this folder are solvers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from tether._core.types import Floats

if TYPE_CHECKING:
    from tether.control.constraint import Constraint
    from tether.control.problem import Problem


class Solver(Protocol):
    """A way to solve the condition for beta, as the modules of this folder do."""

    def largest(self, problem: Problem, constraint: Constraint) -> float:
        """Log of the largest beta that a constraint allows; −inf where it allows none."""
        ...

    def risks(self, problem: Problem, constraint: Constraint, log_beta: Floats) -> Floats:
        """The calibrated risk at many betas, in increasing order."""
        ...


class ExactSolver(Solver, Protocol):
    """A solver that needs no search."""

    def leave_one_out(self, problem: Problem, constraint: Constraint) -> Floats:
        """Log of the largest beta without each row of the log in turn."""
        ...
