"""What a calibration says of its log: which it was, what looked wrong, and what it contains."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from tether.control.calibration_entries import QUANTILES
from tether.control.coverage import COVERED_TETHERED, Coverage, is_covered
from tether.control.families import Mix
from tether.control.problem import Problem
from tether.control.provenance import Provenance
from tether.control.refuted_log import Refutation
from tether.control.scored_by import PICKER, ScoredBy

if TYPE_CHECKING:
    from tether.control.diagnostics import Diagnostics
    from tether.control.parts.problem import ProblemInParts


class CalibrationLogFacts:
    """Where a calibration comes from, and what it says of actions that its log cannot contain."""

    log_beta: float
    family: str
    _stored_problem: Problem | ProblemInParts | None

    if TYPE_CHECKING:

        @property
        def ratio_error(self) -> float:
            """The factor by which every importance weight may be wrong."""

        @property
        def _problem(self) -> Problem | ProblemInParts: ...

        @cached_property
        def _diagnostics(self) -> Diagnostics: ...

    @cached_property
    def log_warnings(self) -> tuple[str, ...]:
        """What looked wrong about the log when it was made; `warnings` says it too."""
        return self._diagnostics.log_warnings()

    @cached_property
    def refuted_by(self) -> tuple[str, ...]:
        """How the log refutes what it states, so that a calibration on it does not hold.

        Its rows cannot have the stated probabilities, most of them are copies, or the candidates of
        a shortlist are not drawn as its actions were. These are of the `warnings`; nothing useful
        is promised where there is one.
        """
        found = tuple(each for each in self.log_warnings if isinstance(each, Refutation))
        by_ratios = None if found else self._diagnostics.ratio_contradiction(self.ratio_error)
        return found if by_ratios is None else (by_ratios,)

    @cached_property
    def provenance(self) -> Provenance | None:
        """Which log, proposals, settings and version this came from; None where it is unknown."""
        return self._diagnostics.provenance()

    @property
    def scored_by(self) -> ScoredBy | None:
        """What the log notes of the policies that it was scored under, while it is in memory."""
        problem = self._stored_problem
        return problem.given_log.scored_by if isinstance(problem, Problem) else None

    @cached_property
    def pick_quantiles(self) -> tuple[float, ...] | None:
        """Of a shortlist, the 0 %, …, 100 % quantiles of the likeliest candidate's probability.

        As the score picks, in the rows of the log; None where the log is not from a `Shortlist`.
        The rows that are served are compared with it.
        """
        noted, problem = self.scored_by, self._stored_problem
        if noted is None or PICKER not in noted.fingerprints:
            return None
        assert isinstance(problem, Problem)
        table = problem.given_log.log_optimized_all
        assert table is not None
        levels = np.linspace(0, 1, QUANTILES)
        likeliest = np.exp(table.max(axis=1))
        return tuple(np.quantile(likeliest, levels, method="inverted_cdf").tolist())

    @property
    def optimized_share(self) -> float | None:
        """The share of decisions that the optimized policy makes in a mix; None for others.

        Serving mix is routing: this share goes to the optimized policy, at random, and the rest to
        the safe one. It is what beta stands for, so look at `useful` first: where that is False,
        all decisions stay with the safe policy, whatever this share is.
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
        is unknown. Where the log contains too little of what the optimized policy does, it is the
        mean of that policy.
        """
        return None if self._coverage is None else self._coverage.mean

    @property
    def coverage_limit(self) -> float | None:
        """What the coverage is at most, up to chance, if no weight exceeds the next action's."""
        return None if self._coverage is None else self._coverage.limit

    @property
    def covered(self) -> bool:
        """Whether the log can contain all that the tethered and the optimized policy do.

        If not, the policies that took the actions never took some of its actions, or took them with
        other probabilities than stated, and nothing useful is promised.
        """
        return is_covered(self.coverage_limit, self.ratio_error)

    @property
    def covered_policy(self) -> str:
        """The policy that `coverage` is about, in words; once saved, `warnings` says it."""
        return COVERED_TETHERED if self._coverage is None else self._coverage.policy

    @cached_property
    def _coverage(self) -> Coverage | None:
        """None where no policy is served, or where clip's weights have no unit."""
        if self.log_beta == -np.inf:
            return None
        optimized = self._diagnostics.optimized_coverage()
        if optimized is not None and not is_covered(optimized.limit, self.ratio_error):
            return optimized
        if self._problem.normalizer_cancels and (self.log_beta < np.inf or self.outside_share):
            return None
        return self._diagnostics.coverage()
