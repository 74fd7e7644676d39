"""From stored rows to the log of a calibration: every row under every policy that was deployed.

Row i counts with its density under the mixture of those policies, each weighted by how many of the
rows it produced and taken with its own beta and normalizer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tether._core import policy_calls
from tether._core.contexts import labels, part, take
from tether._core.types import Floats
from tether.control.family import Family
from tether.control.log import Log
from tether.control.mixture_density import mixture_log_density
from tether.policies.categorical import picked, positions
from tether.policies.mixture import shared_actions
from tether.policies.normalizer import exact_normalizer
from tether.policies.tethered import Tethered
from tether.rounds.fingerprint import same_scores
from tether.rounds.score_columns import Scores

SAFE = 0
"""The number that stands for the safe policy where a round's number stands for its policy."""


@dataclass(frozen=True)
class Deployed:
    """The tethered policy of a past round, and what it is made of."""

    optimized: Any
    policy: Tethered
    reference: int
    """The round whose policy its beta is measured against; 0 is the safe policy."""
    log_psi: float | None
    """Its normalizer, where there are no contexts."""
    probe: tuple[Any, NDArray[Any], Floats] | None = None
    """A few contexts and actions with the optimized policy's scores when it was calibrated."""


class Evidence:
    """Calibration rows, and the densities at them of the policies by their round's number."""

    def __init__(
        self,
        safe: Any,
        contexts: Any,
        actions: NDArray[Any],
        log_safe: Floats,
        served: NDArray[Any],
        log_optimized: Floats,
        deployed: Mapping[int, Deployed],
        scores: Scores,
        candidate: Any,
    ) -> None:
        self.safe, self.candidate, self.contexts, self.actions = safe, candidate, contexts, actions
        self.deployed, self.scores = deployed, scores
        self.contextual = not isinstance(contexts, int)
        every = (safe, candidate, *(each.optimized for each in deployed.values()))
        self.finite = shared_actions(every) if self.contextual else None
        self._log_safe, self._served, self._log_optimized = log_safe, served, log_optimized
        self._densities: dict[int, Floats] = {}

    def log(
        self,
        number: int,
        reference: int,
        loss: Floats,
        used: NDArray[np.bool_],
    ) -> Log:
        """The log to calibrate the candidate of round `number` on, from the rows in use."""
        counts = count_served(self._served[used])
        tables = {
            "safe": self.density(reference)[used],
            "optimized": self.optimized(number, self.candidate)[used],
        }
        if set(counts) != {reference}:
            columns = [self.density(each)[used].ravel() for each in counts]
            mixed = mixture_log_density(columns, list(counts.values()))
            tables["mix"] = mixed.reshape(tables["safe"].shape)
        parts: dict[str, Any] = {f"log_{name}": table for name, table in tables.items()}
        if self.finite is not None:
            place = positions(self.finite, self.actions[used])
            parts = {f"log_{name}_all": table for name, table in tables.items()}
            parts |= {f"log_{name}": picked(table, place) for name, table in tables.items()}
        if self.contextual:
            parts["context"] = labels(take(self.contexts, np.flatnonzero(used)))
        share = counts.get(reference, 0) / sum(counts.values())
        return Log(loss[used], **parts, safe_share=share or None)

    def optimized(self, number: int, policy: Any) -> Floats:
        """A round's optimized policy at the rows, or at every action in each row's context."""
        name = "log_optimized" if self.finite is None else "log_optimized_all"
        return self._scored(number, name, "optimized", policy)

    def taken(self, number: int) -> Floats:
        """The density of what a round deployed, at the actions that were taken."""
        return self._picked(self.density(number))

    def taken_by_candidate(self, number: int) -> Floats:
        """The candidate's scores of the actions that were taken."""
        return self._picked(self.optimized(number, self.candidate))

    def _picked(self, table: Floats) -> Floats:
        if self.finite is None:
            return table
        return picked(table, positions(self.finite, self.actions))

    def density(self, number: int) -> Floats:
        """The density of what a round deployed, at the rows or at every action."""
        if number not in self._densities:
            self._densities[number] = self._density(number)
        return self._densities[number]

    def _density(self, number: int) -> Floats:
        if number == SAFE:
            if self.finite is None:
                return self._log_safe
            return self._scored(SAFE, "log_safe_all", "safe", self.safe)
        each = self.deployed[number]
        family, log_beta = each.policy.family, each.policy.log_beta
        reference, optimized = self.density(each.reference), self.optimized(number, each.optimized)
        log_psi: Any = 0.0
        if not family.normalized and np.isfinite(log_beta):
            log_psi = self._log_psi(number, each, family, reference, optimized)
        return family.log_density(reference, optimized, log_beta, log_psi)

    def _log_psi(
        self, number: int, each: Deployed, family: Family, reference: Floats, optimized: Floats
    ) -> Any:
        if not self.contextual:
            return each.log_psi
        if self.finite is not None:
            exact = exact_normalizer(reference, optimized, family, each.policy.log_beta)
            return exact.log_psi[:, None]

        def compute(rows: slice) -> Floats:
            return each.policy.normalizer(part(self.contexts, rows.start, rows.stop)).log_psi

        return self.scores.column(number, "log_psi", len(self.actions), compute)

    def _scored(self, number: int, name: str, kind: str, policy: Any) -> Floats:
        width = None if self.finite is None else len(self.finite)

        def compute(rows: slice) -> Floats:
            contexts = part(self.contexts, rows.start, rows.stop)
            if width is None or self.finite is None:
                scores = taken = policy_calls.score(kind, policy, contexts, self.actions[rows])
            else:
                table = policy_calls.table(kind, policy, contexts)
                scores = np.broadcast_to(table, (rows.stop - rows.start, width))
                taken = picked(scores, positions(self.finite, self.actions[rows]))
            self._check(number, kind, taken, rows)
            return scores

        return self.scores.column(number, name, len(self.actions), compute, width)

    def _check(self, number: int, kind: str, taken: Floats, rows: slice) -> None:
        """A policy scores what it did itself as it did then, or it is another one by now."""
        known = self._log_safe[rows] if number == SAFE else self._log_optimized[rows]
        own = ~np.isnan(known) & ((self._served[rows] == number) | (number == SAFE))
        if own.any():
            name = "safe" if number == SAFE else f"policy of round {number}"
            same_scores(name, taken[own], known[own], kind)


def count_served(served: NDArray[Any]) -> dict[int, int]:
    """How many rows each policy produced, by its round's number."""
    numbers, counts = np.unique(served, return_counts=True)
    return {int(number): int(count) for number, count in zip(numbers, counts, strict=True)}
