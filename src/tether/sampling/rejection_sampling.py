"""Accept-reject: draws are kept in proportion to the clip kernel over what proposed them.

Two loops, both in batches. Without contexts, actions are the first so many draws that are kept.
With contexts, or with a budget for each action, every round proposes only where an action is still
missing, and more of them at a time as fewer are missing, so that policies are asked rarely: as
often as the logarithm of the draws says while a round fits a batch, and once a batch otherwise.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tether._core import policy_calls
from tether._core.contexts import length, take
from tether.sampling.envelope import SLACK, Proposal
from tether.sampling.errors import CapError
from tether.sampling.info import Info
from tether.sampling.policy_pair import Batch, Pair

BATCH = 1 << 15
"""The most proposals that a policy is asked for at once."""
CAP = 100_000
"""Draws for one action after which accept-reject gives up."""


@dataclass
class Tally:
    """Counts so far; safe first, optimized second."""

    drawn: list[int] = field(default_factory=lambda: [0, 0])
    kept: list[int] = field(default_factory=lambda: [0, 0])
    scored: int = 0
    calls: int = 0

    def add(self, used: NDArray[np.bool_], kept: NDArray[np.bool_], batch: Batch) -> None:
        """Count one batch: which of its draws were used at all, and which were kept."""
        for counts, which in ((self.drawn, used), (self.kept, kept)):
            safe = int(np.count_nonzero(which & batch.from_safe))
            counts[0] += safe
            counts[1] += int(np.count_nonzero(which)) - safe
        self.scored += len(used)
        self.calls += 1

    def info(self, method: str, actions: int, fallbacks: int, proposal: Proposal) -> Info:
        """The record for the user."""
        mixed = proposal.adaptive or 0 < proposal.weight < 1
        return Info(
            method=method,
            actions=actions,
            draws=sum(self.drawn),
            scored=self.scored,
            calls=self.calls,
            draws_safe=self.drawn[0],
            taken_safe=self.kept[0],
            taken_optimized=self.kept[1],
            fallbacks=fallbacks,
            weight=proposal.weight if mixed else None,
        )


class _BrokenEnvelopeError(Exception):
    """A draw that an envelope learned from other draws does not cover."""


def accept_reject(
    pair: Pair,
    contexts: Any,
    rng: np.random.Generator,
    proposal: Proposal,
    *,
    budget: int | None = None,
    cap: int = CAP,
    batch: int = BATCH,
    method: str = "accept-reject",
) -> tuple[NDArray[Any], Info]:
    """Actions of the clip policy at the proposal's beta, one in each context.

    With a budget, an action still missing after that many draws is the safe policy's instead.
    Without one, an action that takes more than `cap` draws is an error that says what was seen, and
    so are more draws in all than `cap` for each action found and one more.
    """
    if budget is not None and budget > cap:
        raise ValueError(f"the budget of {budget:,} draws an action is above cap, {cap:,}")
    tally = Tally()
    while True:
        try:
            if isinstance(contexts, int) and budget is None:
                actions, proposal = _stream(pair, contexts, rng, proposal, cap, batch, tally)
                return actions, tally.info(method, contexts, 0, proposal)
            rounds = _Rounds(pair, contexts, rng, proposal, tally, batch)
            actions = rounds.run(budget, cap)
            return actions, tally.info(method, len(actions), rounds.fallbacks, rounds.proposal)
        except _BrokenEnvelopeError:  # what was kept under too low an envelope is thrown away
            tally = Tally(scored=tally.scored, calls=tally.calls)
            proposal = Proposal.tight(proposal.log_beta, proposal.weight)


def _keep(batch: Batch, proposal: Proposal, rng: np.random.Generator) -> NDArray[np.bool_]:
    log_accept = proposal.log_accept(batch.log_ratio)
    if not proposal.assured and log_accept.max() > SLACK:
        raise _BrokenEnvelopeError
    log_accept += rng.standard_exponential(len(log_accept))  # log u is minus an exponential
    return np.asarray(log_accept >= 0)


def _stream(
    pair: Pair,
    count: int,
    rng: np.random.Generator,
    proposal: Proposal,
    cap: int,
    most: int,
    tally: Tally,
) -> tuple[NDArray[Any], Proposal]:
    pieces: list[NDArray[Any]] = []
    found = 0
    while found < count:
        rate = (found + 1) / (sum(tally.drawn) + 1)
        wanted = int(1.1 * (count - found) / rate) + 16
        batch = pair.propose(proposal.weight, min(wanted, most), rng)
        kept = _keep(batch, proposal, rng)
        place = np.flatnonzero(kept)[: count - found]
        used = np.ones(len(kept), dtype=np.bool_)
        if found + len(place) == count:
            used[place[-1] + 1 :] = False
            kept &= used
        tally.add(used, kept, batch)
        pieces.append(batch.actions[place])
        found += len(place)
        if found < count and sum(tally.drawn) > cap * (found + 1):
            raise CapError(_gave_up(sum(tally.drawn), found, cap, f"{count} action(s)"))
        proposal = proposal.after(tally.drawn, tally.kept)
    return policy_calls.concatenate_actions(pieces), proposal


class _Rounds:
    """Rounds of proposals in the contexts where an action is still missing."""

    def __init__(
        self,
        pair: Pair,
        contexts: Any,
        rng: np.random.Generator,
        proposal: Proposal,
        tally: Tally,
        most: int,
    ) -> None:
        self.pair, self.contexts, self.rng, self.proposal = pair, contexts, rng, proposal
        self.tally, self.most = tally, most
        self.fallbacks = 0
        self.places: list[NDArray[np.int64]] = []
        self.pieces: list[NDArray[Any]] = []

    def run(self, budget: int | None, cap: int) -> NDArray[Any]:
        """All the actions, in the order of the contexts."""
        count = length(self.contexts)
        missing = np.arange(count)
        tries, times = 0, 1
        limit = cap if budget is None else budget
        while len(missing) and tries < limit:
            chunks = self._chunks(missing, times)
            hit = np.concatenate([self._round(chunk, times) for chunk in chunks])
            tries += times
            # Half as many draws as it should take, so that few of them are in vain.
            half = (len(hit) * times + tries + 1) // (2 * (int(np.count_nonzero(hit)) + 1))
            missing = missing[~hit]
            most = self.most // max(1, len(missing))
            times = max(1, min(half, most, limit - tries))
            found = count - len(missing)
            if budget is None and len(missing) and sum(self.tally.drawn) > cap * (found + 1):
                break
        if len(missing) and budget is None:
            seen = f"{len(missing)} of {count} context(s), context {missing[0]} first"
            said = _gave_up(sum(self.tally.drawn), count - len(missing), cap, seen)
            raise CapError(said, missing)
        if len(missing):
            self.fallbacks = len(missing)
            for chunk in self._chunks(missing, 1):
                self._put(
                    chunk, policy_calls.draw("safe", self.pair.safe, self._at(chunk), self.rng)
                )
                self.tally.calls += 1
        drawn = policy_calls.concatenate_actions(self.pieces)
        actions = np.empty_like(drawn)
        actions[np.concatenate(self.places)] = drawn
        return actions

    def _round(self, place: NDArray[np.int64], times: int) -> NDArray[np.bool_]:
        """Several draws in each of some contexts; says in which one was kept."""
        asked = self._at(place) if times == 1 else take(self.contexts, np.repeat(place, times))
        batch = self.pair.propose(self.proposal.weight, asked, self.rng)
        kept = _keep(batch, self.proposal, self.rng).reshape(len(place), times)
        hit, first = kept.any(axis=1), kept.argmax(axis=1)
        chosen = first[hit] + times * np.flatnonzero(hit)
        self._put(place[hit], batch.actions[chosen])
        used = np.arange(times) <= np.where(hit, first, times)[:, None]
        kept_one = np.zeros(kept.size, dtype=np.bool_)
        kept_one[chosen] = True
        self.tally.add(used.ravel(), kept_one, batch)
        self.proposal = self.proposal.after(self.tally.drawn, self.tally.kept)
        return np.asarray(hit)

    def _chunks(self, missing: NDArray[np.int64], times: int) -> Iterator[NDArray[np.int64]]:
        size = max(1, self.most // times)
        return (missing[start : start + size] for start in range(0, len(missing), size))

    def _at(self, place: NDArray[np.int64]) -> Any:
        whole = len(place) == length(self.contexts)  # every context once: no need to copy
        return self.contexts if whole else take(self.contexts, place)

    def _put(self, place: NDArray[np.int64], actions: NDArray[Any]) -> None:
        self.places.append(place)
        self.pieces.append(actions)


def _gave_up(drawn: int, found: int, cap: int, where: str) -> str:
    return (
        f"accept-reject kept {found} of {drawn:,} draws (acceptance {found / drawn:.3g}) and gave "
        f"up on {where} at its cap of {cap:,} draws an action. The policies hardly overlap at this "
        f"beta: use family 'mix', a budgeted clip, or raise cap"
    )
