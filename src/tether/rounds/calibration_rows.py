"""From stored rows to the log of a calibration: every row under every policy that was deployed.

Row i has its density under the mixture of those policies, each weighted by the number of rows it
produced, with its own beta and normalizer. Scores are computed once and then kept in the store.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tether._core import policy_calls
from tether._core.contexts import labels, part, take
from tether._core.types import Booleans, Floats
from tether.control.acting import Acting
from tether.control.blend import blend_scores
from tether.control.log import Log
from tether.control.mixture_density import mixture_log_density
from tether.policies.categorical import picked, positions
from tether.policies.mixture import shared_actions
from tether.policies.normalizer import Normalizer, density_with_error, exact_normalizer
from tether.policies.policy import Policy
from tether.policies.settled_normalizer import settled_normalizer
from tether.rounds.policy_registry import SAFE, DeployedPolicy, compare_scores
from tether.rounds.store.database import PATIENCE_FOR_ROWS, Store
from tether.rounds.store.queries import column_pieces, read_column
from tether.rounds.store.writer import Writer


class ScoreColumns:
    """A cache of columns with one value (or one row of a table) per calibration row, in order.

    New values stay in memory until `save` writes them in the transaction that begins the round.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._columns: dict[tuple[int, str], Floats] = {}
        self._unsaved: list[tuple[int, str, int, Floats]] = []

    def column(
        self,
        number: int,
        name: str,
        count: int,
        compute: Callable[[slice], Floats],
        width: int | None = None,
    ) -> Floats:
        """The first `count` values of a round's column; missing ones are computed."""
        key = (number, name)
        empty = np.empty(0 if width is None else (0, width))
        known = self._columns.setdefault(key, empty)
        if len(known) < count:  # another process may have continued it
            with self._store.reading(patience=PATIENCE_FOR_ROWS) as connection:
                flat = read_column(connection, number, name, len(known))
            self._columns[key] = np.concatenate([known, flat.reshape(-1, *empty.shape[1:])])
        start = len(self._columns[key])
        if start < count:
            new = np.asarray(compute(slice(start, count)), dtype=np.float64)
            self._columns[key] = np.concatenate([self._columns[key], new]) if start else new
            self._unsaved.append((number, name, start, new))
        return self._columns[key][:count]

    def save(self, writer: Writer) -> None:
        """Write new values; call `mark_saved` after the commit, `forget` if it fails."""
        writer.column_pieces(piece for part in self._unsaved for piece in column_pieces(*part))

    def mark_saved(self) -> None:
        """Note that everything is in the store."""
        self._unsaved.clear()

    def forget(self) -> None:
        """Drop everything that is in memory."""
        self._columns.clear()
        self._unsaved.clear()


