"""Scores and draws for a round: what policies say of the calibration rows, once for each row.

What is computed here is stored as events before the round that it decides, and read from there by
later rounds and by verification.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tether._core import policy_calls
from tether._core.contexts import labels, take
from tether.control.families import DEFAULT_BUDGET, blend_scores, find_family
from tether.control.log import Proposals
from tether.policies.logs import approximation_of, make_proposals
from tether.policies.mixture import Mixture
from tether.policies.normalizer import settled_normalizer
from tether.policies.policy import picked, positions, shared_actions
from tether.runs.body import Columns, pack
from tether.runs.decide_beta import (
    DENSITY,
    NORMALIZER,
    PATH,
    PLACE,
    SCORE,
    TABLE,
    Evidence,
    check_support,
    needs_normalizer,
)
from tether.runs.log_rows import Contents, cut
from tether.runs.policies import PROBES, Deployed, PathOptimized, Policies, Probe, compare_scores
from tether.runs.state import SAFE, State

MIN_PROPOSALS, MAX_PROPOSALS = 1_000, 100_000
"""Limits of the draws of each policy without contexts; between them, as many as rows."""
MAX_DRAWN_DENSITIES = 500_000
"""Draws times policies in the mixture are at most this, as far as `MIN_PROPOSALS` allows."""
MIN_BLOCKS = 256
"""With fewer contexts than this, each has several times as many draws as a policy's budget."""
PROPOSAL_STREAM = 7919
"""Part of the seed of the draws, so that their stream differs from any of the user's."""
SCORED_AT_ONCE = 1 << 16
"""Models score so many rows at a time."""
PROBED_ROWS = 256
"""How many stored actions the safe policy scores again before a round is calibrated."""


