"""The diagnostics of a calibration, computed from its rows.

`Calibration` reads them here, whatever its rows are: arrays in memory, or a log in parts
(`tether.control.parts.diagnostics`).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Protocol

import numpy as np

from tether._core.safe_excess import SafeMean
from tether._core.types import Floats
from tether.control.calibration_warnings import rows_beyond_draws
from tether.control.changed_share import changed_share
from tether.control.constraint import Constraint
from tether.control.contradictions import log_contradiction
from tether.control.coverage import Coverage, coverage_of, optimized_coverage
from tether.control.curve import Curve, risk_curve
from tether.control.high_probability import certified_ratio_error
from tether.control.problem import Problem
from tether.control.promise import safe_mean_of
from tether.control.provenance import Provenance, make_provenance
from tether.control.refuted_log import Refutation
from tether.control.robustness import largest_ratio_error
from tether.control.score_checks import score_warnings
from tether.control.scored_by import PICKER
from tether.control.stability import (
    measured_instability,
    searched_instability,
    smooth_instability,
)

if TYPE_CHECKING:
    from tether.control.calibration import Calibration
    from tether.control.gains import Gain

UNIFORM_TOLERANCE = 1e-9
"""How far, in logs, the safe policy of a shortlist may be from uniform."""
RISK_TOLERANCE = 1e-6
"""How far rounding may carry the calibrated risk past alpha, relatively."""
LEAST_SHARE = 1e-100
"""The squares of smaller shares are no longer precise floats."""


class Diagnostics(Protocol):
    """What a calibration tells of its rows."""

    def risks(self) -> dict[str, float]:
        """The calibrated risk of every constraint."""
        ...

    def robustness(self) -> float:
        """The largest ratio error at which a beta still passes, or is certified."""
        ...

    def stability(self) -> float:
        """How much the policy moves when one row is left out: ε in the promise."""
        ...

    def safe_mean(self, constraint: Constraint) -> SafeMean:
        """The mean loss of the safe policy over the log, with its standard error."""
        ...

    def effective_sample_size(self) -> float:
        """How many equally weighted rows the weighted log is worth."""
        ...

    def max_weight(self) -> float:
        """The largest share of the total weight that one point has."""
        ...

    def relative_weights(self) -> tuple[float, ...]:
        """The 101 quantiles of weight over mean weight."""
        ...

    def acceptance(self) -> float:
        """The share of proposals that a rejection sampler accepts."""
        ...

    def rows_beyond_draws(self) -> int:
        """How many rows have a larger ratio than every draw."""
        ...

    def heavier_rows(self) -> int:
        """How many rows weigh more than the test point."""
        ...

    def outside_share(self) -> float:
        """The optimized policy's share of actions that the safe policy never takes."""
        ...

    def coverage(self) -> Coverage | None:
        """Whether the log contains what the tethered policy does; None if unknown."""
        ...

    def optimized_coverage(self) -> Coverage | None:
        """The same of the optimized policy, where it is too small to be chance."""
        ...

    def log_warnings(self) -> tuple[str, ...]:
        """What looks wrong about the rows, whatever is calibrated on them."""
        ...

    def ratio_contradiction(self, allowed: float) -> Refutation | None:
        """How ratios that may be wrong by a factor contradict the log, in words."""
        ...

    def score_warnings(self) -> Iterator[str]:
        """What is suspicious about the scores, in words."""
        ...

    def provenance(self) -> Provenance:
        """Which log, proposals, settings and version this came from."""
        ...

    def gain(self, found: Calibration) -> Gain | None:
        """What the calibration buys; None if the log does not have what it is kept for."""
        ...

    def changed(self, found: Calibration) -> float | None:
        """The share of decisions that change; None where it is not known without more passes."""
        ...

    def likeliest_pick(self) -> tuple[int, float] | None:
        """Of a shortlist, its size and the likeliest candidate's mean probability; else None."""
        ...

    def curve(self, constraint: Constraint, points: int) -> Curve:
        """The calibrated risk along beta."""
        ...


