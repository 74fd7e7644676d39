"""Independence Metropolis–Hastings: chains whose proposals do not depend on where they are.

A proposal replaces the state with probability min(1, r(new)/r(old)), r being the clip kernel over
the proposal density; otherwise the old state is *repeated*. No envelope is needed. Chains run side
by side, so that the policies are asked for whole batches.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tether._check import Floats
from tether._contexts import length, part, take
from tether.sampling.accept_reject import BATCH
from tether.sampling.info import Chain, Info
from tether.sampling.pair import Pair
from tether.sampling.proposal import Proposal

BURN_IN = 256
"""Steps before the first state is kept."""
CHAINS = 1024
"""Chains side by side where there are no contexts."""
FORGOTTEN = 0.01
"""The autocorrelation below which two states count as separate draws."""
LAGS = 64


class Chains:
    """Chains, one in each context: where they are, and when they moved."""

    def __init__(
        self, pair: Pair, contexts: Any, rng: np.random.Generator, proposal: Proposal
    ) -> None:
        self.pair, self.contexts, self.rng, self.proposal = pair, contexts, rng, proposal
        self.count = length(contexts)
        start = pair.propose(proposal.weight, contexts, rng)
        self.actions, self.from_safe = start.actions, start.from_safe
        self.log_weight = proposal.log_weight(start.log_ratio)
        self.settled = np.zeros(self.count, dtype=np.bool_)
        self.moves: list[NDArray[np.bool_]] = []
        self.scored, self.calls = self.count, 1
        self.proposed_safe = int(np.count_nonzero(start.from_safe))

    def advance(self, steps: int, batch: int = BATCH) -> None:
        """Move every chain so many steps; proposals for many steps are drawn at once."""
        block = max(1, batch // self.count)
        for done in range(0, steps, block):
            self._block(min(block, steps - done))

    def moved(self) -> NDArray[np.bool_]:
        """Whether each chain (columns) moved at each step (rows) since the last call."""
        moves, self.moves = np.array(self.moves), []
        return moves

    def _block(self, steps: int) -> None:
        asked = take(self.contexts, np.tile(np.arange(self.count), steps))
        new = self.pair.propose(self.proposal.weight, asked, self.rng)
        log_weight = self.proposal.log_weight(new.log_ratio).reshape(steps, self.count)
        spent = self.rng.standard_exponential((steps, self.count))
        regained = spent + log_weight >= self.proposal.log_envelope
        origin = np.full(self.count, -1)
        for t in range(steps):
            with np.errstate(invalid="ignore"):  # from one impossible state to another: stay
                move = spent[t] >= self.log_weight - log_weight[t]
            self.log_weight = np.where(move, log_weight[t], self.log_weight)
            origin[move] = t
            self.settled |= regained[t]
            self.moves.append(move)
        left = np.flatnonzero(origin >= 0)
        where = origin[left] * self.count + left
        both = np.concatenate([self.actions, new.actions[where]])
        latest = np.arange(self.count)
        latest[left] = self.count + np.arange(len(left))
        self.actions = both[latest]
        self.from_safe = self.from_safe.copy()
        self.from_safe[left] = new.from_safe[where]
        self.scored += steps * self.count
        self.calls += 1
        self.proposed_safe += int(np.count_nonzero(new.from_safe))


def metropolis(
    pair: Pair,
    contexts: Any,
    rng: np.random.Generator,
    proposal: Proposal,
    *,
    burn_in: int = BURN_IN,
    batch: int = BATCH,
) -> tuple[NDArray[Any], Info]:
    """Actions of the clip policy, one in each context, each the state of a chain.

    In a context its own chain runs `burn_in` steps and gives its last state. Without contexts,
    chains go on and give a state as often as their measured autocorrelation allows. The draws are
    close to the target rather than exact: `unsettled` in the record bounds how far off they are.
    """
    if isinstance(contexts, int):
        chains = Chains(pair, min(contexts, CHAINS), rng, proposal)
        return _thinned(chains, contexts, burn_in, batch)
    pieces, parts, moved = [], [], []
    for start in range(0, length(contexts), batch):
        chains = Chains(pair, part(contexts, start, start + batch), rng, proposal)
        chains.advance(burn_in, batch)
        pieces.append(chains.actions)
        moved.append(chains.moved())
        parts.append(chains)
    steps = np.concatenate(moved, axis=1)
    from_safe = sum(int(np.count_nonzero(each.from_safe)) for each in parts)
    unsettled = 1.0 - float(np.concatenate([each.settled for each in parts]).mean())
    return np.concatenate(pieces), _info(parts, from_safe, describe(steps, 1, unsettled))


def _thinned(chains: Chains, count: int, burn_in: int, batch: int) -> tuple[NDArray[Any], Info]:
    chains.advance(burn_in, batch)
    early = chains.moved()
    thinning = _forgetting(autocorrelation(early[len(early) // 2 :], len(early) // 2))
    kept, from_safe = [chains.actions], [chains.from_safe]
    unsettled = 1.0 - float(chains.settled.mean())
    while sum(map(len, kept)) < count:
        chains.advance(thinning, batch)
        kept.append(chains.actions)
        from_safe.append(chains.from_safe)
    late = np.concatenate([early[len(early) // 2 :], chains.moved().reshape(-1, chains.count)])
    actions = np.concatenate(kept)[:count]
    safe = int(np.count_nonzero(np.concatenate(from_safe)[:count]))
    return actions, _info([chains], safe, describe(late, thinning, unsettled), count)


def describe(moved: NDArray[np.bool_], thinning: int, unsettled: float) -> Chain:
    """The diagnostics of chains, from when they moved: a row a step, a column a chain."""
    runs = _runs(moved)
    return Chain(
        acceptance=float(moved.mean()),
        autocorrelation=tuple(autocorrelation(moved, LAGS).tolist()),
        effective_draws=float(runs.sum() ** 2 / (runs**2).sum()),
        steps=moved.size,
        thinning=thinning,
        unsettled=unsettled,
    )


def autocorrelation(moved: NDArray[np.bool_], lags: int) -> Floats:
    """For each lag, the share of steps after which a chain stays that long or longer."""
    steps, chains = moved.shape
    runs = np.bincount(_runs(moved), minlength=steps + 1).astype(np.float64)
    lengths = np.arange(len(runs))
    at = np.arange(min(lags, steps - 1) + 1)
    same = np.array([(runs[k:] * (lengths[k:] - k)).sum() for k in at])
    return np.asarray(same / (chains * (steps - at)))


def _runs(moved: NDArray[np.bool_]) -> NDArray[np.int64]:
    """The lengths of runs of equal states, in every chain."""
    begins = moved.copy()
    begins[0] = True
    return np.diff(np.flatnonzero(begins.T.ravel()), append=begins.size)


def _forgetting(correlation: Floats) -> int:
    """The first lag at which a chain has forgotten, or the last that was measured."""
    forgot = np.flatnonzero(correlation <= FORGOTTEN)
    return int(forgot[0]) if len(forgot) else len(correlation)


def _info(parts: list[Chains], from_safe: int, chain: Chain, count: int | None = None) -> Info:
    actions = sum(each.count for each in parts) if count is None else count
    scored = sum(each.scored for each in parts)
    weight = parts[0].proposal.weight
    return Info(
        method="metropolis",
        actions=actions,
        draws=scored,
        scored=scored,
        calls=sum(each.calls for each in parts),
        draws_safe=sum(each.proposed_safe for each in parts),
        taken_safe=from_safe,
        taken_optimized=actions - from_safe,
        weight=weight if 0 < weight < 1 else None,
        chain=chain,
    )
