"""Sums over the losses and rewards of each round, kept in the store as they arrive.

They follow from the rows alone, so a process that was killed leaves nothing to repair: whoever
comes next reads the rows that are missing in the sums.
"""

from __future__ import annotations

import json
import math
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tether._core import records
from tether._core.arrays import Floats
from tether.monitor import RiskMonitor


@dataclass
class RewardSums:
    """The number of rewards, their mean, and the sum of squared deviations from it."""

    count: int = 0
    mean: float = 0.0
    squares: float = 0.0

    def add(self, rewards: Floats) -> None:
        """Add rewards; NaN where there is none."""
        known = rewards[~np.isnan(rewards)]
        if not len(known):
            return
        mean, count = float(known.mean()), self.count + len(known)
        step = mean - self.mean
        self.squares += float(((known - mean) ** 2).sum())
        self.squares += step * step * self.count * len(known) / count
        self.mean += step * len(known) / count
        self.count = count

    @property
    def standard_error(self) -> float:
        """Of the mean; infinite for a single reward."""
        if self.count < 2:
            return math.inf
        return math.sqrt(self.squares / (self.count - 1) / self.count)


@dataclass
class LossSums:
    """How often one loss of a policy was observed; `mean` keeps the interval of its mean.

    `risk` is the monitor that may raise an alarm; None where there is nothing to monitor.
    """

    observed: int = 0
    mean: RiskMonitor | None = None
    risk: RiskMonitor | None = None


@dataclass
class Sums:
    """Losses, by name, and rewards of one policy, and how many of its actions were withdrawn."""

    withdrawn: int = 0
    losses: defaultdict[str, LossSums] = field(default_factory=lambda: defaultdict(LossSums))
    reward: RewardSums = field(default_factory=RewardSums)

    def to_json(self) -> str:
        """As the store keeps them."""
        losses = {
            name: {
                "observed": each.observed,
                "mean": _content(each.mean),
                "risk": _content(each.risk),
            }
            for name, each in self.losses.items()
        }
        content = {"withdrawn": self.withdrawn, "losses": losses, "reward": vars(self.reward)}
        return json.dumps(records.encode(content))

    @classmethod
    def from_json(cls, text: str) -> Sums:
        """The inverse of `to_json`."""
        content = records.decode_plain(json.loads(text))
        sums = cls(content["withdrawn"], reward=RewardSums(**content["reward"]))
        for name, each in content["losses"].items():
            sums.losses[name] = LossSums(
                each["observed"], _monitor(each["mean"]), _monitor(each["risk"])
            )
        return sums


def _content(monitor: RiskMonitor | None) -> dict[str, Any] | None:
    return None if monitor is None else monitor.to_dict()


def _monitor(content: dict[str, Any] | None) -> RiskMonitor | None:
    return None if content is None else records.decode(RiskMonitor, content)
