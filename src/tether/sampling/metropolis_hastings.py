"""Independence Metropolis–Hastings: chains whose proposals do not depend on where they are.

A proposal replaces the state with probability min(1, r(new)/r(old)), r being the clip kernel over
the proposal density; otherwise the old state is *repeated*. Chains run side by side, so that the
policies are asked for whole batches.

A proposal that plain accept-reject would have taken is always moved to, whatever the old state:
there a chain forgets its start, and from there on it is at the target. So a chain is only believed
once that has happened, and one to which it does not happen within a cap is an error.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tether._core import policy_calls
from tether._core.contexts import length, part, take
from tether._core.types import Floats
from tether.sampling.envelope import Proposal
from tether.sampling.errors import CapError
from tether.sampling.info import Chain, Info
from tether.sampling.policy_pair import Batch, Pair
from tether.sampling.rejection_sampling import BATCH, CAP

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
        self.steps, self.scored, self.calls = 0, self.count, 1
        self.proposed_safe = int(np.count_nonzero(start.from_safe))

    def advance(self, steps: int, batch: int = BATCH) -> None:
        """Move every chain so many steps; proposals for many steps are drawn at once."""
        block = max(1, batch // self.count)
        for done in range(0, steps, block):
            self._block(min(block, steps - done))
        self.steps += steps

    def settle(self, cap: int, batch: int = BATCH) -> None:
        """Go on where a chain has not yet forgotten its start, up to its first exact draw.

        Raises when a chain has taken `cap` steps, or all of them cap times the chains that settled.
        """
        tries, missing = self.steps, np.flatnonzero(~self.settled)
        while len(missing):
            found = self.count - len(missing)
            if tries >= cap or self.scored > cap * (found + 1):
                raise CapError(self._gave_up(len(missing), cap), missing)
            times = min(max(1, batch // len(missing)), cap - tries)
            new, log_weight, spent = self._propose(missing, times)
            exact = spent + log_weight >= self.proposal.log_envelope
            hit = exact.any(axis=0)
            which, first = missing[hit], exact.argmax(axis=0)[hit]
            where = first * len(missing) + np.flatnonzero(hit)
            self._replace(which, new, where)
            self.log_weight[which] = log_weight.ravel()[where]
            self.settled[which] = True
            tries, missing = tries + times, missing[~hit]

    def moved(self) -> NDArray[np.bool_]:
        """Whether each chain (columns) moved at each step (rows) since the last call."""
        moves, self.moves = np.array(self.moves), []
        return moves

    def _block(self, steps: int) -> None:
        every = np.arange(self.count)
        new, log_weight, spent = self._propose(every, steps)
        self.settled |= (spent + log_weight >= self.proposal.log_envelope).any(axis=0)
        origin = np.full(self.count, -1)
        for t in range(steps):
            with np.errstate(invalid="ignore"):  # from one impossible state to another: stay
                move = spent[t] >= self.log_weight - log_weight[t]
            self.log_weight = np.where(move, log_weight[t], self.log_weight)
            origin[move] = t
            self.moves.append(move)
        left = np.flatnonzero(origin >= 0)
        self._replace(left, new, origin[left] * self.count + left)

    def _propose(self, which: NDArray[np.int64], steps: int) -> tuple[Batch, Floats, Floats]:
        """Proposals for some chains, their log weights, and what chance adds: a row a step."""
        asked = take(self.contexts, np.tile(which, steps))
        new = self.pair.propose(self.proposal.weight, asked, self.rng)
        shape = steps, len(which)
        self.scored += steps * len(which)
        self.calls += 1
        self.proposed_safe += int(np.count_nonzero(new.from_safe))
        log_weight = self.proposal.log_weight(new.log_ratio).reshape(shape)
        return new, log_weight, self.rng.standard_exponential(shape)

    def _replace(self, which: NDArray[np.int64], new: Batch, where: NDArray[np.int64]) -> None:
        """Put some chains at some of the proposals; states that were given out stay as they are."""
        both = policy_calls.concatenate_actions([self.actions, new.actions[where]])
        latest = np.arange(self.count)
        latest[which] = self.count + np.arange(len(which))
        self.actions = both[latest]
        self.from_safe = self.from_safe.copy()
        self.from_safe[which] = new.from_safe[where]

    def _gave_up(self, missing: int, cap: int) -> str:
        moved = float(np.mean(self.moves)) if self.moves else 0.0
        return (
            f"metropolis gave up: {missing} of {self.count} chain(s) still remember their start "
            f"after {self.scored:,} proposals in all, at a cap of {cap:,} an action. A share of "
            f"{moved:.3g} of the first {self.steps:,} steps moved. The policies hardly overlap at "
            f"this beta: use family 'mix', a budgeted clip, or raise cap"
        )


def metropolis(
    pair: Pair,
    contexts: Any,
    rng: np.random.Generator,
    proposal: Proposal,
    *,
    burn_in: int = BURN_IN,
    cap: int = CAP,
    batch: int = BATCH,
) -> tuple[NDArray[Any], Info]:
    """Actions of the clip policy, one in each context, each the state of a chain.

    In a context its own chain runs `burn_in` steps, and on until it has forgotten its start, and
    gives its last state. Without contexts, chains go on and give a state as often as their measured
    autocorrelation allows. A chain that needs more than `cap` steps is an error.
    """
    if isinstance(contexts, int):
        chains = Chains(pair, min(contexts, CHAINS), rng, proposal)
        return _thinned(chains, contexts, min(burn_in, cap), cap, batch)
    pieces, parts, moved, unsettled = [], [], [], 0
    for start in range(0, length(contexts), batch):
        chains = Chains(pair, part(contexts, start, start + batch), rng, proposal)
        chains.advance(min(burn_in, cap), batch)
        unsettled += int(np.count_nonzero(~chains.settled))
        try:
            chains.settle(cap, batch)
        except CapError as error:
            if error.missing is not None:
                error.missing += start
            raise
        pieces.append(chains.actions)
        moved.append(chains.moved())
        parts.append(chains)
    steps = np.concatenate(moved, axis=1)
    from_safe = sum(int(np.count_nonzero(each.from_safe)) for each in parts)
    told = describe(steps, 1, unsettled / length(contexts))
    return policy_calls.concatenate_actions(pieces), _info(parts, from_safe, told)


def _thinned(
    chains: Chains, count: int, burn_in: int, cap: int, batch: int
) -> tuple[NDArray[Any], Info]:
    chains.advance(burn_in, batch)
    unsettled = 1.0 - float(chains.settled.mean())
    chains.settle(cap, batch)
    late = chains.moved()[burn_in // 2 :]
    thinning = _forgetting(autocorrelation(late, len(late) // 2))
    while count > chains.count and thinning is None:  # watch for as long again
        if chains.steps >= cap:
            raise CapError(_correlated(late, cap))
        chains.advance(min(chains.steps, cap - chains.steps), batch)
        late = chains.moved()
        thinning = _forgetting(autocorrelation(late, len(late) // 2))
    thinning = 1 if thinning is None else thinning
    kept, from_safe = [chains.actions], [chains.from_safe]
    while sum(map(len, kept)) < count:
        chains.advance(thinning, batch)
        kept.append(chains.actions)
        from_safe.append(chains.from_safe)
    late = np.concatenate([late, chains.moved().reshape(-1, chains.count)])
    actions = policy_calls.concatenate_actions(kept)[:count]
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


def _forgetting(correlation: Floats) -> int | None:
    """The first lag at which a chain has forgotten; None if it has not at any that was measured."""
    forgot = np.flatnonzero(correlation <= FORGOTTEN)
    return int(forgot[0]) if len(forgot) else None


def _correlated(late: NDArray[np.bool_], cap: int) -> str:
    return (
        f"metropolis gave up: states {len(late) // 2:,} steps apart are still correlated, at a cap "
        f"of {cap:,} steps. A share of {late.mean():.3g} of them moved. The policies hardly "
        f"overlap at this beta: use family 'mix', a budgeted clip, or raise cap"
    )


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
