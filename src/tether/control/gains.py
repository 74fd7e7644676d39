"""What a calibration buys: rewards, losses and how much changes, as `estimates` finds them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tether._core.words import Described, Description

CONFIDENCE = 0.95  # the probability of the intervals
POLICIES = ("safe", "tethered", "optimized")


@dataclass(frozen=True)
class WeightedMean:
    """An estimated mean with an approximate interval; None where `unknown` says why."""

    mean: float | None
    lower: float | None
    upper: float | None
    unknown: str | None = None

    def __str__(self) -> str:
        if self.mean is None:
            return f"unknown: {self.unknown}"
        return f"{self.mean:.4g} [{self.lower:.4g}, {self.upper:.4g}]"


@dataclass(frozen=True)
class PolicyMeans:
    """The mean of one quantity, a reward or a loss, under the three policies."""

    safe: WeightedMean
    tethered: WeightedMean
    optimized: WeightedMean
    #: By how much it is larger under the tethered policy than under the safe one.
    difference: WeightedMean


@dataclass(frozen=True)
class Gain(Described):
    """What the tethered policy of a calibration is expected to bring, estimated from the log.

    Examples
    --------
    >>> import numpy as np, tether
    >>> rng = np.random.default_rng(0)
    >>> actions = rng.normal(size=500)
    >>> log = tether.Log(actions > 1.5, -actions**2 / 2, -(actions - 1)**2 / 2, reward=actions)
    >>> found = tether.calibrate(log, alpha=0.2).gain
    >>> round(found.reward.difference.mean, 2), round(found.changed, 2)
    (0.82, 0.35)
    """

    reward: PolicyMeans | None
    losses: dict[str, PolicyMeans]
    #: The share of decisions that change: the mean over contexts of the total variation distance
    #: between the safe and the tethered policy; a bit too large where weights come from draws.
    changed: float
    #: The share of actions drawn from the optimized policy; None unless the family is mix.
    traffic: float | None

    def facts(self) -> list[tuple[str, str]]:
        """What the summary of a calibration says about its gain."""
        return [
            (f"{name}, estimated", f"{means.tethered}; the safe policy's is {means.safe}")
            for name, means in self._quantities()
        ]

    def _describe(self) -> Description:
        facts = [
            (f"{quantity}, {policy}", str(getattr(means, policy)))
            for quantity, means in self._quantities()
            for policy in (*POLICIES, "difference")
        ]
        facts.append(("decisions that change", f"{self.changed:.4g}"))
        if self.traffic is not None:
            facts.append(("traffic to optimized", f"{self.traffic:.4g}"))
        return Description(
            f"gain, estimated from the log, with approximate {CONFIDENCE:g} intervals",
            facts=tuple(facts),
            notes=("estimates, not promises: beta was found on the same rows",),
        )

    def _quantities(self) -> Iterator[tuple[str, PolicyMeans]]:
        if self.reward is not None:
            yield "reward", self.reward
        for name, means in self.losses.items():
            yield "loss" if name == "loss" else f"loss[{name}]", means
