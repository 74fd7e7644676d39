"""What a batch of draws cost: the record that every sampler returns beside its actions."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, ClassVar, Self

from tether._core import records


@dataclass(frozen=True)
class ChainDiagnostics:
    """How well Metropolis–Hastings chains mixed.

    A chain that rejects a proposal repeats its state. `autocorrelation[k]` is the share of steps
    after which the chain stays for k more: the autocorrelation of a random label attached to every
    proposal. Runs of equal states of lengths L give `effective_draws` = (ΣL)²/ΣL².

    Parameters
    ----------
    acceptance : float
        The share of steps at which a chain moved.
    autocorrelation : tuple of float
        Autocorrelation at lags 0, 1, 2, ….
    effective_draws : float
        Effective sample size of all steps together.
    steps : int
        Steps of all chains together, over which the diagnostics above are computed.
    thinning : int
        Steps between two states that are kept; 1 where each chain gives one action.
    unsettled : float
        The share of chains that had not settled after the burn-in and were continued. A chain
        settles at its first proposal that accept-reject would have accepted: there it forgets its
        initial state. No state of an unsettled chain is returned.
    """

    acceptance: float
    autocorrelation: tuple[float, ...]
    effective_draws: float
    steps: int
    thinning: int
    unsettled: float


@dataclass(frozen=True)
class SamplingInfo(records.Saved):
    """Which policy the actions came from, and how many draws they took.

    Draws are counted up to the accepted one. `scored` counts everything drawn and scored, including
    the surplus of the last batch and of discarded attempts.

    Parameters
    ----------
    method : str
        Name of the sampling method.
    actions : int
        Number of actions returned.
    draws : int
        Proposals drawn until each action was accepted or its budget was exhausted.
    scored : int
        All proposals that were drawn and scored.
    calls : int
        Number of batches requested from the policies.
    draws_safe : int
        Draws proposed by the safe policy; the optimized policy proposed the others.
    taken_safe : int
        Actions that are accepted proposals of the safe policy.
    taken_optimized : int
        Actions that are accepted proposals of the optimized policy.
    fallbacks : int, default 0
        Actions of the safe policy taken because the draw budget was exhausted.
    safe_weight : float, optional
        The weight w of the safe policy in a mixture proposal; None for other proposals. For an
        adaptive mixture it is the last weight, and draws_safe / draws is their average.
    chain : ChainDiagnostics, optional
        Diagnostics of Metropolis–Hastings chains; None for other methods.

    Examples
    --------
    >>> import numpy as np
    >>> from tether import Gaussian, Tethered
    >>> policy = Tethered(Gaussian(0.0), Gaussian(1.0), 0.5)
    >>> actions, info = policy.sample_with_info(100, np.random.default_rng(0))
    >>> print(info)
    100 actions by accept-reject (auto): 119 draws in 1 call(s), acceptance 0.84
    """

    _kind: ClassVar[str] = "sampling info"

    method: str
    actions: int
    draws: int
    scored: int
    calls: int
    draws_safe: int
    taken_safe: int
    taken_optimized: int
    fallbacks: int = 0
    safe_weight: float | None = None
    chain: ChainDiagnostics | None = None

    @property
    def acceptance(self) -> float:
        """The share of draws that became actions; `chain.acceptance` is how often a chain moved."""
        return (self.actions - self.fallbacks) / self.draws

    @property
    def acceptance_safe(self) -> float:
        """The share of the safe policy's draws that were accepted; NaN if it made none."""
        return self.taken_safe / self.draws_safe if self.draws_safe else float("nan")

    @property
    def acceptance_optimized(self) -> float:
        """The share of the optimized policy's draws that were accepted; NaN if it made none."""
        draws_optimized = self.draws - self.draws_safe
        return self.taken_optimized / draws_optimized if draws_optimized else float("nan")

    @property
    def share_safe(self) -> float:
        """The share of accepted actions that the safe policy proposed; NaN if there are none."""
        taken = self.taken_safe + self.taken_optimized
        return self.taken_safe / taken if taken else float("nan")

    def to_dict(self) -> dict[str, Any]:
        """Convert the record to plain values.

        Returns
        -------
        dict
            All fields by name, and the acceptance rate.
        """
        return {**asdict(self), "acceptance": self.acceptance}

    @classmethod
    def _from_saved(cls, saved: dict[str, Any]) -> Self:
        saved.pop("acceptance")
        if (chain := saved.pop("chain")) is not None:
            chain = ChainDiagnostics(
                **{**chain, "autocorrelation": tuple(chain["autocorrelation"])}
            )
        return cls(**saved, chain=chain)

    def __str__(self) -> str:
        text = (
            f"{self.actions:,} actions by {self.method}: {self.draws:,} draws in "
            f"{self.calls:,} call(s), "
        )
        if self.chain is not None:
            text += f"chains moved at a share of {self.chain.acceptance:.3g} of their steps"
        else:
            text += f"acceptance {self.acceptance:.3g}"
        return text + (f", {self.fallbacks:,} fell back to safe" if self.fallbacks else "")


def direct_info(method: str, actions: int, from_safe: int) -> SamplingInfo:
    """The record of draws that were all accepted."""
    return SamplingInfo(
        method=method,
        actions=actions,
        draws=actions,
        scored=actions,
        calls=1,
        draws_safe=from_safe,
        taken_safe=from_safe,
        taken_optimized=actions - from_safe,
    )


def exact_info(actions: int, calls: int) -> SamplingInfo:
    """The record of draws straight from a table, which neither policy proposed."""
    return SamplingInfo(
        method="exact",
        actions=actions,
        draws=actions,
        scored=actions,
        calls=calls,
        draws_safe=0,
        taken_safe=0,
        taken_optimized=0,
    )
