"""Three ways to choose the weight w of a mixture proposal.

With the tight envelope, acceptance is ψ·(w/β + 1 − w): linear in w, so an end is always best. The
envelope can be lower where no action has a ratio near β. Let `below` be the largest ratio up to β
and `above` the smallest from β on; then only these two decide, and a mixture can beat both ends.
"""

from __future__ import annotations

import numpy as np

from tether._core.types import Floats
from tether.control.context_draws import ContextDraws
from tether.control.families import Clip
from tether.sampling.envelope import Proposal

GRID = 129


def by_grid(log_ratio: Floats, log_beta: float, *, points: int = GRID) -> Proposal:
    """The weight of a grid with the lowest envelope on the ratios that were seen.

    `log_ratio` are those of draws from both policies. The envelope is exact if no action has a
    ratio between the two seen next to β; a sampler that meets one goes back to the tight envelope.
    """
    edges = _edges(log_ratio, log_beta)
    weights = np.linspace(0.0, 1.0, points)
    envelopes = [
        max(Proposal(log_beta, float(weight), 0.0).log_weight(edges).max(), -np.inf)
        for weight in weights
    ]
    best = int(np.argmin(envelopes))
    return Proposal(log_beta, float(weights[best]), float(envelopes[best]))


def by_overlap(from_safe: Floats, from_optimized: Floats, log_beta: float) -> Proposal:
    """A weight in proportion to each policy's overlap with the target, under the tight envelope.

    Takes the log ratios of draws from each policy. The overlap of two densities is the integral of
    the smaller one: 1 where they agree, 0 where they never meet.
    """
    log_ratio = np.concatenate([from_safe, from_optimized])
    log_counts = np.log([len(from_safe), len(from_optimized)])
    # Only ratios matter: let the safe density be 1 and the optimized one the ratio.
    log_safe = np.zeros_like(log_ratio)
    log_mass = np.logaddexp(log_counts[0], log_ratio + log_counts[1])
    one = np.zeros(1, dtype=np.int64)
    draws = ContextDraws(log_safe, log_ratio, log_safe, log_mass, start=one, row=one)
    log_psi = draws.log_psi(Clip(), log_beta)[0]
    kernel_safe = np.minimum(from_safe, log_beta)
    kernel_optimized = np.minimum(0.0, log_beta - from_optimized)
    safe = np.exp(np.minimum(kernel_safe - log_psi, 0.0)).mean()
    optimized = np.exp(np.minimum(kernel_optimized - log_psi, 0.0)).mean()
    return Proposal.tight(log_beta, float(safe / (safe + optimized)))


def adaptive(log_beta: float) -> Proposal:
    """Half and half at first; the sampler then shifts to where more is kept."""
    return Proposal.tight(log_beta, 0.5, adaptive=True)


def _edges(log_ratio: Floats, log_beta: float) -> Floats:
    """The ratios next to β on either side, among those that both policies can produce."""
    possible = log_ratio[np.isfinite(log_ratio)]
    below, above = possible[possible <= log_beta], possible[possible >= log_beta]
    found = [below.max()] if len(below) else []
    found += [above.min()] if len(above) else []
    if not found:
        raise ValueError("no draw can be taken by both policies: there is nothing to propose")
    return np.array(found)
