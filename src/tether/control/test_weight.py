"""Test weights: how much the action not yet taken may weigh.

The calibrated risk gives the test point, the next action, the worst loss and the largest weight it
could have. A weight is tethered over mixture density, so it is known from a log ratio (optimized
over safe density), a log base (safe over mixture density) and a context. Each test weight here
says which such points the next action could be; the weight is the largest among these candidates:

- empirical: the draws that were given;
- analytic: an action with an infinite ratio, in every context. With a share m₀ of the safe policy
  in the mixture its base is at most 1/m₀, and no action can weigh more;
- max_ratio: likewise with the largest ratio that the log states, for mix, whose weights have no
  other bound;
- fixed: a number of the user's own, at every beta.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Protocol

import numpy as np

from tether._core import validate
from tether._core.blocks import map_blocks
from tether._core.types import Floats, Integers
from tether.control.densities import log_ratio_limit
from tether.control.families import Mix, is_of_package
from tether.control.mix_weights import mix_weights

if TYPE_CHECKING:
    from tether.control.family import Family
    from tether.control.log import Log
    from tether.control.problem import Problem

TEST_WEIGHT_NAMES = ("empirical", "analytic")


@dataclass(frozen=True)
class Candidates:
    """Points that the next action could be, and that may weigh the most.

    One log ratio, one log base and one cell (see `Densities`) for each.
    """

    log_ratio: Floats
    log_base: Floats
    cell: Integers


class TestWeight(Protocol):
    """The weight of the test point; `label` is how the user asked for it."""

    @property
    def label(self) -> str | float:
        """What results and the command line call it."""
        ...

    @property
    def constant(self) -> float | None:
        """The weight where it is the same at every beta, else None."""
        ...

    @property
    def grows(self) -> bool:
        """Whether the weight grows with beta without end."""
        ...

    def candidates(self, problem: Problem) -> Candidates:
        """The points among which the heaviest is found at every beta."""
        ...

    def log_weight(self, problem: Problem, log_beta: float) -> float:
        """The log-weight at one beta."""
        ...


STATE_MAX_RATIO = (
    "min_propensity in tether.make_log, max_ratio in tether.Log, --min-propensity or --max-ratio "
    "on the command line"
)
"""How the largest ratio is stated."""


@dataclass(frozen=True)
class Empirical:
    """The largest weight among the draws."""

    label: ClassVar[str] = "empirical"
    constant: ClassVar[None] = None
    grows: ClassVar[bool] = False

    def candidates(self, problem: Problem) -> Candidates:
        """All possible draws; the largest ratio per context if the mixture is the safe policy."""
        draws = problem.draws
        if problem.log.log_mix is None and len(draws.start) == 1:
            highest = np.array([draws.scores.highest_ratio])
            return Candidates(highest, np.zeros(1), problem.densities.context)
        possible = draws.log_safe > -np.inf
        if problem.log.log_mix is None:
            with np.errstate(invalid="ignore"):
                log_ratio = draws.log_optimized - draws.log_safe
            log_ratio[~possible] = -np.inf
            contexts = len(draws.start)
            highest = np.maximum.reduceat(log_ratio, draws.start)
            return Candidates(highest, np.zeros(contexts), problem.densities.context)
        if draws.scores.lowest_safe > -np.inf and len(draws.start) == 1:
            ratio, base = draws.log_optimized - draws.log_safe, draws.log_safe - draws.log_mix
            return Candidates(ratio, base, np.broadcast_to(problem.densities.context, len(ratio)))
        safe, mixture = draws.log_safe[possible], draws.log_mix[possible]
        cell = np.repeat(problem.densities.context, draws.size)[possible]
        return Candidates(draws.log_optimized[possible] - safe, safe - mixture, cell)

    def log_weight(self, problem: Problem, log_beta: float) -> float:
        """The largest of the draws' weights."""
        return _largest_log_weight(problem, log_beta)


@dataclass(frozen=True)
class Analytic:
    """The supremum of the family's ratio over the safe policy's share of the mixture."""

    label: ClassVar[str] = "analytic"
    constant: ClassVar[None] = None
    grows: ClassVar[bool] = True

    def candidates(self, problem: Problem) -> Candidates:
        """An infinite ratio in every context."""
        cell = problem.densities.worst
        log_base = -np.log(problem.log.safe_share or 1.0)
        return Candidates(np.full(len(cell), np.inf), np.full(len(cell), log_base), cell)

    def log_weight(self, problem: Problem, log_beta: float) -> float:
        """The largest ratio of any context, over the share."""
        return _largest_log_weight(problem, log_beta)


