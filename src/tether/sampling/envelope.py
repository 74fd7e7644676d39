"""Proposals for clip: w·safe + (1 − w)·optimized, and the envelope under which they are accepted.

The clip kernel over the proposal density depends on an action only through its ratio ρ:
min(ρ, β) / (w + (1 − w)·ρ). It rises up to ρ = β and falls after it, so its supremum is known,
β / (w + (1 − w)·β), and lower only where no action has a ratio near β.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from tether._core import validate
from tether._core.types import Floats

SLACK = 1e-9
"""How far past one an acceptance may round before the envelope counts as broken."""
KEPT = 0.05
"""The least share of either policy that an adaptive mixture keeps, so that it goes on learning."""
PRIOR = 64.0
"""How many draws from each policy it takes to outweigh the start of an adaptive mixture."""


@dataclass(frozen=True)
class Proposal:
    """A mixture proposal with weight w on the safe policy, and the log of its envelope."""

    log_beta: float
    weight: float
    log_envelope: float
    adaptive: bool = False

    @classmethod
    def tight(cls, log_beta: float, weight: float, *, adaptive: bool = False) -> Self:
        """The envelope that holds whatever the policies are."""
        _check_weight(weight)
        lifted = _log_blend(weight, np.array([log_beta]))[0]
        return cls(log_beta, weight, float(log_beta - lifted), adaptive)

    @classmethod
    def auto(cls, log_beta: float) -> Self:
        """From the safe policy below beta 1, else from the optimized one: the best tight one."""
        return cls.tight(log_beta, 1.0 if log_beta < 0 else 0.0)

    @property
    def assured(self) -> bool:
        """Whether the envelope holds at every ratio, rather than at those that were seen."""
        return self.log_envelope >= self.tight(self.log_beta, self.weight).log_envelope

    def log_weight(self, log_ratio: Floats) -> Floats:
        """Log of kernel over proposal density."""
        if self.weight == 1.0:
            return np.minimum(log_ratio, self.log_beta)
        if self.weight == 0.0:
            return np.minimum(self.log_beta - log_ratio, 0.0)
        return np.minimum(log_ratio, self.log_beta) - _log_blend(self.weight, log_ratio)

    def log_accept(self, log_ratio: Floats) -> Floats:
        """Log of the probability that a draw with this ratio is kept."""
        return np.asarray(self.log_weight(log_ratio) - self.log_envelope)

    def log_acceptance(self, log_psi: Floats) -> Floats:
        """Log of the share of all draws that are kept: ψ over the envelope."""
        return np.asarray(log_psi - self.log_envelope)

    def after(self, drawn: Sequence[int], kept: Sequence[int]) -> Proposal:
        """What to propose from next, given the draws so far and those kept, safe and optimized.

        An adaptive mixture shifts to the policy whose draws are kept more often. The envelope stays
        tight at every weight, and the weight depends on the past only: what is kept stays exact.
        """
        if not self.adaptive:
            return self
        safe, optimized = ((k + 1.0) / (d + PRIOR) for d, k in zip(drawn, kept, strict=True))
        weight = float(np.clip(safe / (safe + optimized), KEPT, 1 - KEPT))
        return replace(self.tight(self.log_beta, weight), adaptive=True)


def _log_blend(weight: float, log_ratio: Floats) -> Floats:
    """Log of w + (1 − w)·ρ."""
    if weight in (0.0, 1.0):
        return np.zeros_like(log_ratio) if weight else log_ratio
    return np.asarray(np.logaddexp(np.log(weight), np.log1p(-weight) + log_ratio))


def _check_weight(weight: float) -> None:
    if weight not in (0.0, 1.0):
        validate.number("weight", weight, above=0, below=1)
