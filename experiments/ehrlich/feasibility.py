"""A loss model learned from training rows: tokens that never stood beside each other are suspect.

It knows no more of the function than that a sequence of the wrong length is infeasible, and that
feasibility depends on neighbours. Predictions only aim: alpha is kept whatever they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from experiments.ehrlich.policy import Language, Prompted
from experiments.ehrlich.rows import Actions


@dataclass(frozen=True)
class Neighbours:
    """Which token was seen after which in a feasible sequence."""

    language: Language
    seen: NDArray[np.bool_]

    @classmethod
    def learn(cls, language: Language, actions: Actions) -> Neighbours:
        """From actions that may be trained on, whose losses are known."""
        sequences = actions[np.isfinite(language.values(actions))][:, :-1]
        seen = np.zeros((language.function.states,) * 2, dtype=bool)
        seen[sequences[:, :-1], sequences[:, 1:]] = True
        return cls(language, seen)

    def suspicion(self, actions: Actions) -> NDArray[np.int64]:
        """How many neighbours of each action were not seen; more than possible in no sequence."""
        sequences, parsed = self.language.read(actions)
        unseen = (~self.seen[sequences[:, :-1], sequences[:, 1:]]).sum(axis=1)
        return np.where(parsed, unseen, sequences.shape[1])


@dataclass(frozen=True)
class Aimed:
    """A policy that needs only draw: of a few draws of another, the first of the least suspicious.

    The draws are alike before they are looked at, so this is that policy without what is suspected,
    as far as a few draws go.
    """

    policy: Prompted
    neighbours: Neighbours
    draws: int

    def sample(self, contexts: Any, rng: np.random.Generator) -> Actions:
        """So many actions as `contexts` says, which is a number."""
        count = int(contexts)
        drawn = self.policy.sample(count * self.draws, rng)
        several = drawn.reshape(count, self.draws, -1)
        suspicion = self.neighbours.suspicion(drawn).reshape(count, self.draws)
        return several[np.arange(count), suspicion.argmin(axis=1)]


def aimed(policy: Prompted, training: Actions, settings: Mapping[str, Any]) -> Aimed:
    """The policy aimed by what training rows say."""
    neighbours = Neighbours.learn(policy.language, training)
    return Aimed(policy, neighbours, settings["aimed_draws"])
