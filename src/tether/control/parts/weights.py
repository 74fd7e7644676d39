"""The weights of the rows of a part: the code that runs in memory, applied to a small problem."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from tether._core.types import Floats
from tether.control.blend import blend_draws, blend_log, blend_scores
from tether.control.context_draws import ContextDraws
from tether.control.densities import BudgetedDensities, Densities, NormalizedDensities
from tether.control.families import BudgetedClip
from tether.control.family import Family
from tether.control.log import Log
from tether.control.parts.rows import LogPart
from tether.control.problem import Problem, without_draws
from tether.control.proposal_blocks import ProposalBlocks
from tether.control.test_weight import TestWeight

POLICIES = ("safe", "optimized")


@dataclass(frozen=True)
class WeightsOfPart:
    """How rows are weighted: by family, test weight and blend.

    Weights are `direct` where they need no normalizing constant, or lack one that is the same for
    all rows: mix, and clip without contexts.
    """

    family: Family
    test_weight: TestWeight
    blend: float
    direct: bool

    def log_weights(self, part: LogPart, log_beta: float) -> Floats:
        """The log-weight of every row."""
        if not self.direct:
            return self.problem(part).log_weights(log_beta)[0]
        optimized = blend_scores(part.log_optimized, part.log_safe, self.blend)
        density = self.family.log_density(part.log_safe, optimized, log_beta, 0.0)
        return np.asarray(density - (part.log_safe if part.log_mix is None else part.log_mix))

    def at_betas(self, part: LogPart) -> Callable[[float], Floats]:
        """The log-weights of every row as a function of log beta."""
        if self.direct:
            return partial(self.log_weights, part)
        problem = self.problem(part)
        return lambda log_beta: problem.log_weights(log_beta)[0]

    def problem(self, part: LogPart) -> Problem:
        """The rows as a problem of their own, each with the tables or draws stored beside it."""
        log: Log = copy.copy(part)
        if self.direct:
            draws = without_draws(part)
        else:
            draws = _tables(part) if part.log_safe_all is not None else _stored_draws(part)
        if self.blend:
            log, draws = blend_log(log, self.blend), blend_draws(draws, self.blend)
        densities: Densities
        if self.direct or part.log_safe_all is not None:
            densities = NormalizedDensities(self.family, draws)
        else:
            assert isinstance(self.family, BudgetedClip)
            blocks = ProposalBlocks.build(draws, self.family.max_draws)
            densities = BudgetedDensities(self.family, blocks, self.blend)
        return Problem(log, draws, self.family, densities, self.test_weight, part, None, self.blend)


def _tables(part: LogPart) -> ContextDraws:
    assert part.log_safe_all is not None
    assert part.log_optimized_all is not None
    return ContextDraws.of_tables(part.log_safe_all, part.log_optimized_all, part.log_mix_all)


def _stored_draws(part: LogPart) -> ContextDraws:
    """The draws stored beside each row, whose context is its own."""

    def flat(score: str) -> Floats:
        tables = [part.draws[f"{policy}_draws.{score}"] for policy in POLICIES]
        return np.concatenate(tables, axis=1).ravel()

    counts = [part.draws[f"{policy}_draws.log_safe"].shape[1] for policy in POLICIES]
    rows, each = len(part), sum(counts)
    safe, optimized = flat("log_safe"), flat("log_optimized")
    mixture = safe if part.log_mix is None else flat("log_mix")
    with np.errstate(divide="ignore"):
        mass = np.logaddexp(safe + np.log(counts[0]), optimized + np.log(counts[1]))
    both_zero = np.isneginf(mixture) & np.isneginf(safe)
    return ContextDraws(
        safe,
        optimized,
        np.where(both_zero, 0.0, mixture),
        mass,
        start=np.arange(0, rows * each, each),
        row=np.arange(rows),
        from_safe=np.tile(np.repeat([True, False], counts), rows),
    )
