"""What it costs that rows of a log in parts share draws (`tether.control.shared_draws`)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tether._core.kernels import Several
from tether._core.types import Floats
from tether.control.constraint import Constraint
from tether.control.parts.log_sum import LogSums
from tether.control.parts.problem import ProblemInParts
from tether.control.parts.row_hashes import FIRST_SEED, row_hashes
from tether.control.parts.rows import LogPart
from tether.control.parts.shared_draws import GroupSums, group_keys
from tether.control.parts.weights import WeightsOfPart
from tether.control.shared_draws import sharing_terms, sides_of


@dataclass(frozen=True)
class SumSharing:
    """For each side of each constraint the moves of every group, their squares, and the weight."""

    weights: WeightsOfPart
    constraints: tuple[Constraint, ...]
    log_beta: float
    log_top: float
    most: float
    exact: bool

    def of(self, part: LogPart) -> Several:
        """The sums of a part."""
        problem = self.weights.problem(part)
        terms = sharing_terms(problem, self.log_beta, self.log_top)
        move = np.abs(terms.slope) * np.sqrt(terms.noise)
        moves: list[Floats] = []
        logs: list[Floats] = []
        for each in self.constraints:
            unit = each.bound * each.ratio_error
            for side in sides_of(problem, each):
                own = np.minimum(side / unit * move / self.most, 1.0)
                moves.append(own)
                with np.errstate(divide="ignore"):
                    logs += [2 * np.log(own), np.log(side / unit) + np.log(terms.weight)]
        hashes = row_hashes([part.draws[name] for name in sorted(part.draws)], FIRST_SEED)
        sums = GroupSums.of(group_keys(hashes, self.exact), np.array(moves))
        return Several((sums, LogSums.of(logs)))


def shared_error_in_parts(
    problem: ProblemInParts, constraints: tuple[Constraint, ...], log_beta: float
) -> float:
    """The largest factor g of all constraints at one beta; 1 where no rows share draws."""
    survey = problem.log.survey
    if not np.isfinite(log_beta) or survey.shared is None or not survey.shared.shared:
        return 1.0
    highest, base = problem.blended(survey.ratio[1]), survey.log_base[1]
    log_top = base + max(min(highest, log_beta) - min(log_beta, 0.0), 0.0)
    weights = WeightsOfPart(problem.family, problem.test_weight, problem.blend, direct=False)
    budget = problem.family.max_draws
    assert budget is not None
    most = float(budget * (budget + 1))  # of S′ and of D′ together, with a variance of at most 1
    kernel = SumSharing(weights, constraints, log_beta, log_top, most, survey.shared.exact)
    (found,) = problem.log.reduce(kernel)
    squares = np.array(found.each[0].squares).reshape(-1, 2)
    own, weight = np.moveaxis(found.each[1].logs.reshape(-1, 2, 2), 2, 0)
    with np.errstate(invalid="ignore", over="ignore"):
        shares = np.maximum(squares - np.exp(own), 0.0) * np.exp(2 * (np.log(most) - weight))
    relative = np.where(np.isneginf(weight), 0.0, shares).sum(axis=1)
    return float(np.sqrt(1 + relative.max()))
