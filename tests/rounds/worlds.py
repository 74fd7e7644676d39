"""Small worlds for the controller: policies, contexts and losses, one for each kind of log."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tether import Categorical, Gaussian, Pool


@dataclass(frozen=True)
class World:
    """A safe policy, a bolder one for each round, contexts to answer, and what actions cost."""

    name: str

    def safe(self) -> Any:
        if self.name == "tables":
            return Categorical.from_logits(lambda x: _logits(x, 0.0), actions=["a", "b", "c"])
        if self.name == "pool":
            return Pool(np.zeros(12))
        return Gaussian(0.0, 1.0)

    def optimized(self, number: int) -> Any:
        if self.name == "tables":
            return Categorical.from_logits(
                lambda x: _logits(x, 0.6 * number), actions=["a", "b", "c"]
            )
        if self.name == "pool":
            return Pool(0.15 * number * np.arange(12))
        if self.name == "in contexts":
            return Gaussian(lambda x: 0.3 * number * x[:, 0], 0.9)
        return Gaussian(0.3 * number, 0.9)

    def contexts(self, rows: int, rng: np.random.Generator) -> Any:
        if self.name == "tables":
            return rng.integers(0, 4, size=(rows, 2)).astype(float)
        if self.name == "in contexts":
            return rng.integers(1, 4, size=(rows, 1)) / 2
        return rows

    def losses(self, contexts: Any, actions: Any) -> Any:
        if self.name == "tables":
            return np.where(actions == "c", 0.6, np.where(actions == "b", 0.1, 0.0))
        if self.name == "pool":
            return (np.asarray(actions) / 12) ** 5
        return np.clip(np.asarray(actions) - 0.5, 0, 1)


def _logits(x: Any, pull: float) -> Any:
    return np.column_stack([np.zeros(len(x)), -1 + 0.3 * x[:, 0], -2 + pull + 0.2 * x[:, 1]])


WORLDS = [World("tables"), World("pool"), World("marginal"), World("in contexts")]


def one_round(run: Any, world: World, number: int, rows: int, rng: np.random.Generator) -> Any:
    """Begin, act, observe."""
    round_ = run.begin(world.optimized(number))
    taken = round_.act(world.contexts(rows, rng), rng)
    round_.observe(taken.ids, world.losses(taken.contexts, taken.actions), taken.ids % 7)
    return round_, taken
