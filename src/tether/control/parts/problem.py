"""The problem of a calibration whose rows are read in parts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from tether._core.types import Floats
from tether.control.blend import blend_scores
from tether.control.constraint import Constraint
from tether.control.families import BudgetedClip, Clip, Mix
from tether.control.family import Family
from tether.control.parts.curve_sums import RisksAtBetas, can_split
from tether.control.parts.in_parts import LogInParts, ProposalsInParts
from tether.control.parts.marginal import MarginalSolver, MarginalTerms
from tether.control.parts.normalizer_check import check_normalizer_in_parts
from tether.control.parts.row_sums import SumAcceptance, SumSides
from tether.control.parts.search_solver import SearchSolver
from tether.control.parts.weights import WeightsOfPart
from tether.control.problem import NOTHING_TO_WEIGHT, SEARCH_MARGIN
from tether.control.proposal_blocks import DEFAULT_BUDGET
from tether.control.proposals import Proposals
from tether.control.test_weight import TestWeight, find_test_weight

if TYPE_CHECKING:
    from tether.control.parts.diagnostics import DiagnosticsInParts

BETAS_PER_PASS, BETAS_PER_SPLIT = 64, 512
"""At how many betas the risk is computed in one pass: one by one, or of rows that are split."""


@dataclass(frozen=True)
class ProblemInParts:
    """A log in parts, its draws, a family and a test weight, which fit together."""

    log: LogInParts
    proposals: ProposalsInParts | None
    family: Family
    test_weight: TestWeight
    requested_blend: float
    settings: Mapping[str, Any] = field(default_factory=dict)
    solved: dict[tuple[Constraint, ...], Any] = field(default_factory=dict, compare=False)
    """Solvers of constraints that were asked for, the last ones only."""

    @property
    def has_draws(self) -> bool:
        """Whether draws or tables were given; else the log's own rows take their place."""
        return self.proposals is not None or self.log.has_tables or self.log.has_draws

    @property
    def is_marginal(self) -> bool:
        """Whether the condition has a closed form: mix, and clip without contexts."""
        marginal_clip = isinstance(self.family, Clip) and not self.log.contextual
        return isinstance(self.family, Mix) or marginal_clip

    @property
    def normalizer_cancels(self) -> bool:
        """Whether weights lack one factor that is the same for all rows, and is not known."""
        return not (self.family.normalized or self.log.contextual)

    @property
    def sharing(self) -> int:
        """How many rows have the same draws as another one, where weights average over draws."""
        shared = None if self.family.normalized else self.log.survey.shared
        return 0 if shared is None else shared.shared

    @property
    def actions(self) -> int | None:
        """How many actions the tables of the log list."""
        return self.log.survey.actions

    @property
    def blend(self) -> float:
        """The share of the safe policy that is part of what is called the optimized policy."""
        if not self._keeps_zeros:
            return 0.0
        drawn = self.proposals is not None and self.proposals.survey.zeros
        return self.requested_blend if drawn or self.log.survey.zeros else 0.0

    @property
    def _keeps_zeros(self) -> bool:
        kernel = self.family.log_kernel(np.zeros(1), np.full(1, -np.inf), 0.0)
        return not self.family.normalized and bool(kernel[0] == -np.inf)

    @cached_property
    def span(self) -> tuple[float, float]:
        """The smallest and the largest log ratio of rows and draws, after any blend."""
        ranges = [self.log.survey.ratio, self.log.survey.drawn_ratio]
        ranges += [self.proposals.survey.ratio] if self.proposals is not None else []
        lo, hi = min(each[0] for each in ranges), max(each[1] for each in ranges)
        if self.blend:
            # The blend is a monotone function of the ratio; a ratio of zero becomes the blend.
            lo, hi = self.blended(lo), self.blended(hi)
            lo = min(lo, float(np.log(self.blend)))
        return (lo, hi) if lo <= hi else (0.0, 0.0)

    def blended(self, log_ratio: float) -> float:
        """A log ratio after any blend."""
        return float(blend_scores(np.array([log_ratio]), np.zeros(1), self.blend)[0])

    def reach(self, log_beta: float = 0.0) -> tuple[float, float]:
        """The log betas between which the tethered policy changes, as far as the data can tell."""
        lo, hi = self.span
        if not self.family.saturates:
            return -np.inf, np.inf
        included = log_beta if np.isfinite(log_beta) else 0.0
        return min(lo, included, 0.0), max(hi, included, 0.0)

    def search_range(self) -> tuple[float, float]:
        """The log betas among which to look for the largest that passes."""
        if self.family.saturates:
            return self.reach()
        # Mix changes where β·ratio passes one, other families where β passes the ratio.
        lo, hi = self.span
        return min(lo, -hi) - SEARCH_MARGIN, max(hi, -lo) + SEARCH_MARGIN

    def solver(self, constraints: tuple[Constraint, ...]) -> Any:
        """What finds the largest betas of several constraints at once."""
        if constraints not in self.solved:
            self.solved.clear()
            self.solved[constraints] = self._new_solver(constraints)
        return self.solved[constraints]

    def _new_solver(self, constraints: tuple[Constraint, ...]) -> Any:
        if not self.is_marginal:
            return SearchSolver(self, constraints)
        drawn = self.proposals is not None and self.proposals.survey.zeros
        first = self.requested_blend if self._keeps_zeros and drawn else 0.0
        if self.log._survey is not None:
            first = self.blend
        solver = self.marginal(constraints, first)
        _ = solver.binned  # reads the rows, with the blend that is expected
        if self.blend != first:
            solver = self.marginal(constraints, self.blend)
        return solver

    def marginal(self, constraints: tuple[Constraint, ...], blend: float) -> MarginalSolver:
        """The solver of a condition with a closed form."""
        parts = (self.log, self.proposals, self.family, self.test_weight)
        return MarginalSolver(MarginalTerms(*parts, constraints, blend))

    def largest(self, constraints: tuple[Constraint, ...]) -> dict[str, float]:
        """Log of the largest beta that each constraint allows; −inf where it allows none."""
        found: dict[str, float] = self.solver(constraints).largest()
        self.check_rows()
        return found

    def check_rows(self) -> None:
        """Refuse rows without weight, where they take the place of draws."""
        low, high = self.log.survey.ratio
        if not self.has_draws and low > high and not self.blend:
            raise ValueError(NOTHING_TO_WEIGHT)

    def mean_acceptance(self, weights: WeightsOfPart, log_beta: float) -> float:
        """The harmonic mean of the share of proposals that a sampler accepts in each row."""
        (found,) = self.log.reduce(SumAcceptance(weights, log_beta))
        return float(np.exp(np.log(len(self.log)) - found.logs[0]))

    def robustness(self, measured: DiagnosticsInParts) -> float:
        """The largest ratio error that every constraint leaves; below 1 where one fails."""
        if measured.confidence is not None:
            from tether.control.parts.high_probability import CertificationInParts

            return CertificationInParts(
                self, measured.constraints, measured.confidence
            ).ratio_error()
        safest, _ = self.search_range()
        plain = tuple(replace(each, ratio_error=1.0) for each in measured.constraints)
        (sums,) = self.log.reduce(SumSides(measured.weights, safest, plain))
        test = measured.log_test_weight(safest)
        logs = sums.logs.reshape(-1, 2)
        worst = np.log([each.worst for each in plain])
        positive = np.logaddexp(logs[:, 0], worst + test)
        with np.errstate(invalid="ignore"):
            excess = np.where(np.isneginf(logs[:, 1]), np.inf, positive - logs[:, 1])
        return float(np.exp(-excess.max() / 2))

    def risks_at(
        self, measured: DiagnosticsInParts, constraint: Constraint, log_betas: Floats
    ) -> Floats:
        """The calibrated risk at many betas."""
        found = []
        step = BETAS_PER_SPLIT if can_split(measured.weights) else BETAS_PER_PASS
        for start in range(0, len(log_betas), step):
            some = log_betas[start : start + step]
            asked = RisksAtBetas(measured.weights, tuple(some.tolist()), constraint)
            (sums,) = self.log.reduce(asked.kernel)
            tests, logs = measured.log_test_weights(some), asked.logs(sums)
            tests = tests + np.log(constraint.ratio_error)
            top = np.maximum(logs[:, 0], tests)
            with np.errstate(invalid="ignore"):
                weight, loss, test = np.exp(np.stack((logs[:, 0], logs[:, 1], tests)) - top)
                risk = (loss + constraint.bound * test) / (weight + test)
            found.append(np.where(np.isneginf(top), constraint.bound, risk))
        return np.concatenate(found)


