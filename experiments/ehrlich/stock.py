"""The safe policy with draws in stock: drawn and scored once, used by every run of a seed.

The safe policy never changes, and scoring its draws under all its prompts is what accept-reject
spends most on. A run takes each draw of the stock at most once, in order, and draws afresh when it
has used them up; runs of one seed share the stock, so their randomness is common to that extent.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from experiments.ehrlich.policy import Prompted


@dataclass
class Stocked:
    """A policy like the one it wraps."""

    policy: Prompted
    actions: NDArray[np.int64]
    scores: NDArray[np.float64]
    used: int = 0
    known: dict[bytes, float] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self.known = dict(zip(map(bytes, self.actions), self.scores.tolist(), strict=True))

    def sample(self, contexts: Any, rng: np.random.Generator) -> NDArray[np.int64]:
        """So many actions: the next of the stock, then fresh ones."""
        count = int(contexts)
        taken = self.actions[self.used : self.used + count]
        self.used += len(taken)
        if len(taken) == count:
            return taken
        return np.concatenate([taken, self.policy.sample(count - len(taken), rng)])

    def log_prob(self, contexts: Any, actions: Any) -> NDArray[np.float64]:
        """Remembered where the action is in stock."""
        actions = np.ascontiguousarray(actions, dtype=self.actions.dtype)
        scores = np.array([self.known.get(bytes(row), np.nan) for row in actions])
        new = np.isnan(scores)
        if new.any():
            scores[new] = self.policy.log_prob(contexts, actions[new])
        return scores
