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

from tether._core.arrays import Contexts, Integers
from tether._core.contexts import length, parts, take
from tether.sampling.envelope import Envelope
from tether.sampling.policy_pair import DrawLimitError, PolicyPair, SamplingInfo, together
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
        self.scored, self.calls = self.count, 1
        self.proposed_safe = int(np.count_nonzero(start.from_safe))

    def advance(self, steps: int, chains: Integers | None = None) -> None:
        """Advance some chains, by default all, by so many steps, whose proposals are one call."""
        chains = np.arange(self.count) if chains is None else chains
        contexts = take(self.contexts, np.tile(chains, steps))
        draws = self.pair.propose(self.envelope.safe_weight, contexts, self.rng)
        shape = steps, len(chains)
        self.scored += steps * len(chains)
        self.calls += 1
        self.proposed_safe += int(np.count_nonzero(draws.from_safe))
        proposed = self.envelope.log_importance_weight(draws.log_ratio).reshape(shape)
        exponential = self.rng.standard_exponential(shape)  # −log of uniform numbers
        self.settled[chains] |= (exponential + proposed >= self.envelope.log_constant).any(axis=0)
        state, last_move = self.log_weight[chains], np.full(len(chains), -1)
        for step in range(steps):
            with np.errstate(invalid="ignore"):  # −inf minus −inf: an impossible state stays
                move = exponential[step] >= state - proposed[step]
            state = np.where(move, proposed[step], state)
            last_move[move] = step
        self.log_weight[chains] = state
        moved = np.flatnonzero(last_move >= 0)
        rows = last_move[moved] * len(chains) + moved
        candidates = np.concatenate([self.actions, draws.actions[rows]])
        latest = np.arange(self.count)
        latest[chains[moved]] = self.count + np.arange(len(moved))
        self.actions = candidates[latest]

    def run(self, max_draws: int) -> None:
        """Advance every chain by 64 steps, and on until it has settled.

        Raises once a chain has taken `max_draws` steps, or all chains together `max_draws` times
        one more than the number of settled chains.
        """
        taken, running, burn_in = 0, np.arange(self.count), min(BURN_IN_STEPS, max_draws)
        while len(running):
            limit = burn_in if taken < burn_in else max_draws
            steps = min(max(1, PROPOSALS_PER_CALL // len(running)), limit - taken)
            self.advance(steps, running)
            taken += steps
            if taken < burn_in:
                continue
            running = np.flatnonzero(~self.settled)
            too_many = self.scored > max_draws * (self.count - len(running) + 1)
            if len(running) and (taken >= max_draws or too_many):
                raise DrawLimitError(
                    f"metropolis gave up: {len(running)} of {self.count} chain(s) have not "
                    f"forgotten their initial state after {self.scored:,} proposals in all, at "
                    f"max_draws = {max_draws:,} per action",
                )


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
        chains.run(max_draws)
        groups.append(chains.actions)
        counts = chains.scored, chains.scored, chains.calls, chains.proposed_safe
        infos.append(SamplingInfo("metropolis", chains.count, *counts))
    return np.concatenate(groups), together("metropolis", infos)