def pose_in_parts(
    log: LogInParts,
    proposals: Proposals | ProposalsInParts | None,
    family: Family,
    test_weight: str | float,
    blend: float = 0.0,
) -> ProblemInParts:
    """Combine log, proposals, family and test weight; raise if they are inconsistent."""
    if proposals is not None and not isinstance(proposals, ProposalsInParts):
        raise TypeError(
            f"proposals of a scanned log must come from tether.Proposals.scan, got "
            f"{type(proposals).__name__}"
        )
    has_draws = proposals is not None or log.has_tables or log.has_draws
    weight = find_test_weight(test_weight, log, family, has_draws=has_draws)  # type: ignore[arg-type]
    if proposals is not None:
        _check_pair(log, proposals)
    elif log.has_contexts and not has_draws and not family.normalized:
        raise ValueError(
            "the log has contexts, so normalizing constants are needed: tables of all actions "
            "(log_safe_all, log_optimized_all), or draws of both policies stored beside each row "
            "(safe_draws, optimized_draws); a log with propensities only can use family 'mix'"
        )
    family = _served(log, family)
    _check_family(log, family)
    if proposals is not None:
        check_normalizer_in_parts(proposals)
    problem = ProblemInParts(log, proposals, family, weight, blend)
    _check_support(problem)
    return problem


