"""The density of the tethered policy at points of a log: in which cell it lies, and at which beta.

A cell is what decides, together with the two policies' scores, how dense the tethered policy is.
Two kinds exist. Where the normalizing constant ψ(β, x) is exact, or cancels because there is only
one, a cell is a context and `NormalizedDensities` divides by ψ. Where it could only be estimated,
dividing by the estimate would bias every weight, at any number of rows; `BudgetedDensities` uses
unbiased averages instead.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any, Protocol

import numpy as np

from tether._core.blocks import map_blocks
from tether._core.types import Floats, Integers
from tether.control.clip_normalizer import ClipNormalizer
from tether.control.context_draws import MAX_PLAIN_LOG, ContextDraws
from tether.control.families import BudgetedClip, Clip
from tether.control.family import Family
from tether.control.proposal_blocks import ProposalBlocks
from tether.control.unbiased_averages import tries_and_fallback

KEPT_BETAS = 32
"""How many betas' normalizers or averages are kept while a search goes back and forth."""


class Densities(Protocol):
    """The tethered policy's density, its bounds and its acceptance rate, by cell."""

    @property
    def row(self) -> Integers:
        """The cell of each row of the log."""
        ...

    @property
    def context(self) -> Integers:
        """The cell of each context, for points that are not rows: one with the largest ratios."""
        ...

    @property
    def worst(self) -> Integers:
        """The cells among which the largest ratio of any action at all is found."""
        ...

    def log_density(
        self, log_safe: Floats, log_optimized: Floats, cell: Integers, log_beta: float
    ) -> Floats:
        """Log-density of the tethered policy at points in given cells."""
        ...

    def log_ratio_bounds(
        self, log_ratio: Floats, cell: Integers, left: float, right: float
    ) -> tuple[Floats, Floats] | None:
        """Bounds on log tethered/safe density while log beta is in an interval."""
        ...

    def log_acceptance(self, log_beta: float) -> Floats:
        """Log of the share of proposals that a sampler accepts at each row of the log."""
        ...


class NormalizedDensities:
    """Kernel over normalizing constant; a cell is a context."""

    def __init__(self, family: Family, draws: ContextDraws) -> None:
        self.family, self.draws = family, draws
        self.row = draws.row
        self.context = self.worst = np.arange(len(draws.start))
        self._kept: dict[float, Floats] = {}

    def log_density(
        self, log_safe: Floats, log_optimized: Floats, cell: Integers, log_beta: float
    ) -> Floats:
        """The family's density, given ψ of each cell."""
        log_psi = self.log_psi(log_beta)
        log_psi = log_psi if len(log_psi) == 1 else log_psi[cell]
        return self.family.log_density(log_safe, log_optimized, log_beta, log_psi)

    def log_ratio_bounds(
        self, log_ratio: Floats, cell: Integers, left: float, right: float
    ) -> tuple[Floats, Floats] | None:
        """What the family knows of its ratio."""

        def log_psi(log_beta: float) -> Floats:
            found = self.log_psi(log_beta)
            return found if len(found) == 1 else found[cell]

        return self.family.log_ratio_bounds(log_ratio, left, right, log_psi)

    def log_acceptance(self, log_beta: float) -> Floats:
        """The family's acceptance rate, given ψ."""
        return np.asarray(self.family.log_acceptance(log_beta, self.log_psi(log_beta)))[self.row]

    def log_psi(self, log_beta: float) -> Floats:
        """Log of the normalizing constant of every context."""
        if self.family.normalized or np.isinf(log_beta):
            return np.zeros(len(self.draws.start))
        if not self.family.clips:
            return self.draws.log_psi(self.family, log_beta)
        if log_beta not in self._kept:
            make_room(self._kept)
            single = len(self.draws.start) == 1
            self._kept[log_beta] = (
                self.draws.log_psi(Clip(), log_beta)
                if single
                else self.clip_normalizer.log_psi(log_beta)
            )
        return self._kept[log_beta]

    @cached_property
    def clip_normalizer(self) -> ClipNormalizer:
        """The normalizing constants of clip."""
        return ClipNormalizer(self.draws)