def is_shortlist(size: int, lowest: float, highest: float) -> bool:
    """Whether tables with these log-probabilities of the safe policy are those of a shortlist."""
    uniform = -float(np.log(size))
    return size > 1 and max(uniform - lowest, highest - uniform) < UNIFORM_TOLERANCE


class DiagnosticsInMemory:
    """The diagnostics of a calibration whose rows are arrays."""

    def __init__(self, found: Calibration, problem: Problem) -> None:
        self.problem, self.constraints = problem, found.constraints
        self.log_beta, self.confidence = found.log_beta, found.confidence
        self.at = found.effective_log_beta

    @cached_property
    def shares(self) -> tuple[Floats, float]:
        """The weights at beta, which several diagnostics read."""
        return self.problem.shares(self.at)

    @cached_property
    def row_weights(self) -> Floats:
        """The weights at beta in any unit, which beside a heavy test point may not be shares."""
        if float(self.shares[0].max()) > LEAST_SHARE:
            return self.shares[0]
        rows, _ = self.problem.log_weights(self.at)
        top = float(rows.max())
        return np.exp(rows - top) if top > -np.inf else np.zeros(len(rows))

    def risks(self) -> dict[str, float]:
        """The calibrated risk of every constraint."""
        return {each.name: self.problem.risk(each, self.at) for each in self.constraints}

    def robustness(self) -> float:
        """The largest ratio error at which a beta still passes, or is certified."""
        if self.confidence is not None:
            return certified_ratio_error(self.problem, self.constraints, self.confidence)
        return largest_ratio_error(self.problem, self.constraints)

    def stability(self) -> float:
        """How much the policy moves when one row is left out: ε in the promise."""
        problem, known = self.problem, self.problem.family.smoothness
        solver = problem.exact_solver
        if solver is None:
            return searched_instability(problem, self.constraints, self.log_beta)
        without = np.min([solver.leave_one_out(problem, each) for each in self.constraints], axis=0)
        if known is None or not problem.normalizer_cancels:
            return measured_instability(problem, self.log_beta, without)
        reach = problem.reach(self.log_beta)
        return smooth_instability(self.log_beta, without, self.shares[0], known, reach)

    def safe_mean(self, constraint: Constraint) -> SafeMean:
        """The mean loss of the safe policy over the log, with its standard error."""
        return safe_mean_of(self.problem, constraint)

    def effective_sample_size(self) -> float:
        """How many equally weighted rows the weighted log is worth."""
        weight = self.row_weights
        squares = float((weight * weight).sum())
        return float(weight.sum() ** 2 / squares) if squares > 0 else 0.0

    def max_weight(self) -> float:
        """The largest share of the total weight that one point has."""
        share, test_share = self.shares
        return float(max(share.max(), test_share))

    def relative_weights(self) -> tuple[float, ...]:
        """The 101 quantiles of weight over mean weight."""
        weight = self.row_weights
        mean = float(weight.mean())
        relative = weight / mean if mean > 0 else weight
        return tuple(np.quantile(relative, np.linspace(0, 1, 101)).tolist())

    def acceptance(self) -> float:
        """The share of proposals that a rejection sampler accepts."""
        return float(np.exp(self.problem.log_acceptance(self.at)))

    def rows_beyond_draws(self) -> int:
        """How many rows have a larger ratio than every draw."""
        return rows_beyond_draws(self.problem)

    def heavier_rows(self) -> int:
        """How many rows weigh more than the test point."""
        rows, test = self.problem.log_weights(self.at)
        return int(np.sum(rows > test + 1e-9))

    def outside_share(self) -> float:
        """The optimized policy's share of actions that the safe policy never takes."""
        log, drawn = self.problem.given_log, self.problem.given_proposals
        if log.log_safe_all is not None and log.log_optimized_all is not None:
            outside = np.isneginf(log.log_safe_all)
            return float(np.exp(log.log_optimized_all).sum(axis=1, where=outside).mean())
        if drawn is None or not (~drawn.from_safe).any():
            return 0.0
        return float(np.isneginf(drawn.log_safe[~drawn.from_safe]).mean())

    def coverage(self) -> Coverage | None:
        """Whether the log contains what the tethered policy does; None if unknown."""
        problem = self.problem
        rows, test = problem.log_weights(self.at)
        top = float(rows.max())
        if top == -np.inf:
            return None
        # The unit of the weights is known for the policy itself, and for clip without contexts at
        # an infinite beta, where they are the ratios.
        unit = 0.0
        if problem.normalizer_cancels:
            unit = float((problem.log.log_optimized - problem.log_mix).max()) - top
        shares = np.exp(rows - top)
        sums = np.log([shares.sum(), (shares * shares).sum()]) + top + unit
        drawn = problem.given_proposals if problem.test_weight.label == "empirical" else None
        draws = None
        if drawn is not None and problem.log.log_safe_all is None:
            from_safe = int(drawn.from_safe.sum())
            draws = min(count for count in (from_safe, len(drawn) - from_safe) if count)
        return coverage_of(len(rows), sums[0], sums[1] + top + unit, max(top, test) + unit, draws)

    def optimized_coverage(self) -> Coverage | None:
        """The same of the optimized policy, where it is too small to be chance."""
        return optimized_coverage(self.problem.given_log)

    def log_warnings(self) -> tuple[str, ...]:
        """What looked wrong about the rows when the log was made."""
        return self.problem.given_log.warnings

    def ratio_contradiction(self, allowed: float) -> Refutation | None:
        """How ratios that may be wrong by a factor contradict the log, in words."""
        return log_contradiction(self.problem.given_log, allowed)

    def score_warnings(self) -> Iterator[str]:
        """What is suspicious about the scores, in words."""
        along_path = len(self.problem.path_log_betas) > 0  # draws of neither policy
        drawn = None if along_path else self.problem.given_proposals
        yield from score_warnings(self.problem.given_log, drawn)

    def provenance(self) -> Provenance:
        """Which log, proposals, settings and version this came from."""
        return make_provenance(self.problem)

    def gain(self, found: Calibration) -> Gain | None:
        """What the calibration buys; None if the log has neither rewards nor tables."""
        log = self.problem.given_log
        if log.reward is None and log.log_safe_all is None:
            return None
        from tether.control.gains import gain  # which needs calibrations

        return gain(found)

    def changed(self, found: Calibration) -> float | None:
        """The share of decisions that change; None along a path, where it is not estimated."""
        problem = self.problem
        if len(problem.path_log_betas):
            return None
        if found.saved_gain is not None:
            return found.saved_gain.changed.mean
        safe = problem.log.log_safe - problem.log_mix
        exists = self.log_beta > -np.inf
        tethered = problem.log_weights(self.log_beta)[0] if exists else safe
        return changed_share(problem, self.log_beta, safe, tethered).mean

    def likeliest_pick(self) -> tuple[int, float] | None:
        """Of a shortlist, its size and the likeliest candidate's mean probability; else None."""
        log = self.problem.given_log
        picked = log.scored_by is None or PICKER in log.scored_by.fingerprints
        if not picked or log.log_safe_all is None or log.log_optimized_all is None:
            return None
        size, safe = log.log_safe_all.shape[1], log.log_safe_all
        if not is_shortlist(size, float(safe.min()), float(safe.max())):
            return None
        return size, float(np.exp(log.log_optimized_all.max(axis=1)).mean())

    def curve(self, constraint: Constraint, points: int) -> Curve:
        """The calibrated risk along beta."""
        return risk_curve(self.problem, constraint, self.log_beta, points)