@dataclass(frozen=True)
class MaxRatio:
    """The weight of an action with the largest ratio that the log states, in any context."""

    log_ratio: float
    label: ClassVar[str] = "max_ratio"
    constant: ClassVar[None] = None
    grows: ClassVar[bool] = False

    def candidates(self, problem: Problem) -> Candidates:
        """One point: without a normalizer, contexts do not matter."""
        log_base = -np.log(problem.log.safe_share or 1.0)
        return Candidates(
            np.array([self.log_ratio]), np.array([log_base]), np.zeros(1, dtype=np.int64)
        )

    def log_weight(self, problem: Problem, log_beta: float) -> float:
        """The weight at that ratio, over the share."""
        return _largest_log_weight(problem, log_beta)


@dataclass(frozen=True)
class Fixed:
    """A bound on the weights that the user states."""

    constant: float
    grows: ClassVar[bool] = False

    @property
    def label(self) -> float:
        """The number itself."""
        return self.constant

    def candidates(self, problem: Problem) -> Candidates:
        """None: the weight depends on no point."""
        return Candidates(np.empty(0), np.empty(0), np.empty(0, dtype=np.int64))

    def log_weight(self, problem: Problem, log_beta: float) -> float:
        """The log of the number."""
        return float(np.log(self.constant))


def _largest_log_weight(problem: Problem, log_beta: float) -> float:
    """The log-weight of the heaviest candidate."""
    points = problem.candidates
    if isinstance(problem.family, Mix) and np.isfinite(log_beta):
        weights, top = mix_weights(points.log_ratio, points.log_base, log_beta)
        with np.errstate(divide="ignore"):
            return float(top + np.log(weights.max()) - np.logaddexp(0.0, log_beta))

    def largest(block: slice) -> float:
        ratio = points.log_ratio[block]
        with np.errstate(invalid="ignore"):
            density = problem.densities.log_density(
                np.zeros(len(ratio)), ratio, points.cell[block], log_beta
            )
        return float((density + points.log_base[block]).max())

    every = slice(0, len(points.log_ratio))
    if not is_of_package(problem.family):
        return largest(every)
    largest(slice(0, 1))  # keeps ψ, which all blocks read
    return float(np.max(map_blocks(largest, every.stop)))


def is_bounded(family: Family) -> bool:
    """Whether the ratio of tethered to safe density is bounded for every optimized policy."""
    return bool(np.isfinite(log_ratio_limit(family, 0.0, np.zeros(1))).all())


def find_test_weight(
    test_weight: str | float, log: Log, family: Family, *, has_draws: bool
) -> TestWeight:
    """The test weight that a user named, or an error where it is not defined.

    Without draws there is no largest weight among them; a clip then falls back to the analytic one.
    """
    if not isinstance(test_weight, str):
        return Fixed(validate.number("test_weight", test_weight, above=0, below=np.inf))
    validate.choice("test_weight", test_weight, TEST_WEIGHT_NAMES)
    if test_weight == "empirical" and has_draws:
        return Empirical()
    bounded = is_bounded(family)
    # At an infinite beta a family that saturates is evaluated at the ratios seen, not at this one.
    takes_max_ratio = not bounded and family.normalized and not family.saturates
    if takes_max_ratio and log.max_ratio is not None:
        _require_safe_share(log, "max_ratio")
        return MaxRatio(float(np.log(log.max_ratio)))
    cancels = family.normalized or (family.clips and family.max_draws is None)  # ψ does
    if test_weight == "empirical" and not (bounded and cancels):
        draws = (
            "proposals: fresh draws among which to find the largest weight (tether.make_proposals "
            "makes them"
        )
        stated = f"the largest ratio ({STATE_MAX_RATIO}), or {draws} from both policies)"
        raise ValueError(
            f"test_weight 'empirical' of family {family.name!r} needs "
            f"{stated if takes_max_ratio else f'{draws})'}"
        )
    if not bounded:
        raise ValueError(
            f"test_weight 'analytic' does not exist for family {family.name!r}: its weights "
            f"have no bound; use 'empirical' with proposals, or a number"
            + (f"; or state the largest ratio: {STATE_MAX_RATIO}" if takes_max_ratio else "")
        )
    _require_safe_share(log, "analytic")
    return Analytic()


def _require_safe_share(log: Log, name: str) -> None:
    if log.safe_share is None:
        raise ValueError(
            f"test_weight {name!r} needs safe_share in the log: the share of rows that the "
            f"safe policy produced, since log_mix is given"
        )