class Scorer(Evidence):
    """Lets policies score the calibration rows that have no scores yet, and draws what it takes.

    They are added to `contents`, a copy; `new` has the events of them, kinds and bodies, which are
    stored before the round.
    """

    def __init__(
        self, known: State, contents: Contents, policies: Policies, candidate: Any, subject: str
    ) -> None:
        approximate, error = approximation_of(candidate)
        given = {"approximate": approximate, "ratio_error": error}
        super().__init__(known, contents.copy(), subject, given)
        self.policies, self.candidate = policies, candidate
        self.new: list[tuple[str, bytes]] = []
        self.contexts, self.actions = contents.rows(self.where)
        self.pair: Any = candidate.pair if isinstance(candidate, PathOptimized) else None
        self.listed = self._listed_actions()
        if self.pair is not None:
            if isinstance(self.contexts, int):
                raise ValueError(
                    f"family {self.pair.family!r} needs contexts, the prompts that are answered: "
                    f"this run has none"
                )
            self.given["log_betas"] = np.asarray(self.pair.log_betas, dtype=np.float64).tolist()
        self._check_policies()
        for name, number in self._needed():
            done = self.contents.scored(name, number)
            for start in range(done, len(self.where), SCORED_AT_ONCE):
                values = self._ask(name, number, slice(start, start + SCORED_AT_ONCE))
                header = {"name": name, "policy": number, "first": start}
                self._keep("scores", header, {"values": values})
        if (drawn := self._draw()) is not None:
            check_support(drawn.log_safe, drawn.log_optimized)
            context = {} if drawn.context is None else {"context": drawn.context}
            self._keep("draws", {}, {**drawn.rows.columns, **context})

    def _keep(self, kind: str, header: dict[str, Any], columns: Columns) -> None:
        """Take in scores or draws, as the events with which they are stored."""
        for start, piece in cut(columns):
            held = {**header, "first": header.get("first", 0) + start}
            self.new.append((kind, pack(held, **piece)))
            self.contents.add(kind, held, piece)

    def probe(self) -> Probe:
        """A few rows with the optimized policy's scores, to recognize it by."""
        contexts, actions = self._rows(slice(PROBES))
        scores = policy_calls.score("optimized", self.candidate, contexts, actions)
        return Probe(contexts, actions, scores)

    def _check_policies(self) -> None:
        """Refuse policies that score stored actions differently than before."""
        for number in self.past:
            if (probe := self._deployed(number).probe) is not None:
                probe.check(f"policy of round {number}", self._optimized(number))
        rows = slice(PROBED_ROWS)
        if self.listed is None:
            scores = self._ask(SCORE, SAFE, rows)
        else:
            scores = picked(self._ask(TABLE, SAFE, rows), self._ask(PLACE, SAFE, rows))
        stored = self.contents.own_scores("log_safe", self.where[rows])
        compare_scores("safe policy", scores, stored)

    def _listed_actions(self) -> Any:
        """All actions, where there are contexts and finitely many of them; sorted, as stored."""
        if isinstance(self.contexts, int):
            return None
        optimized = [self._optimized(number) for number in self.past]
        names = ["safe", "optimized", *(f"round {number}" for number in self.past)]
        shared = shared_actions((self.policies.safe, self.candidate, *optimized), names)
        return None if shared is None else np.sort(shared)  # policies may list them otherwise later

    def _needed(self) -> list[tuple[str, int]]:
        """Which scores the round needs, of which policies."""
        if self.pair is not None:
            return [*((DENSITY, number) for number in self.past), (PATH, self.number)]
        if self.listed is not None:
            policies = SAFE, *self.past, self.number
            return [(PLACE, SAFE), *((TABLE, number) for number in policies)]
        needed = [(SCORE, number) for number in (*self.past, self.number)]
        for number in () if isinstance(self.contexts, int) else self.past:
            unit = self.known.units[number - 1]
            if needs_normalizer(find_family(unit.decision["family"]), unit.level):
                needed.append((NORMALIZER, number))
        return needed

    def _ask(self, name: str, number: int, rows: slice) -> NDArray[Any]:
        """The scores of a policy at some calibration rows."""
        (contexts, actions), kind = self._rows(rows), "optimized" if number else "safe"
        if name == PLACE:
            return positions(self.listed, actions, "safe")
        if name == TABLE:
            shape = len(actions), len(self.listed)
            table = policy_calls.table(kind, self._optimized(number), contexts, self.listed)
            return np.broadcast_to(table, shape)
        if name == PATH:
            return np.asarray(self.pair.path_scores(contexts, actions))
        if name == SCORE:
            return policy_calls.score(kind, self._optimized(number), contexts, actions)
        policy = self.policies.policy(number)
        if name == DENSITY:
            return policy_calls.score("tethered", policy, contexts, actions)
        at_reference = policy_calls.score("reference", policy.safe, contexts, actions)
        blended = blend_scores(self._stored(SCORE, number)[rows], at_reference, policy.blend)
        found = settled_normalizer(policy, contexts, at_reference, blended)
        return np.stack([found.log_psi, found.standard_error], axis=1)

    def _optimized(self, number: int) -> Any:
        if number == SAFE:
            return self.policies.safe
        return self.candidate if number == self.number else self._deployed(number).optimized

    def _deployed(self, number: int) -> Deployed:
        return self.policies.of(self.known.units[number - 1])

    def _rows(self, rows: slice) -> tuple[Any, NDArray[Any]]:
        index = np.arange(len(self.where))[rows]
        return take(self.contexts, index), self.actions[index]

    # ---- draws --------------------------------------------------------------------------------

    def _draw(self) -> Proposals | None:
        """Draws of both policies for the calibration; the same round has the same draws."""
        rng = np.random.default_rng([self.known.given.seed, self.number, PROPOSAL_STREAM])
        counts, contexts = self.counts, take(self.contexts, np.flatnonzero(self.used))
        logged_by = None
        if self.log.has_mixture:
            policies = [self.policies.policy(number) for number in counts]
            logged_by = Mixture(policies, list(counts.values()))
        if self.pair is not None:
            drawn: Proposals = self.pair.make_proposals(contexts, rng, logged_by=logged_by)
            return drawn
        if isinstance(contexts, int):
            most = min(MAX_PROPOSALS, MAX_DRAWN_DENSITIES // len(counts))
            drawn_in, count = 1, max(MIN_PROPOSALS, min(contexts, most))
        else:
            drawn_in, count = self._blocks(contexts)
        reference = self.policies.policy(self.known.reference)
        return make_proposals(reference, self.candidate, drawn_in, count, rng, logged_by=logged_by)

    def _blocks(self, contexts: Any) -> tuple[Any, int]:
        """The distinct contexts, and how many draws each of them has."""
        _, first, repeats = np.unique(labels(contexts), return_index=True, return_counts=True)
        blocks = min(-(-MIN_BLOCKS // len(first)), int(repeats.max()))
        if self.by_who_acted:
            blocks = int(repeats.max())  # every row needs draws of its own
        budget = find_family(self.known.given.family).max_draws or DEFAULT_BUDGET
        return take(contexts, np.sort(first)), blocks * budget

    def find_normalizer(self, policy: Any) -> list[float] | None:
        """Log ψ of what a round serves without contexts, and its error; the policy keeps them."""
        log = self.log
        if log.contextual or not needs_normalizer(policy.family, policy.log_beta):
            return None
        blended = blend_scores(log.log_optimized, log.log_safe, policy.blend)
        policy.remembered = found = settled_normalizer(policy, 1, log.log_safe, blended)
        return [float(found.log_psi[0]), float(found.standard_error[0])]