class CalibrationRows:
    """The calibration rows, and the densities of each round's policy at them."""

    def __init__(
        self,
        safe: Policy,
        contexts: Any,
        actions: NDArray[Any],
        log_safe: Floats,
        served: NDArray[Any],
        log_optimized: Floats,
        deployed: Mapping[int, DeployedPolicy],
        scores: ScoreColumns,
        candidate: Policy,
    ) -> None:
        self.safe, self.candidate, self.contexts, self.actions = safe, candidate, contexts, actions
        self.deployed, self.scores = deployed, scores
        self.contextual = not isinstance(contexts, int)
        policies = (safe, candidate, *(past.optimized for past in deployed.values()))
        self.all_actions = shared_actions(policies) if self.contextual else None
        self._log_safe, self._served, self._log_optimized = log_safe, served, log_optimized
        self._log_densities: dict[int, Floats] = {}
        self._errors: dict[int, Floats] = {}

    def log(
        self,
        number: int,
        reference: int,
        loss: Floats,
        used: Booleans,
        *,
        acting: bool = False,
    ) -> Log:
        """The log for calibrating the candidate of round `number`, from the rows in use.

        With `acting` it also says which policies acted.
        """
        counts = count_served(self._served[used])
        tables = {
            "safe": self.log_density(reference)[used],
            "optimized": self.log_optimized(number, self.candidate)[used],
        }
        if set(counts) != {reference}:
            columns = [self.log_density(served)[used].ravel() for served in counts]
            mixed = mixture_log_density(columns, list(counts.values()))
            tables["mix"] = mixed.reshape(tables["safe"].shape)
        columns_of_log: dict[str, Any] = {f"log_{name}": table for name, table in tables.items()}
        if self.all_actions is not None:
            place = positions(self.all_actions, self.actions[used])
            columns_of_log = {f"log_{name}_all": table for name, table in tables.items()}
            columns_of_log |= {
                f"log_{name}": picked(table, place) for name, table in tables.items()
            }
        if self.contextual:
            columns_of_log["context"] = labels(take(self.contexts, np.flatnonzero(used)))
        share = counts.get(reference, 0) / sum(counts.values())
        acting = acting and set(counts) != {reference}
        own_error: float = getattr(self.candidate, "ratio_error", 1.0)
        return Log(
            loss[used],
            **columns_of_log,
            safe_share=share or None,
            acting=self._acting(reference, used) if acting else None,
            approximate=getattr(self.candidate, "approximate", None),
            ratio_error=own_error * self._ratio_error(reference, counts, used, acting=acting),
        )

    def _acting(self, reference: int, used: Booleans) -> Acting:
        """The densities of the policies that acted, each in its own rows."""
        served = self._served[used]
        shape = self.log_density(SAFE)[used].shape
        logged, limit = np.empty(shape), np.full(len(served), np.inf)
        for number in np.unique(served).tolist():
            own = served == number
            logged[own] = self.log_density(number)[used][own]
            policy = None if number == SAFE else self.deployed[number].policy
            if number == reference:
                limit[own] = 0.0
            elif policy is not None and policy.family.single_draw:
                share = policy.family.optimized_share(policy.log_beta) or 0.0
                if self.deployed[number].reference == reference and share < 1:
                    limit[own] = -np.log1p(-share)
        if self.all_actions is None:
            return Acting(logged, log_base_limit=limit)
        place = positions(self.all_actions, self.actions[used])
        return Acting(picked(logged, place), logged, limit)

    def _ratio_error(
        self, reference: int, counts: dict[int, int], used: Booleans, *, acting: bool
    ) -> float:
        """One plus the largest relative variance of a density that weights divide by.

        That is the mixture's, and also that of the policy that acted where it is divided by.

        One over an unbiased estimate is too large by about this factor on average, and the noise
        itself does no harm: it is part of what is averaged over, like the action.
        """
        if self.all_actions is not None:
            return 1.0
        columns = {number: self.log_density(number)[used] for number in {*counts, reference}}
        mixed = mixture_log_density([columns[n] for n in counts], list(counts.values()))
        total, variance = sum(counts.values()), np.zeros(len(mixed))
        for number, count in counts.items():
            part = np.exp(columns[number] - mixed) * count / total
            if acting:
                part = np.where(self._served[used] == number, 1.0, part)
            variance += (part * self.log_density_error(number)[used]) ** 2
        if reference not in counts or len(counts) > 1:
            variance += self.log_density_error(reference)[used] ** 2
        return 1.0 + float(variance.max())

    def log_density_error(self, number: int) -> Floats:
        """The standard error of the log-density of a round's policy, at each row."""
        self.log_density(number)
        return self._errors.get(number, np.zeros(len(self.actions)))

    def log_optimized(self, number: int, policy: Policy) -> Floats:
        """A round's optimized policy at the rows, or at every action in each row's context."""
        name = "log_optimized" if self.all_actions is None else "log_optimized_all"
        return self._score_column(number, name, "optimized", policy)

    def log_density_of_taken(self, number: int) -> Floats:
        """The density of a round's policy at the actions that were taken."""
        return self._at_taken(self.log_density(number))

    def candidate_scores_of_taken(self, number: int) -> Floats:
        """The candidate's scores of the actions that were taken."""
        return self._at_taken(self.log_optimized(number, self.candidate))

    def _at_taken(self, table: Floats) -> Floats:
        if self.all_actions is None:
            return table
        return picked(table, positions(self.all_actions, self.actions))

    def log_density(self, number: int) -> Floats:
        """The density of a round's policy, at the rows or at every action."""
        if number not in self._log_densities:
            self._log_densities[number] = self._compute_log_density(number)
        return self._log_densities[number]

    def _compute_log_density(self, number: int) -> Floats:
        if number == SAFE:
            if self.all_actions is None:
                return self._log_safe
            return self._score_column(SAFE, "log_safe_all", "safe", self.safe)
        deployed = self.deployed[number]
        policy = deployed.policy
        log_reference = self.log_density(deployed.reference)
        log_optimized = blend_scores(
            self.log_optimized(number, deployed.optimized), log_reference, policy.blend
        )
        if policy.family.normalized or np.isinf(policy.log_beta):
            return policy.family.log_density(log_reference, log_optimized, policy.log_beta, 0.0)
        if self.all_actions is not None:
            exact = exact_normalizer(log_reference, log_optimized, policy.family, policy.log_beta)
            log_psi = exact.log_psi[:, None]
            return policy.family.log_density(log_reference, log_optimized, policy.log_beta, log_psi)
        density, error = density_with_error(
            policy.family,
            log_reference,
            log_optimized,
            policy.log_beta,
            self._normalizer(number, deployed, log_reference, log_optimized),
        )
        self._errors[number] = np.hypot(error, self.log_density_error(deployed.reference))
        return density

    def _normalizer(
        self, number: int, deployed: DeployedPolicy, log_reference: Floats, log_optimized: Floats
    ) -> Normalizer:
        """The normalizer of a round's policy in the context of each row, as estimated once."""
        if not self.contextual:
            assert deployed.normalizer is not None  # it is estimated when a round begins
            return deployed.normalizer

        def compute(rows: slice) -> Floats:
            found = settled_normalizer(
                deployed.policy,
                part(self.contexts, rows.start, rows.stop),
                log_reference[rows],
                log_optimized[rows],
            )
            return np.stack([found.log_psi, found.standard_error], axis=1)

        kept = self.scores.column(number, "normalizers", len(self.actions), compute, width=2)
        return Normalizer(kept[:, 0], kept[:, 1])

    def _score_column(self, number: int, name: str, kind: str, policy: Policy) -> Floats:
        width = None if self.all_actions is None else len(self.all_actions)

        def compute(rows: slice) -> Floats:
            contexts = part(self.contexts, rows.start, rows.stop)
            if width is None or self.all_actions is None:
                scores = taken = policy_calls.score(kind, policy, contexts, self.actions[rows])
            else:
                table = policy_calls.table(kind, policy, contexts)
                scores = np.broadcast_to(table, (rows.stop - rows.start, width))
                taken = picked(scores, positions(self.all_actions, self.actions[rows]))
            self._check_unchanged(number, kind, taken, rows)
            return scores

        return self.scores.column(number, name, len(self.actions), compute, width)

    def _check_unchanged(self, number: int, kind: str, taken: Floats, rows: slice) -> None:
        """Refuse a policy that scores its own actions differently than when it took them."""
        known = self._log_safe[rows] if number == SAFE else self._log_optimized[rows]
        own = ~np.isnan(known) & ((self._served[rows] == number) | (number == SAFE))
        if own.any():
            name = "safe" if number == SAFE else f"policy of round {number}"
            compare_scores(name, taken[own], known[own], kind)


def count_served(served: NDArray[Any]) -> dict[int, int]:
    """How many rows each policy produced, by round number; 0 is the safe policy."""
    numbers, counts = np.unique(served, return_counts=True)
    return {int(number): int(count) for number, count in zip(numbers, counts, strict=True)}
