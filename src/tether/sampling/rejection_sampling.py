"""Accept-reject: proposals are accepted in proportion to the clip kernel over their density.

There are two loops, both in batches. Without contexts, the actions are the first accepted draws.
With contexts, or with a draw budget per action, every pass proposes only in the contexts that still
lack an action, and proposes more draws per context as fewer contexts remain. So the number of calls
grows with the logarithm of the draws while a pass fits in one batch, and is one per batch beyond.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tether._core import policy_calls
from tether._core.contexts import length, take
from tether._core.types import Booleans, Contexts, Integers
from tether.sampling.envelope import LOG_ACCEPT_TOLERANCE, Envelope
from tether.sampling.errors import DrawLimitError
from tether.sampling.policy_pair import PolicyPair, ScoredDraws
from tether.sampling.sampling_info import SamplingInfo

PROPOSALS_PER_CALL = 1 << 15
"""The largest number of proposals requested from a policy in one call."""
MAX_DRAWS = 100_000
"""Draws for one action after which a sampler gives up."""


@dataclass
class DrawCounts:
    """Counts so far: the safe policy's first, the optimized policy's second."""

    drawn: list[int] = field(default_factory=lambda: [0, 0])
    accepted: list[int] = field(default_factory=lambda: [0, 0])
    scored: int = 0
    calls: int = 0

    def add(self, used: Booleans, accepted: Booleans, draws: ScoredDraws) -> None:
        """Count one batch: which of its draws were used at all, and which were accepted."""
        for counts, selected in ((self.drawn, used), (self.accepted, accepted)):
            safe = int(np.count_nonzero(selected & draws.from_safe))
            counts[0] += safe
            counts[1] += int(np.count_nonzero(selected)) - safe
        self.scored += len(used)
        self.calls += 1

    def info(self, method: str, actions: int, fallbacks: int, envelope: Envelope) -> SamplingInfo:
        """The record for the user."""
        mixed = envelope.adaptive or 0 < envelope.safe_weight < 1
        return SamplingInfo(
            method=method,
            actions=actions,
            draws=sum(self.drawn),
            scored=self.scored,
            calls=self.calls,
            draws_safe=self.drawn[0],
            taken_safe=self.accepted[0],
            taken_optimized=self.accepted[1],
            fallbacks=fallbacks,
            safe_weight=envelope.safe_weight if mixed else None,
        )


class _BrokenEnvelopeError(Exception):
    """A draw lies above an envelope that was learned from other draws."""


def accept_reject(
    pair: PolicyPair,
    contexts: Contexts,
    rng: np.random.Generator,
    envelope: Envelope,
    *,
    budget: int | None = None,
    max_draws: int = MAX_DRAWS,
    batch_size: int = PROPOSALS_PER_CALL,
    method: str = "accept-reject",
) -> tuple[NDArray[Any], SamplingInfo]:
    """Draw actions of the clip policy by accept-reject, one per context.

    The actions are exact draws at the beta of the envelope. If a draw breaks an envelope that was
    learned from other draws, everything accepted so far is discarded, and sampling starts again
    under the tight envelope.

    Parameters
    ----------
    pair : PolicyPair
        The safe and the optimized policy.
    contexts : array-like or int
        One row per context, or the number of actions where there are no contexts.
    rng : numpy.random.Generator
        Source of randomness.
    envelope : Envelope
        The proposal and its envelope constant.
    budget : int, optional
        Draws per action after which the safe policy acts instead (budgeted clip). None rejects
        without a budget.
    max_draws : int, default 100_000
        Without a budget: the limit of draws for one action. The draws in all may not exceed
        `max_draws` times one more than the number of accepted actions either.
    batch_size : int, default 32_768
        The largest number of proposals requested in one call.
    method : str, default "accept-reject"
        Name of the method in the record.

    Returns
    -------
    actions : ndarray
        One action per context.
    info : SamplingInfo
        Where the actions came from and how many draws they took.

    Raises
    ------
    DrawLimitError
        If an action takes more than `max_draws` draws.
    ValueError
        If `budget` is above `max_draws`, or a policy returns invalid actions or scores.

    Examples
    --------
    >>> from tether import Gaussian
    >>> pair = PolicyPair(Gaussian(0.0), Gaussian(1.0))
    >>> actions, info = accept_reject(pair, 3, np.random.default_rng(0), Envelope.auto(0.0))
    >>> info.actions, info.draws
    (3, 5)
    """
    if budget is not None and budget > max_draws:
        raise ValueError(
            f"the budget of {budget:,} draws per action is above max_draws, {max_draws:,}"
        )
    counts = DrawCounts()
    while True:
        try:
            if isinstance(contexts, int) and budget is None:
                actions, envelope = _sample_without_contexts(
                    pair, contexts, rng, envelope, max_draws, batch_size, counts
                )
                return actions, counts.info(method, contexts, 0, envelope)
            sampler = _ContextSampler(pair, contexts, rng, envelope, counts, batch_size)
            actions = sampler.run(budget, max_draws)
            info = counts.info(method, len(actions), sampler.fallbacks, sampler.envelope)
            return actions, info
        except _BrokenEnvelopeError:  # discard what was accepted under too low an envelope
            counts = DrawCounts(scored=counts.scored, calls=counts.calls)
            envelope = Envelope.tight(envelope.log_beta, envelope.safe_weight)


def _accept(draws: ScoredDraws, envelope: Envelope, rng: np.random.Generator) -> Booleans:
    """Which draws are accepted; raises if one lies above the envelope."""
    log_accept = envelope.log_accept_probability(draws.log_ratio)
    if not envelope.always_valid and log_accept.max() > LOG_ACCEPT_TOLERANCE:
        raise _BrokenEnvelopeError
    log_accept += rng.standard_exponential(len(log_accept))  # −log of a uniform is exponential
    return np.asarray(log_accept >= 0)


def _sample_without_contexts(
    pair: PolicyPair,
    count: int,
    rng: np.random.Generator,
    envelope: Envelope,
    max_draws: int,
    batch_size: int,
    counts: DrawCounts,
) -> tuple[NDArray[Any], Envelope]:
    """The first `count` accepted draws, and the envelope that was adapted to them."""
    pieces: list[NDArray[Any]] = []
    found = 0
    while found < count:
        rate = (found + 1) / (sum(counts.drawn) + 1)
        wanted = int(1.1 * (count - found) / rate) + 16
        draws = pair.propose(envelope.safe_weight, min(wanted, batch_size), rng)
        accepted = _accept(draws, envelope, rng)
        rows = np.flatnonzero(accepted)[: count - found]
        used = np.ones(len(accepted), dtype=np.bool_)
        if found + len(rows) == count:
            used[rows[-1] + 1 :] = False
            accepted &= used
        counts.add(used, accepted, draws)
        pieces.append(draws.actions[rows])
        found += len(rows)
        if found < count and sum(counts.drawn) > max_draws * (found + 1):
            message = _draw_limit_message(sum(counts.drawn), found, max_draws, f"{count} action(s)")
            raise DrawLimitError(message)
        envelope = envelope.adapted(counts.drawn, counts.accepted)
    return policy_calls.concatenate_actions(pieces), envelope


class _ContextSampler:
    """Passes of proposals over the contexts that still lack an action."""

    def __init__(
        self,
        pair: PolicyPair,
        contexts: Contexts,
        rng: np.random.Generator,
        envelope: Envelope,
        counts: DrawCounts,
        batch_size: int,
    ) -> None:
        self.pair, self.contexts, self.rng, self.envelope = pair, contexts, rng, envelope
        self.counts, self.batch_size = counts, batch_size
        self.fallbacks = 0
        self.rows: list[Integers] = []
        self.pieces: list[NDArray[Any]] = []

    def run(self, budget: int | None, max_draws: int) -> NDArray[Any]:
        """All the actions, in the order of the contexts."""
        count = length(self.contexts)
        missing = np.arange(count)
        draws_so_far, repeats = 0, 1
        limit = max_draws if budget is None else budget
        while len(missing) and draws_so_far < limit:
            chunks = self._chunks(missing, repeats)
            accepted = np.concatenate([self._propose_in(chunk, repeats) for chunk in chunks])
            draws_so_far += repeats
            # Half as many draws as are expected to be needed, so that few of them are wasted.
            expected = len(accepted) * repeats + draws_so_far + 1
            half = expected // (2 * (int(np.count_nonzero(accepted)) + 1))
            missing = missing[~accepted]
            repeats_in_batch = self.batch_size // max(1, len(missing))
            repeats = max(1, min(half, repeats_in_batch, limit - draws_so_far))
            found = count - len(missing)
            drawn = sum(self.counts.drawn)
            if budget is None and len(missing) and drawn > max_draws * (found + 1):
                break
        if len(missing) and budget is None:
            where = f"{len(missing)} of {count} context(s), context {missing[0]} first"
            found = count - len(missing)
            message = _draw_limit_message(sum(self.counts.drawn), found, max_draws, where)
            raise DrawLimitError(message, missing)
        if len(missing):
            self._fall_back(missing)
        drawn_actions = policy_calls.concatenate_actions(self.pieces)
        actions = np.empty_like(drawn_actions)
        actions[np.concatenate(self.rows)] = drawn_actions
        return actions

    def _propose_in(self, rows: Integers, repeats: int) -> Booleans:
        """Propose `repeats` times in each of these contexts; says in which one was accepted."""
        if repeats == 1:
            contexts = self._contexts_at(rows)
        else:
            contexts = take(self.contexts, np.repeat(rows, repeats))
        draws = self.pair.propose(self.envelope.safe_weight, contexts, self.rng)
        accepted = _accept(draws, self.envelope, self.rng).reshape(len(rows), repeats)
        any_accepted, first = accepted.any(axis=1), accepted.argmax(axis=1)
        chosen = first[any_accepted] + repeats * np.flatnonzero(any_accepted)
        self._store(rows[any_accepted], draws.actions[chosen])
        used = np.arange(repeats) <= np.where(any_accepted, first, repeats)[:, None]
        first_accepted = np.zeros(accepted.size, dtype=np.bool_)
        first_accepted[chosen] = True
        self.counts.add(used.ravel(), first_accepted, draws)
        self.envelope = self.envelope.adapted(self.counts.drawn, self.counts.accepted)
        return np.asarray(any_accepted)

    def _fall_back(self, missing: Integers) -> None:
        """Let the safe policy act where the budget is exhausted."""
        self.fallbacks = len(missing)
        for chunk in self._chunks(missing, 1):
            contexts = self._contexts_at(chunk)
            self._store(chunk, policy_calls.draw("safe", self.pair.safe, contexts, self.rng))
            self.counts.calls += 1

    def _chunks(self, missing: Integers, repeats: int) -> Iterator[Integers]:
        size = max(1, self.batch_size // repeats)
        return (missing[start : start + size] for start in range(0, len(missing), size))

    def _contexts_at(self, rows: Integers) -> Any:
        every_context = len(rows) == length(self.contexts)  # each once: no need to copy
        return self.contexts if every_context else take(self.contexts, rows)

    def _store(self, rows: Integers, actions: NDArray[Any]) -> None:
        self.rows.append(rows)
        self.pieces.append(actions)


def _draw_limit_message(drawn: int, accepted: int, max_draws: int, where: str) -> str:
    return (
        f"accept-reject accepted {accepted} of {drawn:,} draws (acceptance "
        f"{accepted / drawn:.3g}) and gave up on {where} at max_draws = {max_draws:,} per action. "
        f"The policies hardly overlap at this beta: use family 'mix' or a budgeted clip, or raise "
        f"max_draws"
    )
