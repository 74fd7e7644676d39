"""The problem of a calibration: how much each row counts for the tethered policy at every beta.

Row i has the importance weight w_i(β) = tethered density / density of the mixture that produced the
log. The test point, the action not yet taken, has the largest weight it could have. With loss l_i,
worst loss B and tolerance α, the calibrated risk is at most α exactly when sums compare:

    (Σ l_i·w_i + B·w) / (Σ w_i + w) ≤ α    ⟺    Σ (l_i − α)·w_i + (B − α)·w ≤ 0.

The largest beta that passes is found by one of three solvers, chosen here and nowhere else.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from tether._core import validate
from tether._core.blocks import map_blocks
from tether._core.shown import shown
from tether._core.types import Floats
from tether.control.blend import blend_draws, blend_log, needs_blend
from tether.control.constraint import Constraint
from tether.control.context_draws import ContextDraws, check_normalizer, gather_draws
from tether.control.densities import BudgetedDensities, Densities, NormalizedDensities
from tether.control.families import BudgetedClip, Clip, Mix, is_of_package
from tether.control.family import Family
from tether.control.log import Log
from tether.control.log_checks import SHARE_TOLERANCE
from tether.control.mix_weights import mix_weights
from tether.control.path_weight import PathWeight, largest_weights
from tether.control.policy_path import PathDensities, PathFamily, PolicyPath
from tether.control.proposal_blocks import DEFAULT_BUDGET, ProposalBlocks
from tether.control.proposals import Proposals
from tether.control.score_range import score_range
from tether.control.solvers import clip, mix, path, search
from tether.control.solvers.protocols import ExactSolver, Solver
from tether.control.solvers.segments import fits_one_scale
from tether.control.test_weight import (
    TEST_WEIGHT_NAMES,
    Candidates,
    TestWeight,
    find_test_weight,
)

NOTHING_TO_WEIGHT = "no draw is possible under both policies: there is nothing to weight"
SEARCH_MARGIN = 30.0
"""How far past the ratios a family that does not saturate is followed, in log beta."""


@dataclass(frozen=True)
class Problem:
    """A log, its draws, a family and a test weight, which fit together."""

    log: Log
    draws: ContextDraws
    family: Family
    densities: Densities
    test_weight: TestWeight
    given_log: Log
    given_proposals: Proposals | None
    """What the user gave, before any blend."""
    blend: float = 0.0
    """The share of the safe policy that is part of what is called the optimized policy."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """The other arguments of `calibrate`, for the record of what was asked for."""

    @property
    def has_draws(self) -> bool:
        """Whether draws or tables were given; else the log's own rows take their place."""
        return self.given_proposals is not None or self.log.log_safe_all is not None

    @property
    def solver(self) -> Solver:
        """An exact one, or a certified search."""
        return self.exact_solver or search

    @property
    def exact_solver(self) -> ExactSolver | None:
        """That of paths, mix, and clip without contexts."""
        if isinstance(self.family, PathFamily):
            return path
        if not self._has_exact_solver:
            return None
        return mix if isinstance(self.family, Mix) else clip

    @cached_property
    def _has_exact_solver(self) -> bool:
        marginal_clip = isinstance(self.family, Clip) and not self.log.contextual
        return (isinstance(self.family, Mix) or marginal_clip) and fits_one_scale(self)

    @property
    def path_log_betas(self) -> Floats:
        """The log betas of a path to choose from: of policies with draws, or of all of them."""
        if isinstance(self.test_weight, PathWeight):
            return self.test_weight.log_betas
        if isinstance(self.densities, PathDensities):
            return self.densities.path.every_log_beta
        return np.empty(0)

    @property
    def normalizer_cancels(self) -> bool:
        """Whether weights lack one factor that is the same for all rows, and is not known."""
        return not (self.family.normalized or self.log.contextual)

    @property
    def log_mix(self) -> Floats:
        """Log-density of the policies that produced the rows."""
        return self.log.log_safe if self.log.log_mix is None else self.log.log_mix

    @cached_property
    def log_ratio(self) -> Floats:
        """Log optimized over safe density at every row."""
        return np.asarray(self.log.log_optimized - self.log.log_safe)

    @cached_property
    def log_base(self) -> Floats | float:
        """Log of safe over mixture density at every row."""
        return 0.0 if self.log.log_mix is None else self.log.log_safe - self.log.log_mix

    @cached_property
    def candidates(self) -> Candidates:
        """The points among which the test weight is found."""
        return self.test_weight.candidates(self)

    def log_weights(self, log_beta: float) -> tuple[Floats, float]:
        """The log-weight of every row and of the test point."""
        safe, optimized, cell = self.log.log_safe, self.log.log_optimized, self.densities.row
        rows = np.empty(len(self.log))

        def weigh(block: slice) -> None:
            density = self.densities.log_density(
                safe[block], optimized[block], cell[block], log_beta
            )
            np.subtract(density, self.log_mix[block], out=rows[block])

        if is_of_package(self.family):
            weigh(slice(0, 1))  # keeps what depends on beta alone, which all blocks read
            map_blocks(weigh, len(rows))
        else:  # a user's family may not allow several threads
            weigh(slice(0, len(rows)))
        return rows, self.test_weight.log_weight(self, log_beta)

    def shares(self, log_beta: float) -> tuple[Floats, float]:
        """The weights of the rows and of the test point, scaled to sum to one."""
        if isinstance(self.family, Mix) and np.isfinite(log_beta):
            return self._mix_shares(log_beta)
        rows, test = self.log_weights(log_beta)
        top = max(float(rows.max()), test)
        if top == -np.inf:  # no row and no draw is possible: only the worst case is left
            return np.zeros(len(rows)), 1.0

        def scale(block: slice) -> float:
            part = rows[block]
            part -= top
            return float(np.exp(part, out=part).sum())

        test_share = float(np.exp(test - top))
        total = sum(map_blocks(scale, len(rows))) + test_share
        rows /= total
        return rows, test_share / total

    def _mix_shares(self, log_beta: float) -> tuple[Floats, float]:
        """The same for mix, without logarithms."""
        share, top = mix_weights(self.log_ratio, self.log_base, log_beta)
        test = self.test_weight.log_weight(self, log_beta) + float(np.logaddexp(0.0, log_beta))
        highest = max(top, test)
        test_share = float(np.exp(test - highest))
        scale = float(np.exp(top - highest))
        total = scale * float(share.sum()) + test_share
        share *= scale / total
        return share, test_share / total

    def risk(self, constraint: Constraint, log_beta: float) -> float:
        """The calibrated risk of the tethered policy at one beta."""
        share, test_share = self.shares(log_beta)
        loss = self.log.loss[constraint.name]
        test_share *= constraint.ratio_error

        def add(block: slice) -> tuple[float, float]:
            part = share[block] * constraint.factors(loss[block])
            weight = float(part.sum())
            part *= loss[block]
            return weight, float(part.sum())

        weights, losses = zip(*map_blocks(add, len(loss)), strict=True)
        return float((sum(losses) + constraint.bound * test_share) / (sum(weights) + test_share))

    def log_acceptance(self, log_beta: float) -> float:
        """Log of the share of proposals that a sampler accepts, over all contexts of the log."""
        log_draws = -self.densities.log_acceptance(log_beta)
        most = log_draws.max()
        if not np.isfinite(most):  # a family may answer NaN
            return -float(most)
        return -float(most + np.log(np.exp(log_draws - most).mean()))

    @cached_property
    def span(self) -> tuple[float, float]:
        """The smallest and the largest log ratio of rows and draws."""
        rows, draws = score_range(self.log.log_safe, self.log.log_optimized), self.draws.scores
        lo = min(rows.lowest_ratio, draws.lowest_ratio)
        hi = max(rows.highest_ratio, draws.highest_ratio)
        return (lo, hi) if lo <= hi else (0.0, 0.0)

    def reach(self, log_beta: float = 0.0) -> tuple[float, float]:
        """The log betas between which the tethered policy changes, as far as the data can tell.

        A finite `log_beta` is always within; a family that does not saturate has no such range.
        """
        lo, hi = self.span
        if not self.family.saturates:
            return -np.inf, np.inf
        included = log_beta if np.isfinite(log_beta) else 0.0
        return min(lo, included, 0.0), max(hi, included, 0.0)

    def search_range(self) -> tuple[float, float]:
        """The log betas among which to look for the largest that passes."""
        if len(betas := self.path_log_betas):
            return float(betas[0]), float(betas[-1])
        if self.family.saturates:
            return self.reach()
        # Mix changes where β·ratio passes one, other families where β passes the ratio.
        lo, hi = self.span
        return min(lo, -hi) - SEARCH_MARGIN, max(hi, -lo) + SEARCH_MARGIN


