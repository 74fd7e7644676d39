"""Envelopes for clip: a mixture proposal w·safe + (1 − w)·optimized and its envelope constant.

The clip kernel divided by the proposal density depends on an action only through its ratio ρ:
min(ρ, β) / (w + (1 − w)·ρ). It increases up to ρ = β and decreases after it, so its supremum is
known, β / (w + (1 − w)·β), and lower only where no action has a ratio near β.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from tether._core import validate
from tether._core.types import Floats

LOG_ACCEPT_TOLERANCE = 1e-9
"""How far above 0 a log acceptance probability may round before the envelope counts as broken."""
MIN_ADAPTIVE_WEIGHT = 0.05
"""The smallest weight of either policy in an adaptive mixture, so that it keeps learning."""
PRIOR_DRAWS = 64.0
"""Draws from each policy that it takes to outweigh the initial weights of an adaptive mixture."""


@dataclass(frozen=True)
class Envelope:
    """A mixture proposal w·safe + (1 − w)·optimized, scaled to lie above the clip kernel.

    Parameters
    ----------
    log_beta : float
        Log of the control parameter beta of the clip kernel.
    safe_weight : float
        The weight w of the safe policy in the proposal, in [0, 1].
    log_constant : float
        Log of the constant by which the proposal density is multiplied.
    adaptive : bool, default False
        Whether `safe_weight` is adapted to the draws accepted so far.

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

    @classmethod
    def tight(cls, log_beta: float, safe_weight: float, *, adaptive: bool = False) -> Self:
        """Build the smallest envelope that is valid for any two policies.

        Parameters
        ----------
        log_beta : float
            Log of the control parameter beta.
        safe_weight : float
            The weight w of the safe policy in the proposal, in [0, 1].
        adaptive : bool, default False
            Whether the weight is adapted while sampling.

        Returns
        -------
        Envelope
            The envelope with constant β / (w + (1 − w)·β).

        Raises
        ------
        ValueError
            If `safe_weight` is outside [0, 1].
        """
        _check_weight(safe_weight)
        log_proposal = _log_proposal(safe_weight, np.array([log_beta]))[0]
        return cls(log_beta, safe_weight, float(log_beta - log_proposal), adaptive)

    @classmethod
    def auto(cls, log_beta: float) -> Self:
        """Choose the tight envelope with the highest acceptance rate.

        Parameters
        ----------
        log_beta : float
            Log of the control parameter beta.

        Returns
        -------
        Envelope
            The safe policy as proposal if beta is below 1, otherwise the optimized policy.
        """
        return cls.tight(log_beta, 1.0 if log_beta < 0 else 0.0)

    @property
    def always_valid(self) -> bool:
        """Whether the envelope is valid at every ratio, rather than only at those observed."""
        return self.log_constant >= self.tight(self.log_beta, self.safe_weight).log_constant

    def log_importance_weight(self, log_ratio: Floats) -> Floats:
        """Compute the log of the clip kernel divided by the proposal density.

        Parameters
        ----------
        log_ratio : ndarray
            Log ratios, log π_t − log π₀, of the proposed actions.

        Returns
        -------
        ndarray
            Log importance weights, one per action.
        """
        if self.safe_weight == 1.0:
            return np.minimum(log_ratio, self.log_beta)
        if self.safe_weight == 0.0:
            return np.minimum(self.log_beta - log_ratio, 0.0)
        return np.minimum(log_ratio, self.log_beta) - _log_proposal(self.safe_weight, log_ratio)

    def log_accept_probability(self, log_ratio: Floats) -> Floats:
        """Compute the log of the probability that a proposed action is accepted.

        Parameters
        ----------
        log_ratio : ndarray
            Log ratios of the proposed actions.

        Returns
        -------
        ndarray
            Log acceptance probabilities, one per action.
        """
        return np.asarray(self.log_importance_weight(log_ratio) - self.log_constant)

    def log_acceptance(self, log_psi: Floats) -> Floats:
        """Compute the log of the acceptance rate, ψ divided by the envelope constant.

        Parameters
        ----------
        log_psi : ndarray
            Log normalizing constants ψ of the clip policy.

        Returns
        -------
        ndarray
            Log of the expected share of proposals that are accepted.
        """
        return np.asarray(log_psi - self.log_constant)

    def adapted(self, drawn: Sequence[int], accepted: Sequence[int]) -> Envelope:
        """Choose the envelope for the next batch, given the counts so far.

        An adaptive mixture shifts its weight to the policy whose draws are accepted more often.
        The envelope stays tight at every weight, and the weight depends on the past only, so the
        accepted actions remain exact draws.

        Parameters
        ----------
        drawn : sequence of int
            Draws so far from the safe and from the optimized policy.
        accepted : sequence of int
            Accepted draws so far from the safe and from the optimized policy.

        Returns
        -------
        Envelope
            The next envelope; this one if it is not adaptive.
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


def _log_proposal(safe_weight: float, log_ratio: Floats) -> Floats:
    """Log of w + (1 − w)·ρ, the proposal density relative to the safe policy's."""
    if safe_weight in (0.0, 1.0):
        return np.zeros_like(log_ratio) if safe_weight else log_ratio
    return np.asarray(np.logaddexp(np.log(safe_weight), np.log1p(-safe_weight) + log_ratio))


def _check_weight(safe_weight: float) -> None:
    validate.number("safe_weight", safe_weight, above=0, below=1, including=(0, 1))
