"""Draws in each context, and the normalizing constants that they give.

The normalizing constant (normalizer) of a family in context x is the integral of its kernel over
actions. Over a finite action set it is a sum. Otherwise it is estimated from draws: with n₀ draws
from the safe policy and n₁ from the optimized one, each draw contributes
kernel / (n₀·safe + n₁·optimized), which is unbiased and stays bounded where one of the two
densities is small.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np

from tether._core.blocks import map_blocks
from tether._core.types import Booleans, Floats, Integers
from tether.control.families import Clip, Family
from tether.control.log import Log
from tether.control.proposals import Proposals
from tether.control.score_range import ScoreRange, score_range

MAX_LOG_SUM = 700.0
"""Sums whose log is within this of zero did not overflow or underflow."""
MIN_PLAIN_SUM, MAX_PLAIN_SUM = float(np.exp(-MAX_LOG_SUM)), float(np.exp(MAX_LOG_SUM))
"""The same for the sums themselves."""
MAX_STANDARD_ERRORS = 6.0
"""A normalizer more than this many standard errors above one is an error, not chance."""
MAX_PLAIN_LOG = 200.0
"""Logs within this of zero can be multiplied and summed as plain numbers."""


@dataclass(frozen=True)
class ContextDraws:
    """Draws grouped by context: draw j adds kernel_j / e^log_mass_j to its normalizer.

    Context k starts at draw `start[k]`, and row i of the log is in context `row[i]`.
    """

    log_safe: Floats
    log_optimized: Floats
    log_mix: Floats
    log_mass: Floats
    start: Integers
    row: Integers
    from_safe: Booleans | None = None
    """Which draws the safe policy made; None for tables and for rows of the log."""

    @property
    def lost(self) -> Booleans:
        """Draws that the safe policy can make and the mixture cannot; one False if none is."""
        if self.log_mix is self.log_safe or self.log_mix.min() > -np.inf:
            return np.zeros(1, dtype=np.bool_)
        return np.isneginf(self.log_mix) & ~np.isneginf(self.log_safe)

    @cached_property
    def scores(self) -> ScoreRange:
        """Where the scores are −inf, and the range of their ratios."""
        return score_range(self.log_safe, self.log_optimized)

    @classmethod
    def of_tables(
        cls, log_safe_all: Floats, log_optimized_all: Floats, log_mix_all: Floats | None = None
    ) -> ContextDraws:
        """All actions of a finite set, one context per row: normalizers are sums, not estimates."""
        rows, actions = log_safe_all.shape
        safe = log_safe_all.ravel()
        return cls(
            safe,
            log_optimized_all.ravel(),
            _positive_mixture(safe if log_mix_all is None else log_mix_all.ravel(), safe),
            np.broadcast_to(0.0, rows * actions),
            start=np.arange(0, rows * actions, actions),
            row=np.arange(rows),
        )

    @cached_property
    def size(self) -> Integers:
        """The number of draws in each context."""
        return np.diff(self.start, append=len(self.log_safe))

    @cached_property
    def counts(self) -> Integers:
        """How many draws of the safe (first row) and the optimized policy every context has."""
        if self.from_safe is None:
            return np.zeros((2, len(self.start)), dtype=np.int64)
        return _counts(self.from_safe, self.start)

    def spread(self, per_context: Floats) -> Floats:
        """One value per context, repeated for each of its draws."""
        return per_context if len(per_context) == 1 else np.repeat(per_context, self.size)

    def log_psi(self, family: Family, log_beta: float) -> Floats:
        """Log of the normalizer of each context."""
        if family.normalized or np.isinf(log_beta):
            return np.zeros(len(self.start))
        if len(self.start) == 1 < len(self.row) and isinstance(family, Clip):
            # never for a table: the bits of its row may not depend on the rows beside it
            total = sum(map_blocks(partial(self._sum, family, log_beta), len(self.log_safe)))
            if MIN_PLAIN_SUM < total < MAX_PLAIN_SUM:
                return np.full(1, np.log(total))
        kernel = family.log_kernel(self.log_safe, self.log_optimized, log_beta)
        return _log_sums(kernel - self.log_mass, self.start, self.size)

    def _sum(self, family: Family, log_beta: float, block: slice) -> float:
        """The sum over one block of draws; 0 or infinite outside the range of floats."""
        terms = family.log_kernel(self.log_safe[block], self.log_optimized[block], log_beta)
        with np.errstate(over="ignore"):
            return float(np.exp(terms - self.log_mass[block]).sum())


def gather_draws(log: Log, proposals: Proposals | None) -> ContextDraws:
    """The draws that a calibration uses: the tables, else the proposals, else the log's own rows.

    An error if a context of the log has no draws, or if only one of log and proposals has contexts:
    a log with contexts is never treated as one without.
    """
    if log.log_safe_all is not None and log.log_optimized_all is not None:
        if proposals is not None:
            raise ValueError("proposals are not needed with log_safe_all: the tables are exact")
        return ContextDraws.of_tables(log.log_safe_all, log.log_optimized_all, log.log_mix_all)
    if proposals is not None:
        return _from_proposals(log, proposals)
    if log.context is not None:
        if log.scored_by is not None and log.scored_by.actions is not None:
            raise ValueError(
                "only the propensities of the actions taken are known of the safe policy, and this "
                "family needs its probabilities of all actions: use family='mix', or pass the safe "
                "policy itself to make_log"
            )
        raise ValueError(
            "the log has contexts, so proposals are needed: draws of both policies in each context "
            "(or log_safe_all and log_optimized_all for a finite action set; a log with "
            "propensities only can use family 'mix')"
        )
    mix = log.log_safe if log.log_mix is None else log.log_mix
    return ContextDraws(
        log.log_safe,
        log.log_optimized,
        mix,
        mix + np.log(len(log)),
        start=np.zeros(1, dtype=np.int64),
        row=np.zeros(len(log), dtype=np.int64),
    )


def _from_proposals(log: Log, proposals: Proposals) -> ContextDraws:
    """The proposals sorted by context, with the context of each row of the log."""
    if (log.context is None) != (proposals.context is None):
        present, lacking = ("log", "proposals")
        if log.context is None:
            present, lacking = lacking, present
        raise ValueError(f"the {present} has contexts but the {lacking} has none; give both")
    if log.context is None or proposals.context is None:
        order: slice | Integers = slice(None)
        start = np.zeros(1, dtype=np.int64)
        row = np.zeros(len(log), dtype=np.int64)
    else:
        if (log.context.dtype.kind in "US") != (proposals.context.dtype.kind in "US"):
            raise TypeError(
                f"context is {log.context.dtype} in the log and {proposals.context.dtype} in the "
                f"proposals: labels must have the same type to be matched"
            )
        known, order, start = _by_label(proposals.context)
        if np.array_equal(known, log.context):
            row = np.arange(len(known))
        else:
            row = np.minimum(np.searchsorted(known, log.context), len(known) - 1)
        absent = known[row] != log.context
        if absent.any():
            first = log.context[np.argmax(absent)]
            raise ValueError(
                f"proposals has no draw in context {first!s} of the log "
                f"({len(np.unique(log.context[absent]))} such context(s))"
            )
    safe, optimized = proposals.log_safe[order], proposals.log_optimized[order]
    mix = safe if proposals.log_mix is None else proposals.log_mix[order]
    from_safe = proposals.from_safe[order]
    mass = _log_mass(safe, optimized, from_safe, start)
    return ContextDraws(
        safe,
        optimized,
        _positive_mixture(mix, safe),
        mass,
        start=start,
        row=row,
        from_safe=from_safe,
    )


def _by_label(labels: Any) -> tuple[Any, slice | Integers, Integers]:
    """The distinct labels in order, what sorts by them, and where each starts once sorted."""
    if (labels[:-1] <= labels[1:]).all():  # the usual order, which needs no sort
        start = np.flatnonzero(np.append(True, labels[1:] != labels[:-1]))
        return labels[start], slice(None), start
    known, place = np.unique(labels, return_inverse=True)
    order = np.argsort(place, kind="stable")
    return known, order, np.searchsorted(place[order], np.arange(len(known)))


def _log_mass(safe: Floats, optimized: Floats, from_safe: Booleans, start: Integers) -> Floats:
    """Log of n₀·safe + n₁·optimized at each draw, with the counts of the draw's own context."""
    counts = _counts(from_safe, start)

    def count(policy: int) -> Integers:
        own = counts[policy]
        return own if len(start) == 1 else np.repeat(own, counts.sum(axis=0))

    if not counts[0].any():
        return optimized + np.log(count(1))
    if not counts[1].any():
        return safe + np.log(count(0))
    with np.errstate(invalid="ignore"):
        ratio = optimized - safe
    if np.abs(ratio).max() <= MAX_PLAIN_LOG:  # NaN is not
        mass = np.exp(ratio, out=ratio)
        mass *= count(1)
        mass += count(0)
        np.log(mass, out=mass)
        mass += safe
        return mass
    with np.errstate(divide="ignore"):
        return np.logaddexp(safe + np.log(count(0)), optimized + np.log(count(1)))


