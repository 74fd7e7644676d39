"""The normalizer ψ(β, x) of a tethered policy in each context."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tether import _ask
from tether._check import Floats
from tether._contexts import length, take
from tether.control.draws import Draws, check_normalizer
from tether.control.families import Family
from tether.sampling.pair import Pair


@dataclass(frozen=True)
class Normalizer:
    """Log ψ in each context, or one number where all contexts are alike.

    `standard_error` is that of log ψ, so also that of the log_prob of clip; 0 where ψ is exact.
    """

    log_psi: Floats
    standard_error: Floats

    @property
    def exact(self) -> bool:
        """Whether ψ is a sum over all actions rather than an estimate."""
        return not self.standard_error.any()


def exact_normalizer(
    log_safe_all: Floats, log_optimized_all: Floats, family: Family, log_beta: float
) -> Normalizer:
    """ψ as the sum over finitely many actions."""
    log_safe_all, log_optimized_all = np.broadcast_arrays(log_safe_all, log_optimized_all)
    rows, actions = log_safe_all.shape
    safe, optimized = log_safe_all.ravel(), log_optimized_all.ravel()
    start = np.arange(0, rows * actions, actions)
    every = np.arange(rows)
    draws = Draws(safe, optimized, safe, np.zeros_like(safe), start=start, row=every)
    return Normalizer(draws.log_psi(family, log_beta), np.zeros(rows))


def estimated_normalizer(
    pair: Pair, contexts: Any, family: Family, log_beta: float, draws: int, rng: np.random.Generator
) -> Normalizer:
    """ψ from so many draws of each policy in each context, or in all where there are none.

    Each draw counts kernel / (n·safe + n·optimized): unbiased, and never more than β/n nor 1/n.
    """
    alone = isinstance(contexts, int)
    rows = 1 if alone else length(contexts)
    asked = draws if alone else take(contexts, np.repeat(np.arange(rows), draws))
    scores = []
    for policy, name in ((pair.safe, "safe"), (pair.optimized, "optimized")):
        actions = _ask.draw(name, policy, asked, rng)
        scores.append(
            [
                _ask.score(who, each, asked, actions, drew=who == name).reshape(rows, draws)
                for who, each in (("safe", pair.safe), ("optimized", pair.optimized))
            ]
        )
    # A row a context: first the draws of the safe policy, then those of the optimized one.
    safe, optimized = (np.concatenate(pieces, axis=1) for pieces in zip(*scores, strict=True))
    if pair.strict:
        _ask.reached(safe, optimized)
    mass = np.logaddexp(safe, optimized) + np.log(draws)
    start, every = np.arange(0, safe.size, 2 * draws), np.arange(rows)
    flat = Draws(safe.ravel(), optimized.ravel(), safe.ravel(), mass.ravel(), start, every)
    check_normalizer(flat)
    log_psi = flat.log_psi(family, log_beta)
    share = np.exp(family.log_kernel(safe, optimized, log_beta) - mass - log_psi[:, None])
    halves = share.reshape(rows, 2, draws)
    error = np.sqrt((draws * halves.var(axis=2, ddof=1)).sum(axis=1))
    return Normalizer(log_psi, error)


def joined(pieces: list[Normalizer]) -> Normalizer:
    """The normalizers of several parts of the contexts, in order."""
    return Normalizer(
        np.concatenate([each.log_psi for each in pieces]),
        np.concatenate([each.standard_error for each in pieces]),
    )
