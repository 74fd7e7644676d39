"""The safe and the optimized policy as the source of proposed actions, and what draws cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tether._core import policy_calls, validate
from tether._core.arrays import Booleans, Contexts, Floats
from tether._core.contexts import length

if TYPE_CHECKING:
    from tether.policies.policy import Policy


@dataclass(frozen=True)
class ScoredDraws:
    """Drawn actions, their log ratios, and whether the safe policy drew them."""

    actions: NDArray[Any]
    log_ratio: Floats
    from_safe: Booleans


@dataclass(frozen=True)
class PolicyPair:
    """A safe and an optimized policy that propose actions.

    If it is `strict`, an action of the optimized policy that has probability 0 under the safe one
    is an error. Otherwise such actions are only scored, and clip never accepts them.
    """

    safe: Policy
    optimized: Policy
    strict: bool = True

    @property
    def by_name(self) -> dict[str, Policy]:
        """Both policies, as errors call them."""
        return {"safe": self.safe, "optimized": self.optimized}

    def propose(
        self, safe_weight: float, contexts: Contexts, rng: np.random.Generator
    ) -> ScoredDraws:
        """Draw one action per context from w·safe + (1 − w)·optimized and score it under both."""
        count = length(contexts)
        if safe_weight in (0.0, 1.0):
            from_safe = np.full(count, safe_weight == 1.0)
        else:
            from_safe = rng.random(count) < safe_weight
        actions = self.draw(from_safe, contexts, rng)
        log_safe, log_optimized = self.score(
            contexts, actions, safe=from_safe, optimized=~from_safe
        )
        return ScoredDraws(actions, log_optimized - log_safe, from_safe)

    def draw(
        self, from_safe: Booleans, contexts: Contexts, rng: np.random.Generator
    ) -> NDArray[Any]:
        """Draw one action per context from the policy chosen for it."""
        return policy_calls.draw_chosen(self.by_name, ~from_safe, contexts, rng)

    def score(
        self, contexts: Contexts, actions: NDArray[Any], **drew: Booleans
    ) -> tuple[Floats, Floats]:
        """Score actions under both policies, given which of them a policy drew, by its name."""
        safe, optimized = (
            policy_calls.score(name, each, contexts, actions, drew=drew.get(name, False))
            for name, each in self.by_name.items()
        )
        self.check(safe, optimized)
        return safe, optimized

    def check(self, log_safe: Floats, log_optimized: Floats) -> None:
        """Refuse an optimized policy that takes what the safe one never takes, if that matters."""
        outside = (log_safe == -np.inf) & (log_optimized > -np.inf)
        if self.strict and outside.any():
            accepted = (
                "no action that the safe policy never takes, since its log does not show what that "
                "costs (restrict the optimized policy, or use family 'clip' with a finite beta)"
            )
            validate.reject("the safe policy's log_prob", log_safe, outside, accepted)


class DrawLimitError(RuntimeError):
    """An action would take more than `max_draws` draws, because the policies hardly overlap."""

    def __init__(self, message: str) -> None:
        super().__init__(
            f"{message}. The policies hardly overlap at this beta: use family 'mix' or a budgeted "
            f"clip, or raise max_draws"
        )


@dataclass(frozen=True)
class SamplingInfo:
    """How many draws the actions took, and of which policy.

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
    fallbacks: int = 0
    """Actions of the safe policy taken because the draw budget was exhausted."""

    @property
    def acceptance(self) -> float:
        """The share of draws that became actions."""
        return (self.actions - self.fallbacks) / self.draws

    def __str__(self) -> str:
        return (
            f"{self.actions:,} actions by {self.method}: {self.draws:,} draws in {self.calls:,} "
            f"call(s), acceptance {self.acceptance:.3g}"
            + (f", {self.fallbacks:,} fell back to safe" if self.fallbacks else "")
        )


def direct_info(method: str, actions: int, from_safe: int) -> SamplingInfo:
    """The record of draws that were all accepted."""
    return SamplingInfo(method, actions, actions, actions, 1, from_safe)


def together(method: str, infos: Sequence[SamplingInfo]) -> SamplingInfo:
    """One record of several batches."""
    names = [each.name for each in fields(SamplingInfo) if each.name != "method"]
    return SamplingInfo(method, *(sum(getattr(i, name) for i in infos) for name in names))
