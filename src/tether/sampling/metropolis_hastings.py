"""Independence Metropolis–Hastings: proposals do not depend on the state of the chain.

A proposal replaces the state with probability min(1, r(new)/r(old)), where r is the clip kernel
over the proposal density; otherwise the old state is *repeated*. Each action has a chain of its
own; chains run side by side, so that policies are called with large batches.

A proposal that accept-reject would have accepted is always moved to, whatever the old state is:
there the chain forgets its initial state, and from then on its states have the target distribution.
So a chain counts as settled only once that has happened, and a chain to which it does not happen
within `max_draws` steps is an error.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tether._core.arrays import Contexts, Floats, Integers
from tether._core.contexts import length, parts, take
from tether.sampling.envelope import Envelope
from tether.sampling.policy_pair import (
    DrawLimitError,
    PolicyPair,
    SamplingInfo,
    ScoredDraws,
    together,
)
from tether.sampling.rejection_sampling import MAX_DRAWS, PROPOSALS_PER_CALL

BURN_IN_STEPS = 64
"""Steps before the state is taken, or more until the chain has settled."""


class Chains:
    """Chains, one per context, and their states."""

    def __init__(
        self, pair: PolicyPair, contexts: Any, rng: np.random.Generator, envelope: Envelope
    ) -> None:
        self.pair, self.contexts, self.rng, self.envelope = pair, contexts, rng, envelope
        self.count = length(contexts)
        start = pair.propose(envelope.safe_weight, contexts, rng)
        self.actions = start.actions
        self.log_weight = envelope.log_importance_weight(start.log_ratio)
        self.settled = np.zeros(self.count, dtype=np.bool_)
        self.steps, self.scored, self.calls = 0, self.count, 1
        self.proposed_safe = int(np.count_nonzero(start.from_safe))

    def advance(self, steps: int) -> None:
        """Advance every chain by `steps`; the proposals for many steps are drawn in one call."""
        at_once = max(1, PROPOSALS_PER_CALL // self.count)
        for done in range(0, steps, at_once):
            taken = min(at_once, steps - done)
            self.steps += taken
            draws, log_weight, exponential = self._propose(np.arange(self.count), taken)
            self.settled |= (exponential + log_weight >= self.envelope.log_constant).any(axis=0)
            last_move = np.full(self.count, -1)
            for step in range(taken):
                with np.errstate(invalid="ignore"):  # −inf minus −inf: an impossible state stays
                    move = exponential[step] >= self.log_weight - log_weight[step]
                self.log_weight = np.where(move, log_weight[step], self.log_weight)
                last_move[move] = step
            chains = np.flatnonzero(last_move >= 0)
            self._replace_states(chains, draws, last_move[chains] * self.count + chains)

    def settle(self, max_draws: int) -> None:
        """Continue the unsettled chains up to their first exact draw.

        Raises once a chain has taken `max_draws` steps, or all chains together `max_draws` times
        one more than the number of settled chains.
        """
        taken, missing = self.steps, np.flatnonzero(~self.settled)
        while len(missing):
            settled = self.count - len(missing)
            if taken >= max_draws or self.scored > max_draws * (settled + 1):
                raise DrawLimitError(
                    f"metropolis gave up: {len(missing)} of {self.count} chain(s) have not "
                    f"forgotten their initial state after {self.scored:,} proposals in all, at "
                    f"max_draws = {max_draws:,} per action",
                )
            steps = min(max(1, PROPOSALS_PER_CALL // len(missing)), max_draws - taken)
            draws, log_weight, exponential = self._propose(missing, steps)
            exact = exponential + log_weight >= self.envelope.log_constant
            any_exact = exact.any(axis=0)
            rows = exact.argmax(axis=0)[any_exact] * len(missing) + np.flatnonzero(any_exact)
            self._replace_states(missing[any_exact], draws, rows)
            taken, missing = taken + steps, missing[~any_exact]

    def _propose(self, chains: Integers, steps: int) -> tuple[ScoredDraws, Floats, Floats]:
        """Proposals for some chains, their log weights, and −log of the uniform numbers.

        The last two have one row per step and one column per chain.
        """
        contexts = take(self.contexts, np.tile(chains, steps))
        draws = self.pair.propose(self.envelope.safe_weight, contexts, self.rng)
        shape = steps, len(chains)
        self.scored += steps * len(chains)
        self.calls += 1
        self.proposed_safe += int(np.count_nonzero(draws.from_safe))
        log_weight = self.envelope.log_importance_weight(draws.log_ratio).reshape(shape)
        return draws, log_weight, self.rng.standard_exponential(shape)

    def _replace_states(self, chains: Integers, draws: ScoredDraws, rows: Integers) -> None:
        """Move chains to rows of the draws."""
        candidates = np.concatenate([self.actions, draws.actions[rows]])
        latest = np.arange(self.count)
        latest[chains] = self.count + np.arange(len(chains))
        self.actions = candidates[latest]


def metropolis(
    pair: PolicyPair,
    contexts: Contexts,
    rng: np.random.Generator,
    envelope: Envelope,
    *,
    max_draws: int = MAX_DRAWS,
) -> tuple[NDArray[Any], SamplingInfo]:
    """Draw actions of the clip policy with Metropolis–Hastings chains, one per action.

    Each chain runs for 64 steps and until it has settled, and gives its last state. The arguments
    are those of `accept_reject`; the constant of the envelope decides when a chain has settled, and
    `max_draws` limits its steps.
    """
    groups, infos = [], []
    for piece in parts(contexts, PROPOSALS_PER_CALL):
        chains = Chains(pair, piece, rng, envelope)
        chains.advance(min(BURN_IN_STEPS, max_draws))
        chains.settle(max_draws)
        groups.append(chains.actions)
        counts = chains.scored, chains.scored, chains.calls, chains.proposed_safe
        infos.append(SamplingInfo("metropolis", chains.count, *counts))
    return np.concatenate(groups), together("metropolis", infos)
