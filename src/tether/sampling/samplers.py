"""The samplers by name, and the envelope that each of them draws under."""

from __future__ import annotations

import numpy as np

from tether._core.contexts import part
from tether._core.types import Contexts
from tether.sampling.envelope import Envelope
from tether.sampling.mixture_envelopes import adaptive_envelope, grid_envelope, overlap_envelope
from tether.sampling.policy_pair import PolicyPair

SAMPLERS = ("auto", "safe", "optimized", "grid", "overlap", "adaptive", "metropolis")
PILOT_DRAWS = 1 << 12
"""Draws from each policy by which the weight of a mixture proposal is chosen."""


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
        return adaptive_envelope(log_beta)
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
