"""Accept-reject: proposals are accepted in proportion to the clip kernel over their density.

Every pass proposes only where an action is still missing, and proposes more draws per action as
fewer of them are. So the number of calls grows with the logarithm of the draws while a pass fits in
one batch, and is one per batch beyond. Without contexts and without a budget per action every
accepted draw will do for any action that is missing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tether._core import policy_calls
from tether._core.arrays import Booleans, Contexts, Integers
from tether._core.contexts import length, parts, take
from tether.sampling.envelope import LOG_ACCEPT_TOLERANCE, Envelope
from tether.sampling.policy_pair import DrawLimitError, PolicyPair, SamplingInfo

PROPOSALS_PER_CALL = 1 << 15
"""The largest number of proposals requested from a policy in one call."""
MAX_DRAWS = 100_000
"""Draws for one action after which a sampler gives up."""


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
    method: str = "accept-reject",
) -> tuple[NDArray[Any], SamplingInfo]:
    """Draw actions of the clip policy by accept-reject, one per context.

    The actions are exact draws at the beta of the envelope. If a draw breaks an envelope that was
    learned from other draws, everything accepted so far is discarded, and sampling starts again
    under the tight envelope.

    With a `budget` of draws per action the safe policy acts once it is spent (budgeted clip).
    Without one, a `DrawLimitError` says that an action took more than `max_draws` draws, or all
    together more than `max_draws` for each accepted action and one more. `method` names the sampler
    in the record of the draws.

    Examples
    --------
    >>> from tether import Gaussian
    >>> pair = PolicyPair(Gaussian(0.0), Gaussian(1.0))
    >>> actions, info = accept_reject(pair, 300, np.random.default_rng(0), Envelope.auto(0.0))
    >>> info.actions, round(info.acceptance, 1)
    (300, 0.6)
    """
    if budget is not None and budget > max_draws:
        raise ValueError(
            f"the budget of {budget:,} draws per action is above max_draws, {max_draws:,}"
        )
    sampler = _Sampler(pair, contexts, rng, budget, max_draws)
    try:
        actions = sampler.run(envelope)
    except _BrokenEnvelopeError:  # discard what was accepted under too low an envelope
        actions = sampler.run(Envelope.tight(envelope.log_beta, envelope.safe_weight))
    return actions, SamplingInfo(
        method=method,
        actions=len(actions),
        draws=sum(sampler.drawn),
        scored=sampler.scored,
        calls=sampler.calls,
        draws_safe=sampler.drawn[0],
        fallbacks=sampler.fallbacks,
    )


@dataclass
class _Sampler:
    """Passes of proposals over the rows that still lack an action."""

    pair: PolicyPair
    contexts: Contexts
    rng: np.random.Generator
    budget: int | None
    max_draws: int
    scored: int = 0
    calls: int = 0
    fallbacks: int = 0

    def run(self, envelope: Envelope) -> NDArray[Any]:
        """All the actions, in the order of the contexts."""
        self.envelope = envelope
        self.shared = isinstance(self.contexts, int) and self.budget is None
        self.drawn, self.accepted = [0, 0], [0, 0]  # of the safe, then of the optimized policy
        self.rows: list[Integers] = []
        self.pieces: list[NDArray[Any]] = []
        count = length(self.contexts)
        missing, per_action, repeats = np.arange(count), 0, 1
        limit = self.max_draws if self.budget is None else self.budget
        while len(missing) and per_action < limit:
            chunks = parts(missing, max(1, PROPOSALS_PER_CALL // repeats))
            found = np.concatenate([self._propose_in(chunk, repeats) for chunk in chunks])
            per_action += repeats
            needed = (len(found) * repeats + per_action + 1) // (int(found.sum()) + 1)
            # Draws of a context serve no other: half of what is needed, so that few are wasted.
            wanted = int(1.1 * needed) + 1 if self.shared else needed // 2
            missing = missing[~found]
            fits = PROPOSALS_PER_CALL // max(1, len(missing))
            repeats = max(1, min(wanted, fits, limit - per_action))
            taken = count - len(missing)
            if self.budget is None and sum(self.drawn) > self.max_draws * (taken + 1):
                break
        if len(missing) and self.budget is None:
            where = f"{len(missing)} of {count} "
            where += "action(s)" if self.shared else f"context(s), context {missing[0]} first"
            taken, drawn = count - len(missing), sum(self.drawn)
            raise DrawLimitError(
                f"accept-reject accepted {taken} of {drawn:,} draws (acceptance "
                f"{taken / drawn:.3g}) and gave up on {where} at max_draws = {self.max_draws:,} "
                f"per action"
            )
        self.fallbacks = len(missing)
        for chunk in parts(missing, PROPOSALS_PER_CALL):
            actions = policy_calls.draw("safe", self.pair.safe, self._at(chunk, 1), self.rng)
            self._store(chunk, actions)
            self.calls += 1
        return policy_calls.concatenate_actions(self.pieces, self.rows)

    def _propose_in(self, rows: Integers, repeats: int) -> Booleans:
        """Propose `repeats` times for each of these rows; tell which of them have an action now."""
        draws = self.pair.propose(self.envelope.safe_weight, self._at(rows, repeats), self.rng)
        log_accept = self.envelope.log_accept_probability(draws.log_ratio)
        self.scored += len(log_accept)
        self.calls += 1
        if not self.envelope.always_valid and log_accept.max() > LOG_ACCEPT_TOLERANCE:
            raise _BrokenEnvelopeError
        # −log of a uniform number is exponential.
        accepted = log_accept + self.rng.standard_exponential(len(log_accept)) >= 0
        if self.shared:
            chosen = np.flatnonzero(accepted)[: len(rows)]
            found = np.asarray(np.arange(len(rows)) < len(chosen))
            last = chosen[-1] if found.all() else len(accepted)
            used = np.arange(len(accepted)) <= last
        else:
            table = accepted.reshape(len(rows), repeats)
            found, first = np.asarray(table.any(axis=1)), table.argmax(axis=1)
            chosen = first[found] + repeats * np.flatnonzero(found)
            used = (np.arange(repeats) <= np.where(found, first, repeats)[:, None]).ravel()
        self._store(rows[found], draws.actions[chosen])
        for counts, safe in (
            (self.drawn, draws.from_safe[used]),
            (self.accepted, draws.from_safe[chosen]),
        ):
            counts[0] += int(np.count_nonzero(safe))
            counts[1] += int(np.count_nonzero(~safe))
        self.envelope = self.envelope.adapted(self.drawn, self.accepted)
        return found

    def _at(self, rows: Integers, repeats: int) -> Any:
        if repeats == 1 and len(rows) == length(self.contexts):  # each once: no need to copy
            return self.contexts
        return take(self.contexts, np.repeat(rows, repeats))

    def _store(self, rows: Integers, actions: NDArray[Any]) -> None:
        self.rows.append(rows)
        self.pieces.append(actions)
