"""What a batch of draws cost, and the error where it would cost too much."""

from __future__ import annotations

from dataclasses import dataclass


class DrawLimitError(RuntimeError):
    """An action would take more than `max_draws` draws, because the policies hardly overlap."""

    def __init__(self, message: str) -> None:
        super().__init__(
            f"{message}. The policies hardly overlap at this beta: use family 'mix' or a budgeted "
            f"clip, or raise max_draws"
        )


@dataclass(frozen=True)
class ChainDiagnostics:
    """How well Metropolis–Hastings chains mixed.

    A chain that rejects a proposal repeats its state. `autocorrelation[k]` is the share of steps
    after which the chain stays for k more: the autocorrelation of a random label attached to every
    proposal. Runs of equal states of lengths L give `effective_draws` = (ΣL)²/ΣL².

    A chain settles at its first proposal that accept-reject would have accepted: there it forgets
    its initial state. No state of an unsettled chain is returned.
    """

    acceptance: float
    """The share of steps at which a chain moved."""
    autocorrelation: tuple[float, ...]
    """At lags 0, 1, 2, …."""
    effective_draws: float
    """Effective sample size of all steps together."""
    steps: int
    """Steps of all chains together."""
    unsettled: float
    """The share of chains that had not settled after the burn-in and were continued."""


@dataclass(frozen=True)
class SamplingInfo:
    """Which policy the actions came from, and how many draws they took.

    Draws are counted up to the accepted one. `scored` counts everything drawn and scored, including
    the surplus of the last batch and of discarded attempts.

    Examples
    --------
    >>> import numpy as np
    >>> from tether import Gaussian, Tethered
    >>> policy = Tethered(Gaussian(0.0), Gaussian(1.0), 0.5)
    >>> actions, info = policy.sample_with_info(100, np.random.default_rng(0))
    >>> print(info)
    100 actions by accept-reject (auto): 115 draws in 2 call(s), acceptance 0.87
    """

    method: str
    actions: int
    draws: int
    """Proposals drawn until each action was accepted or its budget was exhausted."""
    scored: int
    calls: int
    """Batches requested from the policies."""
    draws_safe: int
    """Draws proposed by the safe policy; the optimized policy proposed the others."""
    taken_safe: int
    """Accepted proposals of the safe policy; 0 for draws from a table."""
    taken_optimized: int
    fallbacks: int = 0
    """Actions of the safe policy taken because the draw budget was exhausted."""
    safe_weight: float | None = None
    """The (last) weight w of the safe policy in a mixture proposal."""
    chain: ChainDiagnostics | None = None

    @property
    def acceptance(self) -> float:
        """The share of draws that became actions; `chain.acceptance` is how often a chain moved."""
        return (self.actions - self.fallbacks) / self.draws

    def __str__(self) -> str:
        rate = f"acceptance {self.acceptance:.3g}"
        if self.chain is not None:
            rate = f"chains moved at a share of {self.chain.acceptance:.3g} of their steps"
        return (
            f"{self.actions:,} actions by {self.method}: {self.draws:,} draws in {self.calls:,} "
            f"call(s), {rate}"
            + (f", {self.fallbacks:,} fell back to safe" if self.fallbacks else "")
        )


def direct_info(method: str, actions: int, from_safe: int) -> SamplingInfo:
    """The record of draws that were all accepted."""
    return SamplingInfo(
        method, actions, actions, actions, 1, from_safe, from_safe, actions - from_safe
    )


def exact_info(actions: int, calls: int) -> SamplingInfo:
    """The record of draws straight from a table, which neither policy proposed."""
    return SamplingInfo("exact", actions, actions, actions, calls, 0, 0, 0)
