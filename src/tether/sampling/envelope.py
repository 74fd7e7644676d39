"""Envelopes for clip: a mixture proposal w·safe + (1 − w)·optimized and its envelope constant.

The clip kernel divided by the proposal density depends on an action only through its ratio ρ:
min(ρ, β) / (w + (1 − w)·ρ). It increases up to ρ = β and decreases after it, so its supremum is
known, β / (w + (1 − w)·β), and the acceptance rate ψ·(w/β + 1 − w) is linear in w: w = 0 or w = 1
is best. The envelope is lower only where no action has a ratio near β: then only the largest ratio
up to β and the smallest from β on matter, and a mixture can be better than either policy alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from tether._core import validate
from tether._core.arrays import Floats
from tether.control.families import Family

LOG_ACCEPT_TOLERANCE = 1e-9
"""How far above 0 a log acceptance probability may round before the envelope counts as broken."""
MIN_ADAPTIVE_WEIGHT = 0.05
"""The smallest weight of either policy in an adaptive mixture, so that it keeps learning."""
PRIOR_DRAWS = 64.0
"""Draws from each policy that it takes to outweigh the initial weights of an adaptive mixture."""
WEIGHTS_ON_GRID = 129
"""Number of weights from 0 to 1 that `grid_envelope` tries."""


@dataclass(frozen=True)
class Envelope:
    """A mixture proposal w·safe + (1 − w)·optimized, scaled to lie above the clip kernel.

    `safe_weight` is w, `log_constant` the log of the scale. An `adaptive` envelope shifts its
    weight to the policy whose draws are accepted more often.

    Examples
    --------
    >>> envelope = Envelope.tight(log_beta=0.0, safe_weight=0.5)
    >>> np.exp(envelope.log_accept_probability(np.log([0.5, 1.0, 3.0]))).round(3)
    array([0.667, 1.   , 0.5  ])
    """

    log_beta: float
    safe_weight: float
    log_constant: float
    adaptive: bool = False
    family: Family | None = None
    """A family that states its own acceptance probability, at most 1; None for clip."""

    @classmethod
    def tight(cls, log_beta: float, safe_weight: float, *, adaptive: bool = False) -> Self:
        """Build the smallest envelope that is valid for any two policies."""
        validate.number("safe_weight", safe_weight, above=0, below=1, including=(0, 1))
        log_proposal = _log_proposal(safe_weight, np.array([log_beta]))[0]
        return cls(log_beta, safe_weight, float(log_beta - log_proposal), adaptive)

    @classmethod
    def auto(cls, log_beta: float) -> Self:
        """Choose the tight envelope with the highest acceptance rate."""
        return cls.tight(log_beta, 1.0 if log_beta < 0 else 0.0)

    @property
    def always_valid(self) -> bool:
        """Whether the envelope is valid at every ratio, rather than only at those observed."""
        return (
            self.family is not None
            or self.log_constant >= self.tight(self.log_beta, self.safe_weight).log_constant
        )

    def log_importance_weight(self, log_ratio: Floats) -> Floats:
        """Compute the log of the clip kernel divided by the proposal density."""
        if self.family is not None:
            log_accept = np.asarray(self.family.log_accept(log_ratio, self.log_beta), np.float64)
            if not (log_accept <= LOG_ACCEPT_TOLERANCE).all():
                raise ValueError(
                    f"family {self.family.name!r} accepts a proposal with log-probability "
                    f"{log_accept.max():g}: log_accept must be at most 0 at every ratio"
                )
            return log_accept
        if self.safe_weight == 0.0:
            return np.minimum(self.log_beta - log_ratio, 0.0)  # also where a ratio is infinite
        return np.minimum(log_ratio, self.log_beta) - _log_proposal(self.safe_weight, log_ratio)

    def log_accept_probability(self, log_ratio: Floats) -> Floats:
        """Compute the log of the probability that a proposed action is accepted."""
        return np.asarray(self.log_importance_weight(log_ratio) - self.log_constant)

    def adapted(self, drawn: Sequence[int], accepted: Sequence[int]) -> Envelope:
        """Choose the envelope for the next batch, given the counts so far.

        An adaptive mixture shifts its weight to the policy whose draws are accepted more often.
        The envelope stays tight at every weight, and the weight depends on the past only, so the
        accepted actions remain exact draws.
        """
        if not self.adaptive:
            return self
        safe_rate, optimized_rate = (
            (accepts + 1.0) / (draws + PRIOR_DRAWS)
            for draws, accepts in zip(drawn, accepted, strict=True)
        )
        safe_weight = safe_rate / (safe_rate + optimized_rate)
        safe_weight = float(np.clip(safe_weight, MIN_ADAPTIVE_WEIGHT, 1 - MIN_ADAPTIVE_WEIGHT))
        return replace(self.tight(self.log_beta, safe_weight), adaptive=True)


def grid_envelope(log_ratio: Floats, log_beta: float) -> Envelope:
    """Choose the weight on a grid whose envelope is lowest on the observed ratios.

    The envelope is valid if no action has a ratio between the two observed next to β. A sampler
    that meets such an action discards its draws and continues with the tight envelope.

    Examples
    --------
    >>> grid_envelope(np.log([0.5, 3.0]), log_beta=0.0).safe_weight
    0.6640625
    """
    possible = log_ratio[np.isfinite(log_ratio)]
    if not len(possible):
        raise ValueError(
            "no draw has positive probability under both policies: there is nothing to propose"
        )
    below, above = possible[possible <= log_beta], possible[possible >= log_beta]
    nearest = np.concatenate([np.sort(below)[-1:], np.sort(above)[:1]])
    weights = np.linspace(0.0, 1.0, WEIGHTS_ON_GRID)
    tried = (Envelope(log_beta, float(weight), 0.0) for weight in weights)
    constants = [
        (envelope, float(envelope.log_importance_weight(nearest).max())) for envelope in tried
    ]
    lowest, log_constant = min(constants, key=lambda each: each[1])
    return replace(lowest, log_constant=log_constant)


def overlap_envelope(from_safe: Floats, from_optimized: Floats, log_beta: float) -> Envelope:
    """Weight each policy by its overlap with the clip policy, under the tight envelope.

    The overlap of two densities is the integral of their minimum: 1 if they are equal, 0 if they
    have disjoint supports.
    """
    log_ratio = np.concatenate([from_safe, from_optimized])
    log_counts = np.log([len(from_safe), len(from_optimized)])
    # Only ratios matter: take the safe density as 1 and the optimized density as the ratio.
    log_mass = np.logaddexp(log_counts[0], log_ratio + log_counts[1])
    log_psi = np.logaddexp.reduce(np.minimum(log_ratio, log_beta) - log_mass)
    safe = np.exp(np.minimum(np.minimum(from_safe, log_beta) - log_psi, 0.0)).mean()
    kept = np.minimum(0.0, log_beta - from_optimized)
    optimized = np.exp(np.minimum(kept - log_psi, 0.0)).mean()
    return Envelope.tight(log_beta, float(safe / (safe + optimized)))


def _log_proposal(safe_weight: float, log_ratio: Floats) -> Floats:
    """Log of w + (1 − w)·ρ, the proposal density relative to the safe policy's."""
    if safe_weight in (0.0, 1.0):
        return np.zeros_like(log_ratio) if safe_weight else log_ratio
    return np.asarray(np.logaddexp(np.log(safe_weight), np.log1p(-safe_weight) + log_ratio))
