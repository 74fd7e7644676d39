"""Draws from a tethered policy, by the sampler that is named, and exact draws from tables."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tether._core.arrays import Contexts, Floats, Integers
from tether._core.contexts import length, part
from tether.control.families import Family
from tether.sampling.envelope import Envelope, grid_envelope, overlap_envelope
from tether.sampling.policy_pair import PolicyPair, SamplingInfo, direct_info
from tether.sampling.rejection_sampling import accept_reject

SAMPLERS = ("auto", "safe", "optimized", "grid", "overlap", "adaptive", "metropolis")
PILOT_DRAWS = 1 << 12
"""Draws from each policy by which the weight of a mixture proposal is chosen."""


def draw_tethered(
    pair: PolicyPair,
    family: Family,
    log_beta: float,
    contexts: Any,
    rng: np.random.Generator,
    *,
    sampler: str,
    max_draws: int,
) -> tuple[NDArray[Any], SamplingInfo]:
    """One action per context at a finite beta, and what the draws cost.

    A family with `single_draw` chooses one of the two policies by chance. Clip proposes as the
    `sampler` says; any other family proposes and accepts as it states.
    """
    if family.single_draw:
        from_safe = rng.random(length(contexts)) >= optimized_share_of(family, log_beta)
        actions = pair.draw(from_safe, contexts, rng)
        return actions, direct_info(family.name, len(actions), int(np.count_nonzero(from_safe)))
    if family.clips:
        envelope = find_envelope(sampler, pair, contexts, log_beta, rng)
    else:
        share = optimized_share_of(family, log_beta)
        envelope = Envelope(log_beta, 1.0 - share, 0.0, family=family)
    if sampler == "metropolis":
        from tether.sampling.metropolis_hastings import metropolis

        return metropolis(pair, contexts, rng, envelope, max_draws=max_draws)
    how = f"accept-reject ({sampler})"
    budget = family.max_draws
    return accept_reject(
        pair, contexts, rng, envelope, budget=budget, max_draws=max_draws, method=how
    )


def find_envelope(
    sampler: str, pair: PolicyPair, contexts: Contexts, log_beta: float, rng: np.random.Generator
) -> Envelope:
    """The envelope of a sampler; "grid" and "overlap" first take pilot draws from both policies.

    Without contexts "grid" also learns its envelope constant from them. With contexts a few draws
    in each say little about the ratios there, so only the weight is learned, and the envelope is
    the tight one.
    """
    if sampler in ("auto", "metropolis"):
        return Envelope.auto(log_beta)
    if sampler in ("safe", "optimized"):
        return Envelope.tight(log_beta, 1.0 if sampler == "safe" else 0.0)
    if sampler == "adaptive":
        return Envelope.tight(log_beta, 0.5, adaptive=True)
    marginal = isinstance(contexts, int)
    pilot_contexts = PILOT_DRAWS if marginal else part(contexts, 0, PILOT_DRAWS)
    from_safe, from_optimized = (
        pair.propose(weight, pilot_contexts, rng).log_ratio for weight in (1.0, 0.0)
    )
    log_ratio = np.concatenate([from_safe, from_optimized])
    if not marginal and not np.isfinite(log_ratio).any():
        return Envelope.auto(log_beta)  # too few draws to learn from
    if sampler == "grid":
        envelope = grid_envelope(log_ratio, log_beta)
        return envelope if marginal else Envelope.tight(log_beta, envelope.safe_weight)
    return overlap_envelope(from_safe, from_optimized, log_beta)


def optimized_share_of(family: Family, log_beta: float) -> float:
    """The share of proposals from the optimized policy; an error if the family has none."""
    share = family.optimized_share(log_beta)
    if share is None:
        raise TypeError(
            f"family {family.name!r} has no sampler beyond finitely many actions: it needs the "
            f"members optimized_share and log_accept (see tether.control.Family)"
        )
    if not 0 <= share <= 1:
        raise ValueError(
            f"family {family.name!r} has an optimized_share of {share!r}, expected a number from 0 "
            f"to 1"
        )
    return share


def sample_categorical(log_table: Floats, count: int, rng: np.random.Generator) -> Integers:
    """Draw one column per row of a table of log-probabilities.

    They are logs up to a constant per row; a single row is used for all `count` draws.
    """
    top = log_table.max(axis=1, keepdims=True)
    if not top.min() > -np.inf:
        raise ValueError(f"no action is possible in row {int(np.argmin(top))}: all are -inf")
    running = log_table - top
    np.exp(running, out=running)
    np.cumsum(running, axis=1, out=running)
    targets = rng.random(count) * running[:, -1]
    if len(log_table) == 1:
        columns = np.searchsorted(running[0], targets, side="right")
    else:
        columns = (running > targets[:, None]).argmax(axis=1)
    return np.asarray(columns, dtype=np.int64)


def log_softmax(scores: Floats, temperature: float = 1.0) -> Floats:
    """Log-probabilities proportional to e^(score / temperature), along the last axis."""
    with np.errstate(over="ignore"):  # overflow to −inf: such an action has probability 0
        shifted = (scores - scores.max(axis=-1, keepdims=True)) / temperature
    shifted -= np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
    return np.asarray(shifted)