def _counts(from_safe: Booleans, start: Integers) -> Integers:
    """How many draws of each policy there are in each context."""
    safe = np.add.reduceat(from_safe, start, dtype=np.int64)
    return np.array([safe, np.diff(start, append=len(from_safe)) - safe])


def _positive_mixture(log_mix: Floats, log_safe: Floats) -> Floats:
    """The mixture, with any number where it and the safe policy, hence every weight, are zero."""
    if log_mix.min() > -np.inf:
        return log_mix
    return np.where(np.isneginf(log_mix) & np.isneginf(log_safe), 0.0, log_mix)


def _log_sums(values: Floats, start: Integers, size: Integers) -> Floats:
    """Log of the sum of exponentials in each group, without overflow or underflow."""
    with np.errstate(divide="ignore", over="ignore"):
        sums = np.log(np.add.reduceat(np.exp(values), start))
    if (np.abs(sums) < MAX_LOG_SUM).all():
        return np.asarray(sums)
    largest = np.maximum.reduceat(values, start)
    refuse_empty(largest)
    scaled = np.exp(values - np.repeat(largest, size))
    return np.asarray(largest + np.log(np.add.reduceat(scaled, start)))


def refuse_empty(log_psi: Floats) -> None:
    """Refuse a context in which no draw is possible under both policies: its normalizer is zero."""
    empty = np.isneginf(log_psi)
    if empty.any():
        raise ValueError(
            f"context number {int(np.argmax(empty))} has no draw that both policies can take, so "
            f"its normalizer is zero ({int(empty.sum())} such context(s)); add draws there"
        )


def check_normalizer(draws: ContextDraws) -> None:
    """Refuse draws that do not come from the policies whose log-probabilities they carry.

    The integral of the optimized density over the actions of the safe policy is at most one. An
    estimate clearly above one means that the distribution scored is not the one sampled from.
    """
    if draws.from_safe is not None and not draws.from_safe.any():
        return  # each draw contributes optimized/(n·optimized): the estimate is 1
    with np.errstate(over="ignore", invalid="ignore"):
        terms = np.exp(draws.log_optimized - draws.log_mass)
        terms *= draws.spread(draws.size.astype(np.float64))
        mean, deviation = float(terms.mean()), float(terms.std())
    # A few draws may agree by chance, so a standard deviation below one is not trusted.
    error = max(deviation, 1.0) / np.sqrt(len(terms))
    if np.isinf(mean) or mean > 1 + MAX_STANDARD_ERRORS * error:
        raise ValueError(
            f"the normalizer comes out as {mean:.4g} ± {error:.2g} and can be at most 1: the "
            f"proposals were not drawn from the policies whose log-probabilities they carry"
        )
