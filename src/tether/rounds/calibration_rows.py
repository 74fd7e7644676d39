"""The calibration rows, and the densities of each round's policy at them.

A policy scores a row once, and the scores are kept in the store. A density follows from them with
the round's own beta and normalizer.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tether._core import policy_calls
from tether._core.arrays import Floats
from tether._core.contexts import part
from tether.control.columns import PolicyPath
from tether.control.families import blend_scores
from tether.policies.normalizer import (
    Normalizer,
    density_with_error,
    exact_normalizer,
    settled_normalizer,
)
from tether.policies.policy import Policy, shared_actions
from tether.policies.tables import picked, positions
from tether.rounds.path_pairs import PathOptimized
from tether.rounds.policy_registry import SAFE, DeployedPolicy, compare_scores
from tether.rounds.score_columns import ScoreColumns

SAFE_TABLE, NORMALIZERS, PATH_TABLE = "log_safe_all", "normalizers", "log_path"
"""Names of columns: the safe policy at every action; log ψ and its error in each row's context; the
safe policy, the optimized one and those along their path."""


class Density(NamedTuple):
    """The log-density of a policy at some rows, and its standard error; None where it is exact."""

    log: Floats
    error: Floats | None = None

    @property
    def errors(self) -> Floats:
        """The standard error of each row."""
        return np.zeros(len(self.log)) if self.error is None else self.error


class CalibrationRows:
    """The calibration rows in order, and what each policy makes of them.

    `number` is that of the round that begins, and `candidate` its optimized policy; `deployed` are
    the policies of past rounds that are needed, with those that their betas are measured against.
    `log_optimized` is what the policies of past rounds stated of their own actions: the scores of
    the optimized policy or, along a path, the density of what was served.
    """

    def __init__(
        self,
        number: int,
        safe: Policy,
        candidate: Policy,
        contexts: Any,
        actions: NDArray[Any],
        log_safe: Floats,
        served: NDArray[Any],
        log_optimized: Floats,
        deployed: Mapping[int, DeployedPolicy],
        scores: ScoreColumns,
    ) -> None:
        self.number, self.safe, self.candidate = number, safe, candidate
        self.contexts, self.actions, self.served = contexts, actions, served
        self.deployed, self.scores = deployed, scores
        self.contextual = not isinstance(contexts, int)
        policies = (safe, candidate, *(past.optimized for past in deployed.values()))
        names = ["safe", "optimized", *(f"that of round {past}" for past in deployed)]
        self.all_actions = shared_actions(policies, names) if self.contextual else None
        self._log_safe, self._log_optimized = log_safe, log_optimized
        self._width = None if self.all_actions is None else len(self.all_actions)
        self.name = "log_optimized" if self.all_actions is None else "log_optimized_all"
        self.policy_path: PolicyPath | None = None
        if isinstance(candidate, PathOptimized):
            self.name = "log_tethered"
            self._score_path(candidate)
        else:
            self._score()
            self.candidate_scores = self._read(number, 0, len(self))
        self.safe_density = Density(self._read_safe())

    def __len__(self) -> int:
        return len(self.actions)

    @property
    def shape(self) -> tuple[int, ...]:
        """Of a policy's scores: rows, or rows × actions."""
        return (len(self),) if self._width is None else (len(self), self._width)

    @property
    def columns(self) -> list[tuple[str, int]]:
        """The columns of scores that are needed: their names, and the rounds of the policies."""
        of_safe = [] if self.all_actions is None else [(SAFE_TABLE, SAFE)]
        return of_safe + [(self.name, each) for each in sorted({*self.deployed, self.number})]

    def at_taken(self, table: Floats) -> Floats:
        """Of a column or a table of scores, those of the actions that were taken."""
        return self._at_taken(table, self.actions)

    def _at_taken(self, table: Floats, actions: NDArray[Any]) -> Floats:
        if self.all_actions is None:
            return table
        return picked(table, positions(self.all_actions, actions))

    def estimates(self, number: int) -> bool:
        """Whether a round's policy has a normalizer that is estimated in each row's context."""
        if self.policy_path is not None:
            return False
        needed = self.deployed[number].mixing.needs_normalizer
        return self.contextual and self.all_actions is None and needed

    def densities(self) -> Iterator[tuple[int, Density]]:
        """The density of the policy of each deployed round at all rows, ascending by round."""
        at_rows, numbers = {SAFE: self.safe_density}, self.deployed.keys()
        scores = self.scores.read(self.name, numbers, 0, len(self), self._width)
        references = {past.reference for past in self.deployed.values()}
        for number in sorted(numbers):
            own_scores, reference = scores.pop(number), at_rows[self.deployed[number].reference]
            normalizer = None
            if self.estimates(number):
                normalizer = self._normalizer(number, own_scores, reference)
            density = self._density(number, own_scores, reference, normalizer)
            if number in references:
                at_rows[number] = density
            yield number, density

    def _density(
        self, number: int, scores: Floats, reference: Density, normalizer: Normalizer | None
    ) -> Density:
        if self.policy_path is not None:  # what is kept are densities already
            return Density(scores)
        deployed = self.deployed[number]
        mixing, log_reference = deployed.mixing, reference.log
        family, log_beta, blend = mixing
        both = (log_reference, blend_scores(scores, log_reference, blend))
        if not mixing.needs_normalizer:
            return Density(family.log_density(*both, log_beta, 0.0))
        if self.all_actions is not None:
            log_psi = exact_normalizer(*both, family, log_beta).log_psi[:, None]
            return Density(family.log_density(*both, log_beta, log_psi))
        normalizer = normalizer or deployed.normalizer
        assert normalizer is not None  # without contexts it is estimated when a round begins
        density, error = density_with_error(family, *both, log_beta, normalizer)
        return Density(density, np.hypot(error, reference.errors))

    def _normalizer(self, number: int, scores: Floats, reference: Density) -> Normalizer:
        """The normalizers of a round's policy in the contexts of all rows; new ones estimated."""

        def compute(_: int, rows: slice) -> Floats:
            policy = self.deployed[number].tethered
            at_reference = reference.log[rows]
            blended = blend_scores(scores[rows], at_reference, policy.blend)
            contexts = part(self.contexts, rows.start, rows.stop)
            found = settled_normalizer(policy, contexts, at_reference, blended)
            return np.stack([found.log_psi, found.standard_error], axis=1)

        self.scores.complete(NORMALIZERS, [number], len(self), compute)
        kept = self.scores.read(NORMALIZERS, [number], 0, len(self), 2)[number]
        return Normalizer(*kept.T)

    def _score(self) -> None:
        """Let every policy score the rows that it has not scored yet."""
        for name, number in self.columns:
            self.scores.complete(name, [number], len(self), self._scores_of)

    def _score_path(self, candidate: PathOptimized) -> None:
        """Let past policies score the rows that they have not scored yet, and the path all."""
        pair = candidate.pair
        self.scores.complete(self.name, sorted(self.deployed), len(self), self._densities_of)

        def along_path(_: int, rows: slice) -> Floats:
            contexts = part(self.contexts, rows.start, rows.stop)
            return pair.path_scores(contexts, self.actions[rows])

        self.scores.complete(PATH_TABLE, [self.number], len(self), along_path)
        width = 2 + len(pair.log_betas)
        table = self.scores.read(PATH_TABLE, [self.number], 0, len(self), width)[self.number]
        self.candidate_scores = table[:, 1]
        self.policy_path = PolicyPath(pair.family, pair.log_betas, table[:, 2:])

    def _densities_of(self, number: int, rows: slice) -> Floats:
        """The densities of what a past round served."""
        contexts = part(self.contexts, rows.start, rows.stop)
        policy = self.deployed[number].policy
        taken = policy_calls.score("tethered", policy, contexts, self.actions[rows])
        self._check_unchanged(number, taken, rows)
        return taken

    def _scores_of(self, number: int, rows: slice) -> Floats:
        contexts = part(self.contexts, rows.start, rows.stop)
        scores = self._scored_by(number, contexts, self.actions[rows])
        self._check_unchanged(number, scores, rows)
        return scores

    def _scored_by(self, number: int, contexts: Any, actions: NDArray[Any]) -> Floats:
        """The scores that a policy gives to some rows, without a look at what is stored."""
        kind, policy = self._kind(number), self.candidate
        if number != self.number:
            policy = self.safe if number == SAFE else self.deployed[number].optimized
        if self._width is None:
            return policy_calls.score(kind, policy, contexts, actions)
        return np.broadcast_to(
            policy_calls.table(kind, policy, contexts), (len(actions), self._width)
        )

    def _check_unchanged(self, number: int, scores: Floats, rows: slice) -> None:
        """Refuse a policy that scores its own actions differently than when it took them."""
        known = self._log_safe[rows] if number == SAFE else self._log_optimized[rows]
        own = ~np.isnan(known) & ((self.served[rows] == number) | (number == SAFE))
        if own.any():
            name = "safe" if number == SAFE else f"policy of round {number}"
            taken = self._at_taken(scores, self.actions[rows])
            compare_scores(name, taken[own], known[own], self._kind(number))

    @staticmethod
    def _kind(number: int) -> str:
        return "safe" if number == SAFE else "optimized"

    def _read_safe(self) -> Floats:
        if self.all_actions is None:
            return self._log_safe
        return self.scores.read(SAFE_TABLE, [SAFE], 0, len(self), self._width)[SAFE]

    def _read(self, number: int, start: int, stop: int) -> Floats:
        return self.scores.read(self.name, [number], start, stop, self._width)[number]
