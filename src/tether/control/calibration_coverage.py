"""Whether the log of a calibration contains what the tethered policy does."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from tether.control.coverage import Coverage, is_covered
from tether.control.families import Mix

if TYPE_CHECKING:
    from tether.control.diagnostics import Diagnostics
    from tether.control.parts.problem import ProblemInParts
    from tether.control.problem import Problem


class CalibrationCoverage:
    """What a calibration says of actions that its log cannot contain."""

    log_beta: float
    family: str

    if TYPE_CHECKING:

        @property
        def ratio_error(self) -> float:
            """The factor by which every importance weight may be wrong."""

        @property
        def _problem(self) -> Problem | ProblemInParts: ...

        @cached_property
        def _diagnostics(self) -> Diagnostics: ...

    @property
    def optimized_share(self) -> float | None:
        """The share of decisions that the optimized policy makes in a mix; None for others.

        Serving mix is routing: this share goes to the optimized policy, at random, and the rest to
        the safe one.
        """
        return Mix().optimized_share(self.log_beta) if self.family == Mix.name else None

    @cached_property
    def outside_share(self) -> float:
        """The optimized policy's share of actions that the safe policy never takes.

        Clip never takes them either: what is calibrated, and served, is restricted to the others.
        """
        return self._diagnostics.outside_share()

    @property
    def coverage(self) -> float | None:
        """How much of what the tethered policy does is in the log, which should be 1.

        The mean of its probability over that of the policies that took the actions; None where it
        is unknown.
        """
        return None if self._coverage is None else self._coverage.mean

    @property
    def coverage_limit(self) -> float | None:
        """What the coverage is at most, up to chance, if no weight exceeds the next action's."""
        return None if self._coverage is None else self._coverage.limit

    @property
    def covered(self) -> bool:
        """Whether the log can contain all that the tethered policy does.

        If not, the policies that took the actions never took some of its actions, or took them with
        other probabilities than stated, and nothing useful is promised.
        """
        return is_covered(self.coverage_limit, self.ratio_error)

    @cached_property
    def _coverage(self) -> Coverage | None:
        """None where no policy is served, or where clip's weights have no unit."""
        if self.log_beta == -np.inf:
            return None
        if self._problem.normalizer_cancels and (self.log_beta < np.inf or self.outside_share):
            return None
        return self._diagnostics.coverage()
