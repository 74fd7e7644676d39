"""The samplers by name: which proposal each of them draws from."""

from __future__ import annotations

from typing import Any

import numpy as np

from tether._core.contexts import part
from tether.sampling.envelope import Proposal
from tether.sampling.mixture_proposal import adaptive, by_grid, by_overlap
from tether.sampling.policy_pair import Pair

SAMPLERS = ("auto", "safe", "optimized", "grid", "overlap", "adaptive", "metropolis")
PILOT = 1 << 12
"""Draws from each policy by which a mixture proposal is chosen."""


def find_proposal(
    sampler: str, pair: Pair, contexts: Any, log_beta: float, rng: np.random.Generator
) -> Proposal:
    """The proposal of a sampler; "grid" and "overlap" look at some draws of both policies first.

    Without contexts "grid" also learns its envelope from them. With contexts a few draws in each
    say little about the ratios there, so it takes their weight and the envelope that always holds.
    """
    if sampler in ("auto", "metropolis"):
        return Proposal.auto(log_beta)
    if sampler in ("safe", "optimized"):
        return Proposal.tight(log_beta, 1.0 if sampler == "safe" else 0.0)
    if sampler == "adaptive":
        return adaptive(log_beta)
    asked = PILOT if isinstance(contexts, int) else part(contexts, 0, PILOT)
    from_safe, from_optimized = (pair.propose(w, asked, rng).log_ratio for w in (1.0, 0.0))
    log_ratio = np.concatenate([from_safe, from_optimized])
    alone = isinstance(contexts, int)
    if not alone and not np.isfinite(log_ratio).any():
        return Proposal.auto(log_beta)  # too few draws to learn from
    if sampler == "grid":
        found = by_grid(log_ratio, log_beta)
        return found if alone else Proposal.tight(log_beta, found.weight)
    return by_overlap(from_safe, from_optimized, log_beta)
