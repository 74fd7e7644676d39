"""Three ways to choose the weight w of the safe policy in a mixture proposal.

With the tight envelope the acceptance rate is ψ·(w/β + 1 − w): linear in w, so w = 0 or w = 1 is
always best. The envelope can be lower where no action has a ratio near β. Let `below` be the
largest ratio up to β and `above` the smallest from β on: only these two matter then, and a mixture
can be better than either policy alone.
"""

from __future__ import annotations

import numpy as np

from tether._core.types import Floats
from tether.control.context_draws import ContextDraws
from tether.control.families import Clip
from tether.sampling.envelope import Envelope

WEIGHTS_ON_GRID = 129
"""Number of weights from 0 to 1 that `grid_envelope` tries."""


def grid_envelope(log_ratio: Floats, log_beta: float, *, points: int = WEIGHTS_ON_GRID) -> Envelope:
    """Choose the weight on a grid whose envelope is lowest on the observed ratios.

    The envelope is valid if no action has a ratio between the two observed next to β. A sampler
    that meets such an action discards its draws and continues with the tight envelope.

    Parameters
    ----------
    log_ratio : ndarray
        Log ratios of draws from both policies.
    log_beta : float
        Log of the control parameter beta.
    points : int, default 129
        Number of weights to try, evenly spaced from 0 to 1.

    Returns
    -------
    Envelope
        The envelope with the lowest constant.

    Raises
    ------
    ValueError
        If no draw has positive probability under both policies.

    Examples
    --------
    >>> grid_envelope(np.log([0.5, 3.0]), log_beta=0.0).safe_weight
    0.6640625
    """
    neighbours = _ratios_next_to_beta(log_ratio, log_beta)
    weights = np.linspace(0.0, 1.0, points)
    log_constants = [
        max(Envelope(log_beta, float(weight), 0.0).log_importance_weight(neighbours).max(), -np.inf)
        for weight in weights
    ]
    best = int(np.argmin(log_constants))
    return Envelope(log_beta, float(weights[best]), float(log_constants[best]))


def overlap_envelope(from_safe: Floats, from_optimized: Floats, log_beta: float) -> Envelope:
    """Weight each policy by its overlap with the clip policy, under the tight envelope.

    The overlap of two densities is the integral of their minimum: 1 if they are equal, 0 if they
    have disjoint supports.

    Parameters
    ----------
    from_safe : ndarray
        Log ratios of draws from the safe policy.
    from_optimized : ndarray
        Log ratios of draws from the optimized policy.
    log_beta : float
        Log of the control parameter beta.

    Returns
    -------
    Envelope
        The tight envelope at the chosen weight.

    Examples
    --------
    >>> overlap_envelope(np.zeros(5), np.zeros(5), log_beta=0.0).safe_weight
    0.5
    """
    log_ratio = np.concatenate([from_safe, from_optimized])
    log_counts = np.log([len(from_safe), len(from_optimized)])
    # Only ratios matter: take the safe density as 1 and the optimized density as the ratio.
    log_safe = np.zeros_like(log_ratio)
    log_mass = np.logaddexp(log_counts[0], log_ratio + log_counts[1])
    single_context = np.zeros(1, dtype=np.int64)
    draws = ContextDraws(
        log_safe, log_ratio, log_safe, log_mass, start=single_context, row=single_context
    )
    log_psi = draws.log_psi(Clip(), log_beta)[0]
    kernel_safe = np.minimum(from_safe, log_beta)
    kernel_optimized = np.minimum(0.0, log_beta - from_optimized)
    safe = np.exp(np.minimum(kernel_safe - log_psi, 0.0)).mean()
    optimized = np.exp(np.minimum(kernel_optimized - log_psi, 0.0)).mean()
    return Envelope.tight(log_beta, float(safe / (safe + optimized)))


def adaptive_envelope(log_beta: float) -> Envelope:
    """Start with equal weights, to be shifted to the policy whose draws are accepted more often.

    Parameters
    ----------
    log_beta : float
        Log of the control parameter beta.

    Returns
    -------
    Envelope
        The tight envelope at weight 1/2, which samplers adapt after every batch.

    Examples
    --------
    >>> envelope = adaptive_envelope(0.0).adapted(drawn=[500, 500], accepted=[400, 100])
    >>> round(envelope.safe_weight, 3)
    0.799
    """
    return Envelope.tight(log_beta, 0.5, adaptive=True)


def _ratios_next_to_beta(log_ratio: Floats, log_beta: float) -> Floats:
    """The log ratios next to log β on either side, among those that both policies can produce."""
    possible = log_ratio[np.isfinite(log_ratio)]
    below, above = possible[possible <= log_beta], possible[possible >= log_beta]
    neighbours = [below.max()] if len(below) else []
    neighbours += [above.min()] if len(above) else []
    if not neighbours:
        raise ValueError(
            "no draw has positive probability under both policies: there is nothing to propose"
        )
    return np.array(neighbours)