def pose(
    log: Log,
    proposals: Proposals | None,
    family: Family,
    test_weight: str | float,
    blend: float = 0.0,
) -> Problem:
    """Combine log, proposals, family and test weight; raise if they are inconsistent."""
    if not isinstance(log, Log):
        raise TypeError(
            f"log must be a tether.Log, got {type(log).__name__}; tether.Log.from_frame makes one "
            f"of a frame, tether.make_log of policies and actions"
        )
    if proposals is not None and not isinstance(proposals, Proposals):
        raise TypeError(f"proposals must be tether.Proposals, got {shown(proposals)}")
    if isinstance(family, PathFamily):
        return _pose_path(log, proposals, family, test_weight)
    has_draws = proposals is not None or log.log_safe_all is not None
    weight = find_test_weight(test_weight, log, family, has_draws=has_draws)
    _check_same_mixture(log, proposals)
    if family.normalized and log.context is not None and not has_draws:
        draws = without_draws(log)
    else:
        draws = gather_draws(log, proposals)
    if proposals is not None:
        check_normalizer(draws)
    _check_support(draws, family)
    given = (log, proposals)
    blend = blend if needs_blend(log, draws, family) else 0.0
    if blend:
        log, draws = blend_log(log, blend), blend_draws(draws, blend)
    _check_draws(log, draws)
    family, densities = _densities(log, draws, family, blend)
    return Problem(log, draws, family, densities, weight, *given, blend)


