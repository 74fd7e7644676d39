"""The normalizing constant ψ(β, x) of a tethered policy in each context."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tether._core.arrays import Floats
from tether._core.contexts import labels, length, parts, take
from tether.control.columns import refuse_larger_mass
from tether.control.families import Family
from tether.policies.logs import draw_and_score
from tether.sampling.policy_pair import PolicyPair

if TYPE_CHECKING:
    from tether.policies.tethered import Tethered

MIN_EFFECTIVE_DRAWS = 30
"""Effective draws, (Σs)²/Σs², from which on their own spread is taken as the error."""
SMALL_DENSITY_ERROR = 0.1
"""A relative standard error of a density up to this, a bias of 1 %, needs no more draws."""
MORE_DRAWS = (4, 16, 64)
"""By how much the number of draws is multiplied, one after the other."""
DRAWS_AT_ONCE = 1 << 17
"""How many draws are scored at once, over all contexts of a part."""


@dataclass(frozen=True)
class Normalizer:
    """Log ψ in each context, or one number where all are alike, with its standard error.

    The error is 0 where ψ is exact, and inf where too few draws count to say how far off it is.
    """

    log_psi: Floats
    standard_error: Floats


def density_with_error(
    family: Family, log_safe: Floats, log_optimized: Floats, log_beta: float, normalizer: Normalizer
) -> tuple[Floats, Floats]:
    """The log-density of a tethered policy, with its standard error; inf where it is unknown."""
    unknown = np.isinf(normalizer.standard_error)
    width = np.where(unknown, 0.0, normalizer.standard_error)
    score, low, high = (
        family.log_density(log_safe, log_optimized, log_beta, normalizer.log_psi + side * width)
        for side in (0, -1, 1)
    )
    with np.errstate(invalid="ignore"):  # an impossible action is impossible whatever ψ is
        error = np.nan_to_num(np.abs(high - low) / 2)
    return score, np.where(unknown & (score > -np.inf), np.inf, error)


def exact_log_psi(
    log_safe_all: Floats, log_optimized_all: Floats, family: Family, log_beta: float
) -> Floats:
    """Log ψ in each row, as the sum over finitely many actions; a single 0 where none is needed."""
    if family.normalized or np.isinf(log_beta):
        return np.zeros(1)
    return log_sum(np.atleast_2d(family.log_kernel(log_safe_all, log_optimized_all, log_beta)))


def log_sum(terms: Floats) -> Floats:
    """Log of the sum of exponentials of each row; refuses a row without any mass."""
    top = terms.max(axis=1)
    if top.min() == -np.inf:
        raise ValueError(
            f"context number {int(np.argmin(top))} has no draw that both policies can take, so its "
            f"normalizer is zero ({int(np.isneginf(top).sum())} such context(s)); add draws there"
        )
    return np.asarray(top + np.log(np.exp(terms - top[:, None]).sum(axis=1)))


def estimated_normalizer(
    pair: PolicyPair,
    contexts: Any,
    family: Family,
    log_beta: float,
    draws: int,
    rng: np.random.Generator,
) -> Normalizer:
    """ψ from `draws` draws of each policy in each context, or in total without contexts.

    Equal contexts share their draws, whatever the order of rows.
    """
    if isinstance(contexts, int):
        return _of_draws(pair, 1, draws, family, log_beta, rng)
    _, first, place = np.unique(labels(contexts), return_index=True, return_inverse=True)
    pieces = []
    for piece in parts(take(contexts, first), max(1, DRAWS_AT_ONCE // draws)):
        repeated = take(piece, np.repeat(np.arange(length(piece)), draws))
        pieces.append(_of_draws(pair, length(piece), repeated, family, log_beta, rng))
    log_psi = np.concatenate([each.log_psi for each in pieces])
    return Normalizer(log_psi[place], np.concatenate([e.standard_error for e in pieces])[place])


def _of_draws(
    pair: PolicyPair, rows: int, drawn_in: Any, family: Family, log_beta: float, rng: Any
) -> Normalizer:
    """ψ in some contexts from draws in each of them, one after the other."""
    drawn = np.array([draw_and_score(name, pair.by_name, drawn_in, rng) for name in pair.by_name])
    draws = drawn.shape[2] // rows
    # One row per context: first the draws of the safe policy, then those of the optimized one.
    safe, optimized = np.concatenate(drawn.reshape(2, 2, rows, draws), axis=2)
    pair.check(safe, optimized)
    log_mass = np.logaddexp(safe, optimized) + np.log(draws)
    mass = np.exp(optimized - log_mass) * optimized.shape[1]  # in each row an estimate of at most 1
    refuse_larger_mass("the normalizer", mass.size, mass.sum(), np.square(mass).sum())
    if family.clips:
        return clipped_normalizer(safe, optimized, log_beta)
    terms = family.log_kernel(safe, optimized, log_beta) - log_mass
    log_psi = log_sum(terms)
    share = np.exp(terms - log_psi[:, None])  # each row sums to 1, over both halves
    variance = draws * share.reshape(rows, 2, draws).var(axis=2, ddof=1).sum(axis=1)
    too_few = (share**2).sum(axis=1) * MIN_EFFECTIVE_DRAWS > 1
    return Normalizer(log_psi, np.where(too_few, np.inf, np.sqrt(variance)))


def clipped_normalizer(safe: Floats, optimized: Floats, log_beta: float) -> Normalizer:
    """The normalizer of clip, from draws of the safe policy and as many of the optimized one.

    Clip cuts a part off one policy: the optimized one for β ≥ 1, the safe one below. ψ / min(β, 1)
    is that policy's own mean of what is kept, min(1, β/ρ) or min(1, ρ/β). Of what none of n draws
    shows there is at most 3/n, but with a chance of e^-3.
    """
    draws = safe.shape[1] // 2
    beyond = optimized - safe - log_beta
    log_kept = np.minimum(-beyond[:, draws:] if log_beta >= 0 else beyond[:, :draws], 0.0)
    log_share = log_sum(log_kept) - np.log(draws)
    variance = np.exp(log_kept).var(axis=1, ddof=1) + 3.0 / draws
    error = np.exp(np.minimum(np.log(variance / draws) / 2 - log_share, 1.0))
    return Normalizer(log_share + min(log_beta, 0.0), np.where(error < 1, error, np.inf))


def settled_normalizer(
    policy: Tethered, contexts: Any, log_safe: Floats, log_optimized: Floats
) -> Normalizer:
    """ψ in each context, with more draws where the density of its action is not precise.

    With a relative variance v, one over a density is too large by a factor of 1 + v on average.
    """
    found = policy.normalizer(contexts)
    for factor in MORE_DRAWS:
        both = (log_safe, log_optimized)
        _, error = density_with_error(policy.family, *both, policy.log_beta, found)
        rough = np.flatnonzero(error > SMALL_DENSITY_ERROR)
        if len(rough) == 0:
            break
        if isinstance(contexts, int):
            found = policy.normalizer(contexts, factor)
            continue
        again = policy.normalizer(take(contexts, rough), factor)
        log_psi, standard_error = found.log_psi.copy(), found.standard_error.copy()
        log_psi[rough], standard_error[rough] = again.log_psi, again.standard_error
        found = Normalizer(log_psi, standard_error)
    return found
