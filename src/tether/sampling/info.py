"""What a batch of draws cost: the record that every sampler returns beside its actions."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

from tether._core import records


@dataclass(frozen=True)
class Chain:
    """How well Metropolis–Hastings chains mixed.

    An independence chain that stays repeats its state. `autocorrelation[k]` is the share of steps
    after which it has stayed for k more: the autocorrelation of a label put at random on every
    proposal. Runs of equal states of lengths L make `effective_draws` (ΣL)²/ΣL² of all the steps.
    """

    acceptance: float
    """The share of steps that moved."""
    autocorrelation: tuple[float, ...]
    effective_draws: float
    steps: int
    """Steps of all chains together, those of the diagnostics above."""
    thinning: int
    """How many steps lie between two states that are kept; 1 where each chain gives one."""
    unsettled: float
    """The share of chains that still remembered their start after the burn-in and were run on.

    A proposal that plain accept-reject would have taken makes a chain forget. No state of a chain
    that has not met one is returned.
    """


@dataclass(frozen=True)
class Info:
    """Where actions came from and what they cost.

    Draws are counted up to the one that was accepted; `scored` counts all that were drawn and
    scored, with the surplus of the last batch and of attempts that were given up.
    """

    method: str
    actions: int
    draws: int
    """Proposals drawn until each action was found or given up."""
    scored: int
    calls: int
    """How often the policies were asked for a batch."""
    draws_safe: int
    """Those of the draws that the safe policy proposed; the optimized policy the others."""
    taken_safe: int
    """Actions that are accepted proposals of the safe policy."""
    taken_optimized: int
    """Actions that are accepted proposals of the optimized policy."""
    fallbacks: int = 0
    """Actions that the safe policy took because the draw budget was spent."""
    weight: float | None = None
    """The share w of the safe policy in the proposals, where they are a mixture.

    An adaptive mixture has many in turn: this is the last, and draws_safe / draws their average.
    """
    chain: Chain | None = None

    @property
    def acceptance(self) -> float:
        """The share of draws that became actions; for how often a chain moved see `chain`."""
        return (self.actions - self.fallbacks) / self.draws

    @property
    def acceptance_safe(self) -> float:
        """The share of the safe policy's draws that were kept; nan if it made none."""
        return self.taken_safe / self.draws_safe if self.draws_safe else float("nan")

    @property
    def acceptance_optimized(self) -> float:
        """The share of the optimized policy's draws that were kept; nan if it made none."""
        drawn = self.draws - self.draws_safe
        return self.taken_optimized / drawn if drawn else float("nan")

    @property
    def share_safe(self) -> float:
        """The share of accepted actions that the safe policy proposed."""
        taken = self.taken_safe + self.taken_optimized
        return self.taken_safe / taken if taken else float("nan")

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        return {**asdict(self), "acceptance": self.acceptance}

    def save(self, path: str | Path) -> None:
        """Write everything as JSON."""
        records.write(path, "info", self.to_dict())

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read what `save` wrote."""
        saved = records.read(path, "info")
        saved.pop("acceptance")
        if (chain := saved.pop("chain")) is not None:
            chain = Chain(**{**chain, "autocorrelation": tuple(chain["autocorrelation"])})
        return cls(**saved, chain=chain)

    def __str__(self) -> str:
        text = (
            f"{self.actions:,} actions by {self.method}: {self.draws:,} draws in "
            f"{self.calls:,} call(s), "
        )
        if self.chain is not None:
            text += f"a share of {self.chain.acceptance:.3g} of its steps moved"
        else:
            text += f"acceptance {self.acceptance:.3g}"
        return text + (f", {self.fallbacks:,} fell back to safe" if self.fallbacks else "")


def direct(method: str, actions: int, from_safe: int) -> Info:
    """The record of draws that were all kept."""
    return Info(
        method=method,
        actions=actions,
        draws=actions,
        scored=actions,
        calls=1,
        draws_safe=from_safe,
        taken_safe=from_safe,
        taken_optimized=actions - from_safe,
    )


def exact(actions: int, calls: int) -> Info:
    """The record of draws straight from a table, which neither policy proposed."""
    return Info(
        method="exact",
        actions=actions,
        draws=actions,
        scored=actions,
        calls=calls,
        draws_safe=0,
        taken_safe=0,
        taken_optimized=0,
    )
