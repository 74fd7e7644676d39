"""Draws of both policies in blocks: each block is what one sampler with a budget could propose.

A context with b blocks and R rows of the log deals its blocks out to the rows: with b ≥ R every row
has blocks of its own, which makes its weight independent of the others given the contexts; with
fewer blocks than rows, rows share them evenly. The blocks of one row, or of the rows that share
them, are a group.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from tether._core.types import Booleans, Floats, Integers
from tether.control.context_draws import ContextDraws

DEFAULT_BUDGET = 16
"""The most proposals per action where the user does not say."""


@dataclass(frozen=True)
class ProposalBlocks:
    """Log ratios of proposals, one column per block, and how rows and contexts share the blocks.

    The columns are sorted by group, and the groups by context. Group g starts at column
    `group_start[g]`, context k at group `context_start[k]`, and row i has group `row[i]`.
    """

    log_ratio_safe: Floats
    log_ratio_optimized: Floats
    group_start: Integers
    context_start: Integers
    row: Integers

    @classmethod
    def build(cls, draws: ContextDraws, budget: int) -> Self:
        """Cut the draws of every context into blocks of `budget` draws of each policy."""
        counts = draws.counts
        blocks = counts.min(axis=0) // budget
        if not blocks.all():
            short = int(np.argmin(blocks))
            where = "there are"
            if len(blocks) > 1:
                where = f"context number {short} has"
            raise ValueError(
                f"a budget of {budget} draws per action needs as many fresh draws of each policy; "
                f"{where} {counts[0, short]} of the safe policy and {counts[1, short]} of the "
                f"optimized one (tether.make_proposals makes both)"
            )
        contexts = len(draws.start)
        rows_in_context = np.bincount(draws.row, minlength=contexts)
        groups = np.clip(rows_in_context, 1, blocks)
        context_of_block, rank_of_block = np.repeat(np.arange(contexts), blocks), _rank(blocks)
        context_start = _starts(groups)
        group_of_block = context_start[context_of_block] + rank_of_block % groups[context_of_block]
        order = np.argsort(group_of_block, kind="stable")
        by_context = np.argsort(draws.row, kind="stable")
        row = np.empty(len(draws.row), dtype=np.int64)
        row[by_context] = _rank(rows_in_context)
        row = context_start[draws.row] + row % groups[draws.row]
        assert draws.from_safe is not None
        with np.errstate(invalid="ignore"):
            log_ratio = draws.log_optimized - draws.log_safe

        def columns(chosen: Booleans, count: Integers) -> Floats:
            """The draws of one policy: the first of each block, and those that follow it."""
            first = (_starts(count)[context_of_block] + rank_of_block * budget)[order]
            return np.asarray(log_ratio[np.flatnonzero(chosen)[first + np.arange(budget)[:, None]]])

        safe, optimized = columns(draws.from_safe, counts[0]), columns(~draws.from_safe, counts[1])
        return cls(safe, optimized, _starts(np.bincount(group_of_block)), context_start, row)

    def group_means(self, per_block: Floats) -> Floats:
        """The mean over the blocks of each group."""
        if len(self.group_start) == len(per_block):
            return per_block
        sizes = np.diff(self.group_start, append=len(per_block))
        return np.asarray(np.add.reduceat(per_block, self.group_start) / sizes)

    def context_maxima(self, per_group: Floats) -> Floats:
        """The largest value among the groups of each context."""
        return np.asarray(np.maximum.reduceat(per_group, self.context_start))


def _rank(counts: Integers) -> Integers:
    """0, 1, 2, … within each of several consecutive runs."""
    return np.arange(counts.sum()) - np.repeat(_starts(counts), counts)


def _starts(counts: Integers) -> Integers:
    """Where each of several consecutive runs starts."""
    return np.cumsum(counts) - counts
