"""The diagnostics of a calibration on a log in parts; `tether.control.diagnostics` in memory."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from tether._core.safe_excess import SafeMean
from tether._core.types import Floats
from tether._core.validate import frozen
from tether.control.constraint import Constraint
from tether.control.contradictions import summed_ratio_contradiction
from tether.control.coverage import Coverage, coverage_of
from tether.control.curve import Curve
from tether.control.diagnostics import RISK_TOLERANCE, is_shortlist
from tether.control.families import Mix
from tether.control.parts.capital import Capitals
from tether.control.parts.coverage_bets import coverage_bets, optimized_coverage_in_parts
from tether.control.parts.curve_points import curve_grid
from tether.control.parts.curve_sums import find_test_weights
from tether.control.parts.gain import changed_in_parts
from tether.control.parts.left_out import MixMoves, SmoothMoves
from tether.control.parts.order_statistics import quantiles
from tether.control.parts.ratio_bets import BetOnRatios
from tether.control.parts.row_sums import (
    LeftOut,
    RowWeights,
    SumDraws,
    SummedRows,
    SumRows,
)
from tether.control.parts.score_sums import LIKELIEST_SUM, ScoreSums
from tether.control.parts.score_warnings import (
    ReadScores,
    copies_in_parts,
    possible_outside,
    provenance_in_parts,
    read_scores,
    score_warnings_in_parts,
)
from tether.control.parts.weights import WeightsOfPart
from tether.control.refuted_log import Refutation
from tether.control.test_weight import Fixed

if TYPE_CHECKING:
    from tether.control.calibration import Calibration
    from tether.control.gains import Gain
    from tether.control.parts.problem import ProblemInParts
    from tether.control.provenance import Provenance

SUMS_BEFORE, SUMS_PER_CONSTRAINT = 4, 5
"""How many sums of `SumRows` come first, and how many belong to each constraint."""


CLEARLY_CHANGED = 0.01
"""A share of decisions that change that is not small."""


class DiagnosticsInParts:
    """What one calibration reads of its rows, in as few passes as possible."""

    def __init__(self, found: Calibration, problem: ProblemInParts) -> None:
        self.problem, self.constraints = problem, found.constraints
        self.log_beta, self.confidence = found.log_beta, found.confidence
        self.at = float(np.clip(found.log_beta, *problem.reach(found.log_beta)))
        self._tests: dict[float, float] = {}

    @cached_property
    def weights(self) -> WeightsOfPart:
        """How rows are weighted."""
        problem = self.problem
        direct = problem.family.normalized or not problem.log.contextual
        return WeightsOfPart(problem.family, problem.test_weight, problem.blend, direct)

    def log_test_weight(self, log_beta: float) -> float:
        """The log-weight of the test point, in the units of the rows' weights."""
        if log_beta not in self._tests:
            self._tests[log_beta] = float(self.log_test_weights(np.array([log_beta]))[0])
        return self._tests[log_beta]

    def log_test_weights(self, log_betas: Floats) -> Floats:
        """The same at several betas, in at most one pass."""
        problem, weight, zero = self.problem, self.problem.test_weight, np.zeros(1)
        if isinstance(weight, Fixed):
            return np.asarray(np.log(weight.constant) + self.log_psi(log_betas))
        source: Any = problem.log if problem.proposals is None else problem.proposals
        kernel = find_test_weights(self.weights, tuple(log_betas.tolist()))
        if not self.weights.direct:
            return np.asarray(problem.log.reduce(kernel)[0].values)
        terms = problem.marginal((), self.weights.blend).terms
        tops = terms.exact_tops
        if terms.constant_base > -np.inf:
            tops = np.array([np.inf]), np.array([terms.constant_base])
        if tops is None:
            return np.asarray(source.reduce(kernel)[0].values)
        with np.errstate(invalid="ignore"):
            ratios = [problem.family.log_density(zero, tops[0], b, 0.0)[0] for b in log_betas]
        return np.asarray(np.array(ratios) + tops[1][0])

    def log_psi(self, log_betas: Floats) -> Floats:
        """Log of the normalizing constants that weights lack: of clip without contexts."""
        problem = self.problem
        if not problem.normalizer_cancels:
            return np.zeros(len(log_betas))
        source: Any = problem.log
        counts = (len(problem.log), 0)
        if problem.proposals is not None:
            source, survey = problem.proposals, problem.proposals.survey
            counts = (survey.safe_rows, survey.rows - survey.safe_rows)
        (found,) = source.reduce(SumDraws(self.weights, tuple(log_betas.tolist()), counts))
        return np.where(np.isinf(log_betas), 0.0, found.logs)

    @cached_property
    def sums(self) -> SummedRows:
        """The sums over rows at the beta that serves; one pass."""
        log_test = self.log_test_weight(self.at) if self.weights.direct else np.inf
        kernel = SumRows(
            self.weights, self.at, self.constraints, self.highest_drawn, log_test, self._left_out
        )
        (found,) = self.problem.log.reduce(kernel)
        summed: SummedRows = found
        return summed

    @cached_property
    def _left_out(self) -> LeftOut | None:
        """What leaving out a row changes, where the same pass can tell."""
        problem, constraints = self.problem, self.constraints
        if self.confidence is not None or not problem.is_marginal:
            return None
        solver = problem.solver(constraints)
        if isinstance(problem.family, Mix):
            lines = tuple(solver.lines[each.name] for each in constraints)
            return MixMoves(constraints, lines, self.log_beta, problem.search_range())
        assert problem.family.smoothness is not None
        bands = tuple(
            solver.binned.band(each.name, *solver.crossings[each.name][1:]) for each in constraints
        )
        reach, smoothness = problem.reach(self.log_beta), problem.family.smoothness
        return SmoothMoves(constraints, bands, self.log_beta, smoothness, reach)

    @property
    def highest_drawn(self) -> float:
        """The largest finite log ratio of a draw; +inf if there are no draws."""
        problem = self.problem
        if not problem.has_draws:
            return np.inf
        if problem.proposals is not None:
            return problem.blended(problem.proposals.survey.ratio[1])
        return problem.blended(problem.log.survey.drawn_ratio[1])

    def _sums_of(self, number: int) -> Floats:
        first = SUMS_BEFORE + SUMS_PER_CONSTRAINT * number
        return np.asarray(self.sums.sums.logs[first : first + SUMS_PER_CONSTRAINT])

    def risks(self) -> dict[str, float]:
        """The calibrated risk of every constraint."""
        test = self.log_test_weight(self.at)
        found = {}
        for number, each in enumerate(self.constraints):
            weight, loss = self._sums_of(number)[:2]
            own_test = test + np.log(each.ratio_error)
            top = max(weight, own_test)
            if top == -np.inf:
                found[each.name] = each.bound
                continue
            weight, loss, own_test = np.exp([weight - top, loss - top, own_test - top])
            found[each.name] = float((loss + each.bound * own_test) / (weight + own_test))
        return self._checked(found)

    def _checked(self, risks: dict[str, float]) -> dict[str, float]:
        """Check that what was found satisfies the definition, computed afresh."""
        for each in self.constraints:
            passes = risks[each.name] <= each.alpha * (1 + RISK_TOLERANCE)
            if self.confidence is None and self.log_beta > -np.inf and not passes:
                raise RuntimeError(
                    f"beta = exp({self.log_beta}) was found for {each.name!r} but its calibrated "
                    f"risk is {risks[each.name]}, above alpha = {each.alpha}: this is a bug in "
                    f"tether, or the rows changed between two passes over them"
                )
        return risks

    @cached_property
    def _log_total(self) -> float:
        """Log of the weight of all rows and the test point."""
        return float(np.logaddexp(self.sums.sums.logs[0], self.log_test_weight(self.at)))

    def effective_sample_size(self) -> float:
        """How many equally weighted rows the weighted log is worth."""
        weight, square = self.sums.sums.logs[:2]
        return float(np.exp(2 * weight - square)) if square > -np.inf else 0.0

    def max_weight(self) -> float:
        """The largest share of the total weight that one point has."""
        if self._log_total == -np.inf:
            return 1.0
        test = self.log_test_weight(self.at)
        return float(np.exp(max(self.sums.largest, test) - self._log_total))

    def relative_weights(self) -> tuple[float, ...]:
        """Quantiles of weight over mean weight."""
        rows = len(self.problem.log)
        mean = float(self.sums.sums.logs[0]) - np.log(rows)
        if mean == -np.inf:
            return (0.0,) * 101
        kernel = RowWeights(self.weights, self.at)
        found = quantiles(self.problem.log, kernel, rows, np.linspace(0, 1, 101), np.exp, mean)
        return tuple(np.maximum.accumulate(found).tolist())

    def acceptance(self) -> float:
        """The share of proposals that a rejection sampler accepts."""
        problem = self.problem
        if self.weights.direct:
            log_psi = self.log_psi(np.array([self.at]))
            return float(np.exp(problem.family.log_acceptance(self.at, log_psi)[0]))
        return problem.mean_acceptance(self.weights, self.at)

    def rows_beyond_draws(self) -> int:
        """How many rows have a larger ratio than every draw."""
        return self.sums.beyond

    def heavier_rows(self) -> int:
        """How many rows weigh more than the test point."""
        if self.weights.direct:
            return self.sums.heavier
        test = self.log_test_weight(self.at)
        (found,) = self.problem.log.reduce(SumRows(self.weights, self.at, (), np.inf, test, None))
        return int(found.heavier)

    def safe_mean(self, constraint: Constraint) -> SafeMean:
        """The mean loss of the safe policy over the log, with its standard error."""
        number = [each.name for each in self.constraints].index(constraint.name)
        top = self.problem.log.survey.log_base[1]
        weight, squared = np.exp(self.sums.sums.logs[2:4] - (top, 2 * top)).tolist()
        unit = np.log(constraint.bound)
        shifts = np.array([top + unit, 2 * top + unit, 2 * top + 2 * unit])
        loss, squared_loss, square = np.exp(self._sums_of(number)[2:] - shifts).tolist()
        mean = loss / weight
        squares = max(square - 2 * mean * squared_loss + mean**2 * squared, 0.0) + (1 - mean) ** 2
        error = np.sqrt(squares) / (weight + 1.0)
        return SafeMean(float(constraint.bound * mean), float(constraint.bound * error))

    def stability(self) -> float:
        """How much the policy moves when one row is left out: ε in the promise."""
        if not self.problem.is_marginal:
            found: float = self.problem.solver(self.constraints).stability(self)
            return found
        with np.errstate(over="ignore"):
            return float(np.exp(self.sums.sums.logs[-1] - self._log_total))

    def robustness(self) -> float:
        """The largest ratio error at which a beta still passes, or is certified."""
        return self.problem.robustness(self)

    @cached_property
    def _read(self) -> ReadScores:
        bets = coverage_bets(self.problem.log)
        return read_scores(self.problem, *([] if bets is None else [bets]))

    @property
    def _scores(self) -> tuple[ScoreSums, ScoreSums | None]:
        return self._read.log, self._read.drawn

    def score_warnings(self) -> Iterator[str]:
        """What is suspicious about the scores, in words."""
        yield from score_warnings_in_parts(self.problem, *self._scores)

    def outside_share(self) -> float:
        """The optimized policy's share of actions that the safe policy never takes."""
        log, proposals = self.problem.log, self.problem.proposals
        if log.has_tables:
            return possible_outside(self._scores[0]) if log.survey.outside else 0.0
        if proposals is None:
            return 0.0
        survey = proposals.survey
        return survey.outside / max(1, survey.rows - survey.safe_rows)

    def coverage(self) -> Coverage | None:
        """Whether the log contains what the tethered policy does; None if unknown."""
        problem = self.problem
        weight, square = (float(each) for each in self.sums.sums.logs[:2])
        largest, draws = max(self.sums.largest, self.log_test_weight(self.at)), None
        if problem.test_weight.label == "empirical" and (counts := self._drawn) is not None:
            draws = min(count for count in counts if count)
        return coverage_of(len(problem.log), weight, square, largest, draws)

    @property
    def _drawn(self) -> tuple[int, int] | None:
        """How many draws of each policy there are; None without any."""
        log, proposals = self.problem.log.survey, self.problem.proposals
        if proposals is not None:
            safe = proposals.survey.safe_rows
            return safe, proposals.survey.rows - safe
        if log.draws is None or log.shared is None:
            return None
        return log.draws[0] * log.shared.different, log.draws[1] * log.shared.different

    def optimized_coverage(self) -> Coverage | None:
        """The same of the optimized policy, where it is too small to be chance."""
        bets = coverage_bets(self.problem.log)
        if bets is None:
            return None
        return optimized_coverage_in_parts(self.problem.log, bets, self._read.others[0])

    def log_warnings(self) -> tuple[str, ...]:
        """What looks wrong about the rows: so many copies."""
        copies = copies_in_parts(self.problem, self._scores[0])
        return () if copies is None else (copies,)

    def ratio_contradiction(self, allowed: float) -> Refutation | None:
        """How ratios that may be wrong by a factor contradict the log, in words."""
        columns, sums = self.problem.log.columns, self._read.log
        if columns.log_mix is not None and columns.log_logged is None:
            return None
        first = slice(0, 2) if columns.log_logged is None else slice(-2, None)
        ratio, square = sums.sums.logs[first].tolist()

        def log_capital(room: float) -> Floats:
            found: Capitals = self.problem.log.reduce(BetOnRatios(room))[0]
            return found.logs

        return summed_ratio_contradiction(sums.rows, ratio, square, allowed, log_capital)

    def provenance(self) -> Provenance:
        """Which log, proposals, settings and version this came from."""
        return provenance_in_parts(self.problem, *self._scores)

    def gain(self, found: Calibration) -> Gain | None:
        """What the calibration buys; None if the log has neither rewards nor tables."""
        if self.problem.log.columns.reward is None and not self.problem.log.has_tables:
            return None
        from tether.control.gains import gain  # which needs calibrations

        return gain(found)

    def changed(self, found: Calibration) -> float | None:
        """The share of decisions that change; None where it is unknown, or clearly not small."""
        if found.saved_gain is not None:
            return found.saved_gain.changed.mean
        if not self.problem.log.has_mixture:
            # With relative weights b of at most W, half of Σ|1 − b| is at least Σ(1 − b)² / 2W.
            rows, logs = len(self.problem.log), self.sums.sums.logs
            spread = math.exp(min(logs[1] - 2 * logs[0] + math.log(rows), 700.0)) - 1
            largest = math.exp(min(self.sums.largest - logs[0] + math.log(rows), 700.0))
            if spread / (2 * max(largest - 1, 1.0)) > CLEARLY_CHANGED:
                return None
        return changed_in_parts(self.problem, self.weights, self.at, self.sums.sums.logs)

    def likeliest_pick(self) -> tuple[int, float] | None:
        """Of a shortlist, its size and the likeliest candidate's mean probability; else None."""
        survey = self.problem.log.survey
        if survey.actions is None or not is_shortlist(survey.actions, *survey.listed_safe):
            return None
        likeliest = float(self._read.log.sums.logs[LIKELIEST_SUM])
        return survey.actions, math.exp(likeliest - math.log(survey.rows))

    def curve(self, constraint: Constraint, points: int) -> Curve:
        """The calibrated risk at the breakpoints, thinned to equal steps of their rank."""
        grid = curve_grid(self.problem, self.log_beta, points)
        return Curve(frozen(grid), frozen(self.problem.risks_at(self, constraint, grid)))