def _densities(
    log: Log, draws: ContextDraws, family: Family, blend: float
) -> tuple[Family, Densities]:
    """The family that is served, and its densities.

    A normalizing constant is exact over tables of all actions, and cancels for clip without
    contexts. Otherwise it is not known, and no weight may divide by an estimate of it: clip becomes
    budgeted clip, with as many proposals as each context has draws.
    """
    exact = log.log_safe_all is not None
    if family.normalized or exact or (not log.contextual and family.max_draws is None):
        return family, NormalizedDensities(family, draws)
    if isinstance(family, Clip):
        budget = int(np.clip(draws.counts.min(), 1, DEFAULT_BUDGET))
        family = BudgetedClip(budget)
    if isinstance(family, BudgetedClip):
        blocks = ProposalBlocks.build(draws, family.max_draws)
        return family, BudgetedDensities(family, blocks, blend)
    raise ValueError(
        f"family {family.name!r} has a normalizing constant in each context, which draws can only "
        f"estimate, and dividing by an estimate would bias every weight: give tables of all "
        f"actions (log_safe_all, log_optimized_all), use a tether.Shortlist, or family 'clip' or "
        f"'mix'"
    )


def _pose_path(
    log: Log, proposals: Proposals | None, family: PathFamily, test_weight: str | float
) -> Problem:
    """The problem of a family that exists along a path of policies only."""
    if log.policy_path is None:
        raise ValueError(
            f"family {family.name!r} needs a policy_path in the log, the density of each action at "
            f"several betas (tether.llm.TokenTether.make_log makes it)"
        )
    drawn: PolicyPath | None = None if proposals is None else proposals.policy_path
    if isinstance(test_weight, str):
        validate.choice("test_weight", test_weight, TEST_WEIGHT_NAMES)
    if test_weight == "analytic":
        raise ValueError(
            f"test_weight 'analytic' does not exist for family {family.name!r}: its weights have "
            f"no bound; use 'empirical' with proposals, or a number"
        )
    if test_weight == "empirical" and drawn is None:
        raise ValueError(
            f"test_weight {test_weight!r} of family {family.name!r} needs proposals along its path "
            f"(tether.llm.TokenTether.make_proposals makes them)"
        )
    for name, part in (("log", log.policy_path), ("proposals", drawn)):
        if part is not None and part.family != family.name:
            raise ValueError(
                f"family is {family.name!r} but the policy_path of the {name} is {part.family!r}"
            )
    if drawn is not None and not np.array_equal(drawn.log_beta, log.policy_path.log_beta):
        raise ValueError("the policy_path of the proposals has other betas than that of the log")
    _check_same_mixture(log, proposals)
    weight: TestWeight
    if proposals is None or test_weight != "empirical":
        weight = find_test_weight(test_weight, log, family, has_draws=False)
        draws = without_draws(log)
    else:
        weight = largest_weights(proposals, log.context)
        mixture = proposals.log_safe if proposals.log_mix is None else proposals.log_mix
        place = np.zeros(1, dtype=np.int64), np.zeros(len(log), dtype=np.int64)
        scores = proposals.log_safe, proposals.log_optimized, mixture, mixture
        draws = ContextDraws(*scores, start=place[0], row=place[1])
    _check_draws(log, draws)
    return Problem(
        log, draws, family, PathDensities(log.policy_path), weight, log, proposals, blend=0.0
    )


