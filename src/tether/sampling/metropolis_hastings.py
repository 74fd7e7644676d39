"""Independence Metropolis–Hastings: proposals do not depend on the state of the chain.

A proposal replaces the state with probability min(1, r(new)/r(old)), where r is the clip kernel
over the proposal density; otherwise the old state is *repeated*. Chains run side by side, so that
policies are called with large batches.

A proposal that accept-reject would have accepted is always moved to, whatever the old state is:
there the chain forgets its initial state, and from then on its states have the target distribution.
So a chain counts as settled only once that has happened, and a chain to which it does not happen
within `max_draws` steps is an error.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tether._core import policy_calls
from tether._core.contexts import length, part, take
from tether._core.types import Booleans, Contexts, Floats, Integers
from tether.sampling.envelope import Envelope
from tether.sampling.errors import DrawLimitError
from tether.sampling.policy_pair import PolicyPair, ScoredDraws
from tether.sampling.rejection_sampling import MAX_DRAWS, PROPOSALS_PER_CALL
from tether.sampling.sampling_info import ChainDiagnostics, SamplingInfo

BURN_IN_STEPS = 256
"""Steps before the first state is kept."""
PARALLEL_CHAINS = 1024
"""The largest number of chains that run side by side where there are no contexts."""
NEGLIGIBLE_AUTOCORRELATION = 0.01
"""The autocorrelation at or below which two states count as separate draws."""
AUTOCORRELATION_LAGS = 64
"""Lags at which the diagnostics state the autocorrelation."""


class Chains:
    """Chains, one per context: their states, and at which steps they moved."""

    def __init__(
        self, pair: PolicyPair, contexts: Any, rng: np.random.Generator, envelope: Envelope
    ) -> None:
        self.pair, self.contexts, self.rng, self.envelope = pair, contexts, rng, envelope
        self.count = length(contexts)
        start = pair.propose(envelope.safe_weight, contexts, rng)
        self.actions, self.from_safe = start.actions, start.from_safe
        self.log_weight = envelope.log_importance_weight(start.log_ratio)
        self.settled = np.zeros(self.count, dtype=np.bool_)
        self.moves: list[Booleans] = []
        self.steps, self.scored, self.calls = 0, self.count, 1
        self.proposed_safe = int(np.count_nonzero(start.from_safe))

    def advance(self, steps: int, batch_size: int = PROPOSALS_PER_CALL) -> None:
        """Advance every chain by `steps`; the proposals for many steps are drawn in one call."""
        steps_per_call = max(1, batch_size // self.count)
        for done in range(0, steps, steps_per_call):
            self._advance_at_once(min(steps_per_call, steps - done))
        self.steps += steps

    def settle(self, max_draws: int, batch_size: int = PROPOSALS_PER_CALL) -> None:
        """Continue the unsettled chains up to their first exact draw.

        Raises once a chain has taken `max_draws` steps, or all chains together `max_draws` times
        one more than the number of settled chains.
        """
        taken, missing = self.steps, np.flatnonzero(~self.settled)
        while len(missing):
            settled = self.count - len(missing)
            if taken >= max_draws or self.scored > max_draws * (settled + 1):
                raise DrawLimitError(self._unsettled_message(len(missing), max_draws), missing)
            steps = min(max(1, batch_size // len(missing)), max_draws - taken)
            draws, log_weight, exponential = self._propose(missing, steps)
            exact = exponential + log_weight >= self.envelope.log_constant
            any_exact = exact.any(axis=0)
            chains, first = missing[any_exact], exact.argmax(axis=0)[any_exact]
            rows = first * len(missing) + np.flatnonzero(any_exact)
            self._replace_states(chains, draws, rows)
            self.log_weight[chains] = log_weight.ravel()[rows]
            self.settled[chains] = True
            taken, missing = taken + steps, missing[~any_exact]

    def moved(self) -> Booleans:
        """Whether each chain (column) moved at each step (row) since the last call."""
        moves, self.moves = np.array(self.moves), []
        return moves

    def _advance_at_once(self, steps: int) -> None:
        draws, log_weight, exponential = self._propose(np.arange(self.count), steps)
        self.settled |= (exponential + log_weight >= self.envelope.log_constant).any(axis=0)
        last_move = np.full(self.count, -1)
        for step in range(steps):
            with np.errstate(invalid="ignore"):  # −inf minus −inf: an impossible state stays
                move = exponential[step] >= self.log_weight - log_weight[step]
            self.log_weight = np.where(move, log_weight[step], self.log_weight)
            last_move[move] = step
            self.moves.append(move)
        chains = np.flatnonzero(last_move >= 0)
        self._replace_states(chains, draws, last_move[chains] * self.count + chains)

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
        """Move chains to rows of the draws; arrays of states returned before stay unchanged."""
        candidates = policy_calls.concatenate_actions([self.actions, draws.actions[rows]])
        latest = np.arange(self.count)
        latest[chains] = self.count + np.arange(len(chains))
        self.actions = candidates[latest]
        self.from_safe = self.from_safe.copy()
        self.from_safe[chains] = draws.from_safe[rows]

    def _unsettled_message(self, missing: int, max_draws: int) -> str:
        moved = float(np.mean(self.moves)) if self.moves else 0.0
        return (
            f"metropolis gave up: {missing} of {self.count} chain(s) have not forgotten their "
            f"initial state after {self.scored:,} proposals in all, at max_draws = {max_draws:,} "
            f"per action. Chains moved at a share of {moved:.3g} of the first {self.steps:,} "
            f"steps. The policies hardly overlap at this beta: use family 'mix' or a budgeted "
            f"clip, or raise max_draws"
        )


def metropolis(
    pair: PolicyPair,
    contexts: Contexts,
    rng: np.random.Generator,
    envelope: Envelope,
    *,
    burn_in: int = BURN_IN_STEPS,
    max_draws: int = MAX_DRAWS,
    batch_size: int = PROPOSALS_PER_CALL,
) -> tuple[NDArray[Any], SamplingInfo]:
    """Draw actions of the clip policy with Metropolis–Hastings chains, one per context.

    Each context has its own chain, which runs for `burn_in` steps and until it has settled, and
    gives its last state. Without contexts, up to 1,024 chains run on and give a state as often as
    their measured autocorrelation allows.

    Parameters
    ----------
    pair : PolicyPair
        The safe and the optimized policy.
    contexts : array-like or int
        One row per context, or the number of actions where there are no contexts.
    rng : numpy.random.Generator
        Source of randomness.
    envelope : Envelope
        The proposal; its constant decides when a chain has settled.
    burn_in : int, default 256
        Steps before the first state is kept.
    max_draws : int, default 100_000
        The limit of steps for one action.
    batch_size : int, default 32_768
        The largest number of proposals requested in one call.

    Returns
    -------
    actions : ndarray
        One action per context.
    info : SamplingInfo
        Counts of draws, and the diagnostics of the chains in `info.chain`.

    Raises
    ------
    DrawLimitError
        If a chain has not settled within `max_draws` steps, or its states stay correlated.

    Examples
    --------
    >>> from tether import Gaussian
    >>> pair = PolicyPair(Gaussian(0.0), Gaussian(1.0))
    >>> actions, info = metropolis(pair, 500, np.random.default_rng(0), Envelope.auto(0.0))
    >>> len(actions), round(info.chain.acceptance, 2)
    (500, 0.7)
    """
    if isinstance(contexts, int):
        chains = Chains(pair, min(contexts, PARALLEL_CHAINS), rng, envelope)
        return _sample_thinned(chains, contexts, min(burn_in, max_draws), max_draws, batch_size)
    pieces, groups, moved, unsettled = [], [], [], 0
    for start in range(0, length(contexts), batch_size):
        chains = Chains(pair, part(contexts, start, start + batch_size), rng, envelope)
        chains.advance(min(burn_in, max_draws), batch_size)
        unsettled += int(np.count_nonzero(~chains.settled))
        try:
            chains.settle(max_draws, batch_size)
        except DrawLimitError as error:
            if error.missing is not None:
                error.missing += start
            raise
        pieces.append(chains.actions)
        moved.append(chains.moved())
        groups.append(chains)
    from_safe = sum(int(np.count_nonzero(group.from_safe)) for group in groups)
    diagnostics = diagnose(np.concatenate(moved, axis=1), 1, unsettled / length(contexts))
    return policy_calls.concatenate_actions(pieces), _info(groups, from_safe, diagnostics)


def _sample_thinned(
    chains: Chains, count: int, burn_in: int, max_draws: int, batch_size: int
) -> tuple[NDArray[Any], SamplingInfo]:
    """`count` states of chains without contexts, far enough apart to be uncorrelated."""
    chains.advance(burn_in, batch_size)
    unsettled = 1.0 - float(chains.settled.mean())
    chains.settle(max_draws, batch_size)
    moved = chains.moved()[burn_in // 2 :]
    thinning = _uncorrelated_lag(autocorrelation(moved, len(moved) // 2))
    while count > chains.count and thinning is None:  # double the length of the chains
        if chains.steps >= max_draws:
            raise DrawLimitError(_correlated_message(moved, max_draws))
        chains.advance(min(chains.steps, max_draws - chains.steps), batch_size)
        moved = chains.moved()
        thinning = _uncorrelated_lag(autocorrelation(moved, len(moved) // 2))
    thinning = 1 if thinning is None else thinning
    kept, from_safe = [chains.actions], [chains.from_safe]
    while sum(map(len, kept)) < count:
        chains.advance(thinning, batch_size)
        kept.append(chains.actions)
        from_safe.append(chains.from_safe)
    moved = np.concatenate([moved, chains.moved().reshape(-1, chains.count)])
    actions = policy_calls.concatenate_actions(kept)[:count]
    safe = int(np.count_nonzero(np.concatenate(from_safe)[:count]))
    return actions, _info([chains], safe, diagnose(moved, thinning, unsettled), count)


def diagnose(moved: Booleans, thinning: int, unsettled: float) -> ChainDiagnostics:
    """Diagnostics from the moves of chains: one row per step, one column per chain."""
    runs = _run_lengths(moved)
    return ChainDiagnostics(
        acceptance=float(moved.mean()),
        autocorrelation=tuple(autocorrelation(moved, AUTOCORRELATION_LAGS).tolist()),
        effective_draws=float(runs.sum() ** 2 / (runs**2).sum()),
        steps=moved.size,
        thinning=thinning,
        unsettled=unsettled,
    )


def autocorrelation(moved: Booleans, lags: int) -> Floats:
    """For each lag, the share of steps after which a chain stays that long or longer."""
    steps, chains = moved.shape
    runs = np.bincount(_run_lengths(moved), minlength=steps + 1).astype(np.float64)
    lengths = np.arange(len(runs))
    lag = np.arange(min(lags, steps - 1) + 1)
    same = np.array([(runs[k:] * (lengths[k:] - k)).sum() for k in lag])
    return np.asarray(same / (chains * (steps - lag)))


def _run_lengths(moved: Booleans) -> Integers:
    """The lengths of the runs of equal states, in every chain."""
    begins = moved.copy()
    begins[0] = True
    return np.diff(np.flatnonzero(begins.T.ravel()), append=begins.size)


def _uncorrelated_lag(correlation: Floats) -> int | None:
    """The first lag with a negligible autocorrelation; None if there is none."""
    negligible = np.flatnonzero(correlation <= NEGLIGIBLE_AUTOCORRELATION)
    return int(negligible[0]) if len(negligible) else None


def _correlated_message(moved: Booleans, max_draws: int) -> str:
    return (
        f"metropolis gave up: states {len(moved) // 2:,} steps apart are still correlated, at "
        f"max_draws = {max_draws:,} steps. Chains moved at a share of {moved.mean():.3g} of them. "
        f"The policies hardly overlap at this beta: use family 'mix' or a budgeted clip, or raise "
        f"max_draws"
    )


def _info(
    groups: list[Chains], from_safe: int, diagnostics: ChainDiagnostics, count: int | None = None
) -> SamplingInfo:
    actions = sum(group.count for group in groups) if count is None else count
    scored = sum(group.scored for group in groups)
    safe_weight = groups[0].envelope.safe_weight
    return SamplingInfo(
        method="metropolis",
        actions=actions,
        draws=scored,
        scored=scored,
        calls=sum(group.calls for group in groups),
        draws_safe=sum(group.proposed_safe for group in groups),
        taken_safe=from_safe,
        taken_optimized=actions - from_safe,
        safe_weight=safe_weight if 0 < safe_weight < 1 else None,
        chain=diagnostics,
    )
