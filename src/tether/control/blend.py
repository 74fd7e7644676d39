"""Blends: a share of the safe policy mixed into an optimized policy that never takes some actions.

As beta goes to zero clip keeps the zeros of the optimized policy, so an optimized policy with zeros
(an argmax, a sampler with a cut-off) has no clip near the safe policy. The blend
(1 − δ)·optimized + δ·safe has none, and differs from the optimized policy by at most δ.
"""

from __future__ import annotations

import copy
from dataclasses import replace

import numpy as np

from tether._core.types import Floats
from tether.control.context_draws import ContextDraws
from tether.control.family import Family
from tether.control.log import Log

DEFAULT_BLEND = 0.01
"""The share of the safe policy in a blend."""


def blend_scores(log_optimized: Floats, log_safe: Floats, blend: float) -> Floats:
    """Log-densities of the blend (1 − δ)·optimized + δ·safe."""
    if not blend:
        return log_optimized
    return np.asarray(
        np.logaddexp(np.log1p(-blend) + log_optimized, np.log(blend) + log_safe), dtype=np.float64
    )


def needs_blend(log: Log, draws: ContextDraws, family: Family) -> bool:
    """Whether the optimized policy never takes some action, and the family keeps such zeros."""
    kernel = family.log_kernel(np.zeros(1), np.full(1, -np.inf), 0.0)
    if family.normalized or kernel[0] > -np.inf:
        return False
    return bool(log.log_optimized.min() == -np.inf) or draws.scores.optimized_zeros


def blend_log(log: Log, blend: float) -> Log:
    """The same log with the blend in place of the optimized policy."""
    blended = copy.copy(log)
    blended.log_optimized = blend_scores(log.log_optimized, log.log_safe, blend)
    if log.log_optimized_all is not None and log.log_safe_all is not None:
        blended.log_optimized_all = blend_scores(log.log_optimized_all, log.log_safe_all, blend)
    return blended


def blend_draws(draws: ContextDraws, blend: float) -> ContextDraws:
    """The same draws scored by the blend; the policy that made each of them is unchanged."""
    return replace(draws, log_optimized=blend_scores(draws.log_optimized, draws.log_safe, blend))