def _check_pair(log: LogInParts, proposals: ProposalsInParts) -> None:
    if log.has_mixture != proposals.has_mixture:
        present, lacking = ("log", "proposals") if log.has_mixture else ("proposals", "log")
        raise ValueError(
            f"the {present} has log_mix but the {lacking} has none: rows and draws need "
            f"weights against the same mixture"
        )
    if log.has_tables:
        raise ValueError("proposals are not needed with log_safe_all: the tables are exact")
    if log.has_draws:
        raise ValueError("proposals are not needed with draws stored beside the rows")
    if log.has_contexts or proposals.has_contexts:
        raise ValueError(
            "proposals with contexts cannot be scanned beside a log, whose rows would have to be "
            "joined with them: store the draws of each row beside it, as columns of lists, and "
            "name them safe_draws and optimized_draws in tether.Log.scan"
        )


def _served(log: LogInParts, family: Family) -> Family:
    """The family that is served: clip with stored draws becomes budgeted clip."""
    exact = log.has_tables
    if family.normalized or exact or (not log.contextual and family.max_draws is None):
        return family
    if not log.has_draws:
        raise ValueError(
            f"family {family.name!r} of a scanned log needs draws of both policies stored beside "
            f"each row, as columns of lists: name them safe_draws and optimized_draws in "
            f"tether.Log.scan"
        )
    counts = log.survey.draws
    assert counts is not None
    if isinstance(family, Clip):
        family = BudgetedClip(int(np.clip(min(counts), 1, DEFAULT_BUDGET)))
    if not isinstance(family, BudgetedClip):
        raise ValueError(
            f"family {family.name!r} has a normalizing constant in each context, which draws can "
            f"only estimate, and dividing by an estimate would bias every weight: give tables of "
            f"all actions (log_safe_all, log_optimized_all), use a tether.Shortlist, or family "
            f"'clip' or 'mix'"
        )
    if min(counts) < family.max_draws:
        raise ValueError(
            f"a budget of {family.max_draws} draws per action needs as many fresh draws of each "
            f"policy; there are {counts[0]} of the safe policy and {counts[1]} of the optimized one"
        )
    return family


def _check_family(log: LogInParts, family: Family) -> None:
    """Refuse a family of the user's own that a log in parts cannot be solved for."""
    if isinstance(family, (Clip, Mix, BudgetedClip)):
        return
    if not log.has_tables or family.smoothness is None:
        raise ValueError(
            f"family {family.name!r} of a scanned log needs tables of all actions and a stated "
            f"smoothness, which certifies the search for beta; use family 'clip' or 'mix', or "
            f"read the log into memory"
        )


def _check_support(problem: ProblemInParts) -> None:
    """Refuse a family that acts where the safe policy never does, and draws without weight."""
    family, proposals, log = problem.family, problem.proposals, problem.log
    reached = family.log_density(np.array([-np.inf]), np.zeros(1), 0.0, np.zeros(1))
    if proposals is not None:
        outside, common = bool(proposals.survey.outside), proposals.survey.common
    elif problem.has_draws:
        outside, common = log.survey.outside, log.survey.common
    else:
        return
    if reached[0] > -np.inf and outside:
        raise ValueError(
            f"family {family.name!r} needs a safe policy that can take every action of the "
            f"optimized one (absolute continuity), but draws have log_safe −inf; restrict the "
            f"optimized policy to actions of the safe one, or use family 'clip'"
        )
    if not common and not problem.blend:
        raise ValueError(NOTHING_TO_WEIGHT)