class BudgetedDensities:
    """Budgeted clip with unbiased averages over fresh proposals; a cell is a group of blocks.

    On the space of a context, an action and its fresh proposals, the weight
    (kernel/min(β, 1)·S + D·safe) / mixture is exact: it integrates to one, and the action alone has
    the density that is served. So the conformal argument holds word for word, with any number of
    proposals. Proposals come from the safe policy below β = 1, and from the optimized one above.

    After the cells of the groups comes one for each context with the largest averages of its
    groups, for the test point, unless every context is one group; and one with the largest possible
    averages, S = N and D = 1.
    """

    def __init__(self, family: BudgetedClip, blocks: ProposalBlocks, blend: float = 0.0) -> None:
        self.family, self.blocks, self.blend = family, blocks, blend
        self.row = blocks.row
        groups, contexts = len(blocks.group_start), len(blocks.context_start)
        first = 0 if groups == contexts else groups
        self.context = np.arange(first, first + contexts)
        self.worst = self.context[-1:] + 1
        self._kept: dict[float, tuple[Floats, Floats]] = {}
        self._kept_logs: dict[float, tuple[Floats, Floats]] = {}

    def log_density(
        self, log_safe: Floats, log_optimized: Floats, cell: Integers, log_beta: float
    ) -> Floats:
        """The unbiased density in each cell."""
        tries, fallback = self.log_averages(log_beta)
        return self.family.log_budgeted_density(
            log_safe, log_optimized, log_beta, tries[cell], fallback[cell]
        )

    def log_ratio_bounds(
        self, log_ratio: Floats, cell: Integers, left: float, right: float
    ) -> tuple[Floats, Floats]:
        """Bounds from the averages at both ends, which are monotone on either side of β = 1."""

        def averages(log_beta: float) -> tuple[Floats, Floats]:
            if 2 * len(cell) > len(self.row):
                tries, fallback = self.log_averages(log_beta)
                return tries[cell], fallback[cell]
            tries, fallback = self.averages(log_beta)
            with np.errstate(divide="ignore"):
                return np.log(tries[cell]), np.log(fallback[cell])

        return self.family.budgeted_bounds(log_ratio, left, right, averages)

    def log_acceptance(self, log_beta: float) -> Floats:
        """One over the number of proposals per action."""
        return -self.log_averages(log_beta)[0][self.row]

    def log_averages(self, log_beta: float) -> tuple[Floats, Floats]:
        """Log of S and D in every cell."""
        if log_beta not in self._kept_logs:
            make_room(self._kept_logs)
            tries, fallback = self.averages(log_beta)
            with np.errstate(divide="ignore"):
                self._kept_logs[log_beta] = np.log(tries), np.log(fallback)
        return self._kept_logs[log_beta]

    def averages(self, log_beta: float) -> tuple[Floats, Floats]:
        """S and D in every cell."""
        if log_beta not in self._kept:
            make_room(self._kept)
            self._kept[log_beta] = self._compute(log_beta)
        return self._kept[log_beta]

    def _compute(self, log_beta: float) -> tuple[Floats, Floats]:
        if np.isinf(log_beta):  # one proposal, always accepted
            count = int(self.worst[0]) + 1
            return np.ones(count), np.zeros(count)
        rejected = self._plain_rejected if abs(log_beta) <= MAX_PLAIN_LOG else self._rejected
        shape = self.blocks.log_ratio_safe.shape
        tries, fallback = tries_and_fallback(rejected(log_beta), *shape)
        return self._by_cell(tries), self._by_cell(fallback)

    def _by_cell(self, per_block: Floats) -> Floats:
        """Averages of groups, the largest of each context, and the largest possible one."""
        groups, most = len(self.blocks.group_start), per_block[-1:]
        if groups == len(self.context) == len(per_block) - 1:  # as they are
            return per_block
        per_group = self.blocks.group_means(per_block[:-1])
        if groups == len(self.context):
            return np.append(per_group, most)
        return np.concatenate((per_group, self.blocks.context_maxima(per_group), most))

    def _rejected(self, log_beta: float) -> Callable[[slice], Floats]:
        """The rejection probabilities of some blocks' proposals, from logs."""
        log_accept = self.log_accept(log_beta)
        return lambda part: -np.expm1(log_accept[:, part])

    def _plain_rejected(self, log_beta: float) -> Callable[[slice], Floats]:
        """The same without an exponential of any proposal; a ratio may be zero or infinite."""
        beta = float(np.exp(log_beta))
        if log_beta < 0:
            ratio = self._ratio_safe

            def rejected(part: slice) -> Floats:
                found = beta - ratio[:, part]
                np.maximum(found, 0.0, out=found)
                found *= 1 / beta
                return found

            return rejected

        def above_one(inverse_ratio: Floats) -> Floats:
            found = inverse_ratio * -beta
            found += 1.0
            return np.maximum(found, 0.0, out=found)

        def rejected_above(part: slice) -> Floats:
            found = above_one(self._inverse_ratio_optimized[:, part])
            if self.blend:
                found *= 1 - self.blend
                found += self.blend * above_one(self._inverse_ratio_safe[:, part])
            return found

        return rejected_above

    @cached_property
    def _ratio_safe(self) -> Floats:
        """The ratios of the safe policy's proposals; infinite past the range of floats."""
        return _exponentials(self.blocks.log_ratio_safe, 1)

    @cached_property
    def _inverse_ratio_safe(self) -> Floats:
        return _exponentials(self.blocks.log_ratio_safe, -1)

    @cached_property
    def _inverse_ratio_optimized(self) -> Floats:
        return _exponentials(self.blocks.log_ratio_optimized, -1)

    def log_accept(self, log_beta: float) -> Floats:
        """Log acceptance probability of every proposal.

        With a blend, a proposal of the optimized policy is one of the safe policy's with that
        probability. The factors of S and D are independent, so each may be averaged over this.
        """
        safe, optimized = self.blocks.log_ratio_safe, self.blocks.log_ratio_optimized
        if log_beta < 0:
            return self.family.log_accept(safe, log_beta)
        accept = self.family.log_accept(optimized, log_beta)
        if not self.blend:
            return accept
        other = self.family.log_accept(safe, log_beta)
        blended = np.logaddexp(np.log1p(-self.blend) + accept, np.log(self.blend) + other)
        return np.asarray(blended)


def log_ratio_limit(family: Family, log_beta: float, log_psi: Floats) -> Floats:
    """Log of the supremum of tethered over safe density: its value at an infinite ratio."""
    with np.errstate(invalid="ignore"):
        return family.log_density(np.zeros(1), np.full(1, np.inf), log_beta, log_psi)


def _exponentials(logs: Floats, sign: int) -> Floats:
    """The exponentials of logs, or of their negatives; infinite past the range of floats."""
    found = np.multiply(logs, sign, order="C")
    flat = found.reshape(-1)

    def fill(block: slice) -> None:
        with np.errstate(over="ignore"):
            np.exp(flat[block], out=flat[block])

    map_blocks(fill, len(flat))
    return found


def make_room(kept: dict[float, Any]) -> None:
    """Drop the oldest entries of a cache that is full."""
    while len(kept) >= KEPT_BETAS:
        kept.pop(next(iter(kept)))
