"""Draws from a tethered policy whose actions cannot be listed: by the family's own sampler."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tether._core.contexts import length
from tether.control.family import Family
from tether.sampling.envelope import Envelope
from tether.sampling.family_envelope import FamilyEnvelope
from tether.sampling.metropolis_hastings import metropolis
from tether.sampling.policy_pair import PolicyPair
from tether.sampling.rejection_sampling import accept_reject
from tether.sampling.samplers import find_envelope
from tether.sampling.sampling_info import SamplingInfo, direct_info


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
    `sampler` says; any other family proposes and accepts as it states itself.
    """
    if family.single_draw:
        from_safe = rng.random(length(contexts)) >= optimized_share_of(family, log_beta)
        actions = pair.draw(from_safe, contexts, rng)
        return actions, direct_info(family.name, len(actions), int(np.count_nonzero(from_safe)))
    envelope: Envelope
    if family.clips:
        envelope = find_envelope(sampler, pair, contexts, log_beta, rng)
    else:
        envelope = FamilyEnvelope(
            log_beta, 1.0 - optimized_share_of(family, log_beta), family=family
        )
    if sampler == "metropolis":
        return metropolis(pair, contexts, rng, envelope, max_draws=max_draws)
    return accept_reject(
        pair,
        contexts,
        rng,
        envelope,
        budget=family.max_draws,
        max_draws=max_draws,
        method=f"accept-reject ({sampler})",
    )


def optimized_share_of(family: Family, log_beta: float) -> float:
    """The share of proposals from the optimized policy; an error where it is none."""
    share = family.optimized_share(log_beta)
    if share is None:
        raise TypeError(
            f"family {family.name!r} has no sampler beyond finitely many actions: it needs the "
            f"members optimized_share and log_accept (see tether.Family)"
        )
    if not 0 <= share <= 1:
        raise ValueError(
            f"family {family.name!r} has an optimized_share of {share!r}, expected a number from 0 "
            f"to 1"
        )
    return share
