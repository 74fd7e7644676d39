"""Scores and draws for a round: what policies say of the calibration rows, once for each row.

What is computed here is stored as events before the round that it decides, and read from there by
later rounds and by verification.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tether._core import policy_calls
from tether._core.arrays import Floats
from tether._core.contexts import labels, take
from tether.control.families import DEFAULT_BUDGET, blend_scores, find_family
from tether.control.log import Log, Proposals
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
    check_support,
    make_log,
    needs_normalizer,
    past_rounds,
    rows_in_use,
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


class Scorer:
    """Lets policies score the calibration rows that have no scores yet, and draws what it takes.

    They are added to `contents`, a copy; `new` has the events of them, kinds and bodies, which are
    stored with the round. `log` is that of the round, and `given` what its candidate states of
    itself.
    """

    def __init__(
        self, known: State, contents: Contents, policies: Policies, candidate: Any
    ) -> None:
        self.known, self.policies, self.in_use = known, policies, rows_in_use(known)
        self.candidate, self.contents = candidate, contents.copy()
        self.number, self.where = len(known.units) + 1, known.calibration_rows
        self.new: list[tuple[str, bytes]] = []
        self.contexts, self.actions = contents.rows(self.where)
        approximate, error = approximation_of(candidate)
        self.given: dict[str, Any] = {"approximate": approximate, "ratio_error": error}
        past = past_rounds(known, self.in_use)
        if isinstance(candidate, PathOptimized):
            self._check_policies(past, None)
            self._complete_path(candidate.pair, past)
        else:
            listed = self._known_actions(past)
            self._check_policies(past, listed)
            self._complete(past, listed)
        self.log = make_log(known, self.contents, self.number, self.in_use, self.given)
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

    def _complete(self, past: list[int], listed: NDArray[Any] | None) -> None:
        """Score what is missing for the round that begins."""
        numbers, name = [*past, self.number], SCORE
        if listed is not None:
            place = positions(listed, self.actions, "safe")
            self._add(PLACE, SAFE, lambda rows: place[rows])
            numbers, name = [SAFE, *numbers], TABLE
        for number in numbers:
            self._add(name, number, lambda rows, who=number: self._score(who, listed, rows))
        if isinstance(self.contexts, int) or listed is not None:
            return
        for number in past:
            unit = self.known.units[number - 1]
            if needs_normalizer(find_family(unit.decision["family"]), unit.level):
                self._add(NORMALIZER, number, lambda rows, who=number: self._normalizer(who, rows))

    def probe(self) -> Probe:
        """A few rows with the optimized policy's scores, to recognize it by."""
        contexts, actions = self._rows(slice(0, min(PROBES, len(self.where))))
        scores = policy_calls.score("optimized", self.candidate, contexts, actions)
        return Probe(contexts, actions, scores)

    def _check_policies(self, past: list[int], known: NDArray[Any] | None) -> None:
        """Refuse policies that score stored actions differently than before."""
        for number in past:
            if (probe := self._deployed(number).probe) is not None:
                probe.check(f"policy of round {number}", self._optimized(number))
        rows = slice(0, min(PROBED_ROWS, len(self.where)))
        scores = self._score(SAFE, known, rows)
        if known is not None:
            scores = picked(scores, positions(known, self.actions[rows], "safe"))
        stored = self.contents.own_scores("log_safe", self.where[rows])
        compare_scores("safe policy", scores, stored)

    def _known_actions(self, past: list[int]) -> NDArray[Any] | None:
        """All actions, where there are contexts and finitely many of them."""
        if isinstance(self.contexts, int):
            return None
        optimized = [self._optimized(number) for number in past]
        policies = (self.policies.safe, self.candidate, *optimized)
        return shared_actions(policies, ["safe", "optimized", *(f"round {k}" for k in past)])

    def _optimized(self, number: int) -> Any:
        if number == SAFE:
            return self.policies.safe
        if number == self.number:
            return self.candidate
        return self._deployed(number).optimized

    def _deployed(self, number: int) -> Deployed:
        return self.policies.of(self.known.units[number - 1])

    def _add(self, name: str, policy: int, compute: Any) -> None:
        count = len(self.where)
        for start in range(self.contents.scored(name, policy), count, SCORED_AT_ONCE):
            rows = slice(start, min(start + SCORED_AT_ONCE, count))
            header = {"name": name, "policy": policy, "first": start}
            self._keep("scores", header, {"values": np.asarray(compute(rows))})

    def _score(self, number: int, known: NDArray[Any] | None, rows: slice) -> Floats:
        policy, kind = self._optimized(number), "safe" if number == SAFE else "optimized"
        contexts, actions = self._rows(rows)
        if known is None:
            return policy_calls.score(kind, policy, contexts, actions)
        shape = len(actions), len(known)
        return np.broadcast_to(policy_calls.table(kind, policy, contexts), shape)

    def _normalizer(self, number: int, rows: slice) -> Floats:
        """Log ψ of a past round's policy in the contexts of some rows, and its error."""
        policy, (contexts, actions) = self.policies.policy(number), self._rows(rows)
        reference = self.policies.policy(self.known.units[number - 1].reference)
        at_reference = policy_calls.score("reference", reference, contexts, actions)
        scores = self.contents.scores(SCORE, number, len(self.where))[rows]
        blended = blend_scores(scores, at_reference, policy.blend)
        found = settled_normalizer(policy, contexts, at_reference, blended)
        return np.stack([found.log_psi, found.standard_error], axis=1)

    def _complete_path(self, pair: Any, past: list[int]) -> None:
        if isinstance(self.contexts, int):
            raise ValueError(
                f"family {pair.family!r} needs contexts, the prompts that are answered: this run "
                f"has none"
            )
        for number in past:
            self._add(DENSITY, number, lambda rows, who=number: self._density(who, rows))
        self._add(PATH, self.number, lambda rows: pair.path_scores(*self._rows(rows)))
        self.given["log_betas"] = np.asarray(pair.log_betas, dtype=np.float64).tolist()

    def _density(self, number: int, rows: slice) -> Floats:
        return policy_calls.score("tethered", self.policies.policy(number), *self._rows(rows))

    def _rows(self, rows: slice) -> tuple[Any, NDArray[Any]]:
        index = np.arange(rows.start, rows.stop)
        return take(self.contexts, index), self.actions[index]

    # ---- draws --------------------------------------------------------------------------------

    def _draw(self) -> Proposals | None:
        """Draws of both policies for the calibration; the same round has the same draws."""
        rng = np.random.default_rng([self.known.given.seed, self.number, PROPOSAL_STREAM])
        counts, contexts = self.in_use.counts, take(self.contexts, np.flatnonzero(self.in_use.used))
        logged_by = None
        if self.log.has_mixture:
            policies = [self.policies.policy(number) for number in counts]
            logged_by = Mixture(policies, list(counts.values()))
        if isinstance(self.candidate, PathOptimized):
            drawn: Proposals = self.candidate.pair.make_proposals(
                contexts, rng, logged_by=logged_by
            )
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
        settings = self.known.given
        _, first, repeats = np.unique(labels(contexts), return_index=True, return_counts=True)
        blocks = min(-(-MIN_BLOCKS // len(first)), int(repeats.max()))
        if settings.confidence is not None or settings.rule == "promise":
            blocks = int(repeats.max())  # every row needs draws of its own
        budget = find_family(settings.family).max_draws or DEFAULT_BUDGET
        return take(contexts, np.sort(first)), blocks * budget


def find_normalizer(policy: Any, log: Log) -> list[float] | None:
    """Log ψ of what a round serves without contexts, and its error; the policy keeps them."""
    if log.contextual or not needs_normalizer(policy.family, policy.log_beta):
        return None
    blended = blend_scores(log.log_optimized, log.log_safe, policy.blend)
    policy.remember(found := settled_normalizer(policy, 1, log.log_safe, blended))
    return [float(found.log_psi[0]), float(found.standard_error[0])]
