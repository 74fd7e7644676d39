"""Pairs of policies that a run tethers inside of an action, along a path of policies.

The density of such a policy does not follow from the scores of the safe and the optimized policy,
so a round is given the pair itself, as `tether.llm.TokenTether` is one: it scores actions along its
path, draws proposals there, and makes the policy at a beta, which is normalized and scores exactly.
Past rounds enter the mixture by their own policies' scores.
"""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from tether._core.arrays import Floats, shown
from tether.control.calibration import Calibration
from tether.control.families import PathFamily
from tether.control.proposals import Proposals
from tether.policies.policy import Policy


class PathTethered(Policy, Protocol):
    """A policy of a path: normalized, with exact scores."""

    @property
    def beta(self) -> float:
        """How far the optimized policy may pull away."""
        ...

    log_beta: float


@runtime_checkable
class PathPair(Protocol):
    """A safe and an optimized policy, and the path of policies between them."""

    safe: Policy
    optimized: Policy
    log_betas: Floats

    @property
    def family(self) -> str:
        """The name of the family."""
        ...

    def path_scores(self, contexts: Any, actions: Any) -> Floats:
        """Log-probabilities of actions: safe, optimized, and at each of `log_betas`."""
        ...

    def make_proposals(
        self,
        contexts: Any,
        rng: np.random.Generator,
        *,
        draws: int = ...,
        logged_by: Policy | None = None,
    ) -> Proposals:
        """Draws of every policy of the path; those of one policy are all in different rows."""
        ...

    def tethered(self, beta: float | Calibration, /) -> PathTethered:
        """The policy at a beta."""
        ...


class PathOptimized:
    """The optimized policy of a round along a path: that of its pair, with the pair."""

    def __init__(self, pair: PathPair) -> None:
        self.pair = pair

    def sample(self, contexts: Any, rng: np.random.Generator) -> NDArray[Any]:
        """Draw one action per context."""
        return self.pair.optimized.sample(contexts, rng)

    def log_prob(self, contexts: Any, actions: Any) -> Floats:
        """Score each action."""
        return self.pair.optimized.log_prob(contexts, actions)

    def __repr__(self) -> str:
        return f"PathOptimized({self.pair!r})"


def as_path_optimized(name: str, given: Any, family: PathFamily, safe: Policy) -> PathOptimized:
    """A pair that a user passes as the optimized policy, if it fits the run."""
    if isinstance(given, PathOptimized):
        return given
    if not isinstance(given, PathPair):
        raise TypeError(
            f"{name} must be a pair of policies that are tethered at every token, as "
            f"tether.llm.TokenTether(safe, optimized) is, in a run of family {family.name!r}; got "
            f"{shown(given)}"
        )
    if given.family != family.name:
        raise ValueError(
            f"{name} is of family {given.family!r}, but the run is of family {family.name!r}"
        )
    if given.safe is not safe:
        raise ValueError(
            f"{name} must be a pair with the run's own safe policy, {shown(safe)}, as its safe "
            f"policy; it has {shown(given.safe)}"
        )
    return PathOptimized(given)


def check_path_settings(
    family: PathFamily,
    *,
    against: str,
    test_weight: str | float,
    on_shortlists: bool,
) -> None:
    """Refuse what a run along a path does not have."""
    begun = f"in a run of family {family.name!r}"
    if against != "safe":
        raise ValueError(
            f"{begun} against must be 'safe', got {against!r}: a path begins at the safe policy"
        )
    if test_weight == "analytic":
        raise ValueError(
            f"{begun} test_weight must be 'empirical' or a number, got 'analytic': its weights "
            f"have no bound"
        )
    if on_shortlists:
        raise ValueError(f"{begun} safe must be a policy, not a tether.Shortlist")