def _check_same_mixture(log: Log, proposals: Proposals | None) -> None:
    """Refuse rows and draws of which only some have a mixture."""
    if proposals is not None and (log.log_mix is None) != (proposals.log_mix is None):
        present, lacking = ("log", "proposals") if log.log_mix is not None else ("proposals", "log")
        raise ValueError(
            f"the {present} has log_mix but the {lacking} has none: rows and draws need "
            f"weights against the same mixture"
        )


def without_draws(log: Log) -> ContextDraws:
    """Placeholders for a family that needs no normalizer, when nothing else needs draws."""
    mixture = log.log_safe if log.log_mix is None else log.log_mix
    rows = np.arange(len(log))
    return ContextDraws(log.log_safe, log.log_optimized, mixture, mixture, start=rows, row=rows)


def _check_support(draws: ContextDraws, family: Family) -> None:
    """Refuse a family that acts where the safe policy never does: its weight is infinite there."""
    if draws.scores.lowest_safe > -np.inf:
        return
    outside = np.isneginf(draws.log_safe)
    reached = family.log_density(np.array([-np.inf]), np.zeros(1), 0.0, np.zeros(1))
    if reached[0] > -np.inf and (draws.log_optimized[outside] > -np.inf).any():
        where = int(np.argmax(outside & (draws.log_optimized > -np.inf)))
        raise ValueError(
            f"family {family.name!r} needs a safe policy that can take every action of the "
            f"optimized one (absolute continuity), but draw {where} has log_safe −inf; restrict "
            f"the optimized policy to actions of the safe one, or use family 'clip'"
        )


def _check_draws(log: Log, draws: ContextDraws) -> None:
    """Refuse draws that have no weight, or an infinite one."""
    if draws.lost.any():
        where = int(np.argmax(draws.lost))
        raise ValueError(
            f"draw {where} has log_mix −inf and a finite log_safe: the safe policy is part of the "
            f"mixture, so the mixture can take every action of the safe policy"
        )
    if not draws.scores.overlaps:
        raise ValueError(NOTHING_TO_WEIGHT)
    if log.log_mix is not None and log.safe_share is not None:
        lowest = np.log(log.safe_share) - SHARE_TOLERANCE

        def is_short(block: slice) -> bool:
            return bool((draws.log_mix[block] < draws.log_safe[block] + lowest).any())

        if any(map_blocks(is_short, len(draws.log_mix))):
            short = draws.log_mix < draws.log_safe + lowest
            where = int(np.argmax(short))
            raise ValueError(
                f"draw {where} has log_mix {draws.log_mix[where]:g}, below log_safe + "
                f"log(safe_share) = {draws.log_safe[where] + np.log(log.safe_share):g}"
            )
