"""The largest beta that is certified with high probability over a log in parts.

The test of one beta is a product over rows (`tether.control.risk_betting`), so it does not depend
on their order. Several betas of the fixed sequence are tested in each pass.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from tether._core.types import Floats
from tether._core.validate import number
from tether.control.constraint import Constraint
from tether.control.high_probability import (
    MAX_LOG_RATIO_ERROR,
    RATIO_ERROR_STEP,
    CertifiedBeta,
    log_beta_sequence,
    spread_bets_of,
)
from tether.control.parts.capital import Bet, Betting
from tether.control.parts.problem import ProblemInParts
from tether.control.parts.weights import WeightsOfPart
from tether.control.risk_betting import RISK_BOUND_STEPS

TESTED_PER_PASS = 8
"""How many betas are tested in one pass."""
HALVINGS_PER_PASS = 3
"""How often an interval is halved in one pass: all outcomes of so many steps are tested."""


class CertificationInParts:
    """Tests of betas by betting on the rows of a log in parts."""

    def __init__(
        self, problem: ProblemInParts, constraints: Sequence[Constraint], confidence: float
    ) -> None:
        self.problem, self.constraints = problem, tuple(constraints)
        self.error = 1 - number("confidence", confidence, above=0, below=1)
        if problem.log.has_mixture and problem.log.columns.log_logged is None:
            raise ValueError(
                "confidence needs the density of the policy that acted in each row, and log_mix, "
                "the mixture of several policies, is not that: name the column with it as "
                "log_logged in tether.Log.scan; if every action was drawn from the mixture itself, "
                "log_logged is the column of log_mix"
            )
        if problem.sharing:
            raise ValueError(
                f"confidence needs draws of its own for every row, but {problem.sharing} of "
                f"{len(problem.log)} rows have the same stored draws as another row: give "
                f"{problem.family.max_draws} fresh draws of each policy for every row, or tables "
                f"of all actions"
            )
        problem.check_rows()
        direct = problem.family.normalized or not problem.log.contextual
        self.weights = WeightsOfPart(problem.family, problem.test_weight, problem.blend, direct)
        self.sequence: Floats = log_beta_sequence(problem)

    def certified(self, tests: Sequence[tuple[float, Constraint, float]]) -> list[bool]:
        """Whether each (log beta, constraint, alpha) is certified; one pass."""
        spread = [spread_bets_of(self.problem, each, self.error) for _, each, _ in tests]
        bets = tuple(
            Bet(log_beta, replace(each, alpha=alpha), tuple(own.stake.tolist()))
            for (log_beta, each, alpha), own in zip(tests, spread, strict=True)
        )
        (found,) = self.problem.log.reduce(Betting(self.weights, bets))
        parts = np.split(found.logs, np.cumsum([len(own.stake) for own in spread])[:-1])
        needed = -np.log(self.error)
        return [
            bool(np.logaddexp.reduce(own.log_share + logs) >= needed)
            for own, logs in zip(spread, parts, strict=True)
        ]

    def walk(self) -> dict[str, float]:
        """Log of the largest beta up to which every beta is certified, for each constraint."""
        found = {each.name: -np.inf for each in self.constraints}
        walking = list(self.constraints)
        for start in range(0, len(self.sequence), TESTED_PER_PASS):
            some = self.sequence[start : start + TESTED_PER_PASS].tolist()
            tests = [(point, each, each.alpha) for point in some for each in walking]
            good = dict(zip([(p, c.name) for p, c, _ in tests], self.certified(tests), strict=True))
            for point in some:
                walking = [each for each in walking if good[point, each.name]]
                for each in walking:
                    found[each.name] = float(point)
            if not walking:
                break
        return found

    def risk_bounds(self, log_beta: float) -> dict[str, float]:
        """The smallest alpha of each constraint that would be certified at a beta."""
        found = {}
        for each in self.constraints:

            def certified(alphas: list[float], own: Constraint = each) -> list[bool]:
                return self.certified([(log_beta, own, alpha) for alpha in alphas])

            found[each.name] = halve(certified, 0.0, each.bound, steps=RISK_BOUND_STEPS)[1]
        return found

    def ratio_error(self) -> float:
        """The largest ratio error at which the first beta of the sequence is certified."""
        first = float(self.sequence[0])

        def fails(log_factors: list[float]) -> list[bool]:
            tests = [
                (first, replace(each, ratio_error=float(np.exp(factor))), each.alpha)
                for factor in log_factors
                for each in self.constraints
            ]
            good = np.array(self.certified(tests)).reshape(len(log_factors), -1)
            return [not row.all() for row in good]

        if fails([0.0])[0]:
            return 0.0
        steps = int(np.ceil(np.log2(MAX_LOG_RATIO_ERROR / RATIO_ERROR_STEP)))
        return float(np.exp(halve(fails, 0.0, MAX_LOG_RATIO_ERROR, steps=steps)[0]))


def halve(
    test: Callable[[list[float]], list[bool]], low: float, high: float, *, steps: int
) -> tuple[float, float]:
    """Where a test that fails at first and then passes changes, by so many halvings.

    The middles of several steps are tested at once.
    """
    done = 0
    while done < steps:
        depth = min(HALVINGS_PER_PASS, steps - done)
        points = [low + (high - low) * k / (1 << depth) for k in range(1, 1 << depth)]
        passed = dict(zip(range(1, 1 << depth), test(points), strict=True))
        first, last, start, end = 0, 1 << depth, low, high
        for _ in range(depth):
            middle = (first + last) // 2
            point = (start + end) / 2
            if passed[middle]:
                last, end = middle, point
            else:
                first, start = middle, point
        low, high = start, end
        done += depth
    return low, high


def certified_beta_in_parts(
    problem: ProblemInParts, constraints: Sequence[Constraint], confidence: float
) -> CertifiedBeta:
    """What `certified_beta` finds in memory."""
    tests = CertificationInParts(problem, constraints, confidence)
    found = tests.walk()
    log_beta = min(found.values())
    at = log_beta if log_beta > -np.inf else float(tests.sequence[0])
    return CertifiedBeta(log_beta, found, tests.risk_bounds(at), confidence)
