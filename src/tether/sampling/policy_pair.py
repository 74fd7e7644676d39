"""The two policies together, as the source of proposals."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tether._core import policy_calls
from tether._core.contexts import length, take
from tether._core.types import Floats

if TYPE_CHECKING:
    from tether.policies.policy import Policy


@dataclass(frozen=True)
class Batch:
    """Drawn actions, their log ratios, and which of them the safe policy drew."""

    actions: NDArray[Any]
    log_ratio: Floats
    from_safe: NDArray[np.bool_]


@dataclass(frozen=True)
class Pair:
    """A safe and an optimized policy; `strict` refuses actions that the safe one never takes."""

    safe: Policy
    optimized: Policy
    strict: bool = True

    def propose(self, weight: float, contexts: Any, rng: np.random.Generator) -> Batch:
        """One draw in each context from weight·safe + (1 − weight)·optimized, scored under both."""
        policy_calls.generator(rng)
        count = length(contexts)
        if weight == 1.0:
            from_safe = np.ones(count, dtype=np.bool_)
        elif weight == 0.0:
            from_safe = np.zeros(count, dtype=np.bool_)
        else:
            from_safe = rng.random(count) < weight
        actions = self.draw(from_safe, contexts, rng)
        log_safe, log_optimized = policy_calls.score_both(
            self.safe,
            self.optimized,
            contexts,
            actions,
            drew_safe=from_safe,
            drew_optimized=~from_safe,
        )
        if self.strict and weight < 1.0:
            policy_calls.check_absolute_continuity(log_safe, log_optimized)
        return Batch(actions, log_optimized - log_safe, from_safe)

    def draw(
        self, from_safe: NDArray[np.bool_], contexts: Any, rng: np.random.Generator
    ) -> NDArray[Any]:
        """One action in each context, of the policy that is chosen for it."""
        if from_safe.all():
            return policy_calls.draw("safe", self.safe, contexts, rng)
        if not from_safe.any():
            return policy_calls.draw("optimized", self.optimized, contexts, rng)
        place = np.flatnonzero(from_safe), np.flatnonzero(~from_safe)
        drawn = policy_calls.concatenate_actions(
            [
                policy_calls.draw("safe", self.safe, take(contexts, place[0]), rng),
                policy_calls.draw("optimized", self.optimized, take(contexts, place[1]), rng),
            ]
        )
        actions = np.empty_like(drawn)
        actions[np.concatenate(place)] = drawn
        return actions
