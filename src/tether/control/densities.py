"""The density of the tethered policy at points of a log: in which cell it lies, and at which beta.

A cell is what decides, together with the two policies' scores, how dense the tethered policy is.
Two kinds exist. Where the normalizing constant ψ(β, x) is exact, or cancels because there is only
one, a cell is a context and `NormalizedDensities` divides by ψ. Where it could only be estimated,
dividing by the estimate would bias every weight, at any number of rows; `BudgetedDensities` uses
unbiased averages instead.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, Protocol

import numpy as np

from tether._core.types import Floats, Integers
from tether.control.context_draws import ClipNormalizer, ContextDraws
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
    groups, for the test point, and one with the largest possible ones, S = N and D = 1.
    """

    def __init__(self, family: BudgetedClip, blocks: ProposalBlocks, blend: float = 0.0) -> None:
        self.family, self.blocks, self.blend = family, blocks, blend
        self.row = blocks.row
        groups, contexts = len(blocks.group_start), len(blocks.context_start)
        self.context = np.arange(groups, groups + contexts)
        self.worst = np.array([groups + contexts])
        self._kept: dict[float, tuple[Floats, Floats]] = {}

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
            tries, fallback = self.log_averages(log_beta)
            return tries[cell], fallback[cell]

        return self.family.budgeted_bounds(log_ratio, left, right, averages)

    def log_acceptance(self, log_beta: float) -> Floats:
        """One over the number of proposals per action."""
        return -self.log_averages(log_beta)[0][self.row]

    def log_averages(self, log_beta: float) -> tuple[Floats, Floats]:
        """Log of S and D in every cell."""
        if log_beta not in self._kept:
            make_room(self._kept)
            self._kept[log_beta] = self._compute(log_beta)
        return self._kept[log_beta]

    def _compute(self, log_beta: float) -> tuple[Floats, Floats]:
        if np.isinf(log_beta):  # one proposal, always accepted
            count = int(self.worst[0]) + 1
            return np.zeros(count), np.full(count, -np.inf)
        averages = []
        largest = (float(self.family.max_draws), 1.0)
        per_block = tries_and_fallback(self.log_accept(log_beta))
        for values, most in zip(per_block, largest, strict=True):
            per_group = self.blocks.group_means(values)
            cells = (per_group, self.blocks.context_maxima(per_group), [most])
            with np.errstate(divide="ignore"):
                averages.append(np.log(np.concatenate(cells)))
        return averages[0], averages[1]

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


def make_room(kept: dict[float, Any]) -> None:
    """Drop the oldest entries of a cache that is full."""
    while len(kept) >= KEPT_BETAS:
        kept.pop(next(iter(kept)))
