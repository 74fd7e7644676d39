"""The policies of past rounds, and how a policy is recognized when it is passed in again.

The store keeps a policy's name, a digest of its parameters where these are plain values, its
scores, and the policy itself where it can be saved; a policy that is passed in later must agree
with all of them. While the process lives, policies are kept in memory; after a restart they are
looked up by name, first among those that the user passes in, then in the store.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import sqlalchemy as sql
from numpy.typing import NDArray

from tether._core import policy_calls
from tether._core.arrays import Floats
from tether.control.calibration import Calibration
from tether.control.families import Family
from tether.policies.normalizer import Normalizer
from tether.policies.picker import Picker
from tether.policies.policy import Policy, as_policy
from tether.policies.probes import describe_family as describe_family
from tether.policies.probes import fingerprint as fingerprint
from tether.policies.probes import told_elsewhere
from tether.policies.tethered import Tethered
from tether.rounds.errors import ChangedPolicyError
from tether.rounds.path_pairs import PathOptimized, PathTethered
from tether.rounds.store import schema
from tether.rounds.store.database import Store
from tether.rounds.store.lanes import first_id
from tether.rounds.store.queries import calibration_from_json, read_round
from tether.rounds.store.rows import read_codecs
from tether.rounds.stored_policies import PolicyLoader, load_stored_policy

SAFE = 0
"""Stands for the safe policy where a round's number stands for that round's policy."""
SCORE_TOLERANCE = 1e-3
"""How far a score may be from the stored one, relative and absolute: models round."""
MAX_PROBES = 256
"""How many stored actions a policy must score again, at most."""

PolicyLookup = Mapping[str, Any] | Callable[[str], Any] | None


class Mixing(NamedTuple):
    """How a policy follows from the scores of two."""

    family: Family
    log_beta: float
    blend: float

    @property
    def needs_normalizer(self) -> bool:
        """Whether it has a normalizing constant that is not known from beta alone."""
        return not (self.family.normalized or np.isinf(self.log_beta))


@dataclass(frozen=True)
class DeployedPolicy:
    """The tethered policy of a round, and what it is made of.

    `reference` is the round whose policy its beta is measured against; 0 is the safe policy.
    `normalizer` is that of the policy, where there are no contexts and it is needed. `probe` is a
    few contexts and actions, with the optimized policy's scores when it was calibrated.
    """

    optimized: Policy
    policy: Tethered | PathTethered
    reference: int
    normalizer: Normalizer | None
    probe: tuple[Any, NDArray[Any], Floats] | None = None

    @property
    def tethered(self) -> Tethered:
        """The policy of a family that is not a path: it follows from the scores of two."""
        assert isinstance(self.policy, Tethered)
        return self.policy

    @property
    def mixing(self) -> Mixing:
        """How the policy follows from the scores of two."""
        return Mixing(self.tethered.family, self.tethered.log_beta, self.tethered.blend)


class PolicyRegistry:
    """What each round deployed, by round number; policies that are passed in again are checked."""

    def __init__(
        self,
        store: Store,
        safe: Policy,
        family: Family | None,
        lookup: PolicyLookup,
        normalizer_draws: int | None,
        as_optimized: Callable[[str, Any], Policy] = as_policy,
        load: PolicyLoader | None = None,
    ) -> None:
        self._store, self._safe, self._family, self._lookup = store, safe, family, lookup
        self._as_optimized, self._load = as_optimized, load
        self._normalizer_draws = normalizer_draws
        self._deployed: dict[int, DeployedPolicy] = {}
        self._ramped: dict[int, Policy] = {}

    def add(self, number: int, deployed: DeployedPolicy) -> None:
        """Remember what a round deploys."""
        self._deployed[number] = deployed

    def forget(self, number: int) -> None:
        """Remove a round that was not begun after all."""
        self._deployed.pop(number, None)
        self._ramped.pop(number, None)

    def keep(self, number: int, policy: Policy) -> None:
        """Remember the policy of a step of a ramp."""
        self._ramped[number] = policy

    def ramped(self, number: int) -> Policy:
        """The policy of a step of a ramp, looked up by name if necessary; the safe one for 0."""
        if number == SAFE:
            return self._safe
        if number not in self._ramped:
            row = self._read(number)
            policy = self._look_up(row, "it cannot act", "begin another round")
            _check_fingerprint(policy, row)
            self.keep(number, policy)
        return self._ramped[number]

    def ramp_on(self, number: int, previous: int) -> None:
        """Let a step have the policy of the previous one, which must not have changed."""
        policy = self._ramped.get(previous)
        if policy is not None:
            _check_fingerprint(policy, self._read(previous))
            self.keep(number, policy)

    def check_name(self, name: str, optimized: Policy, number: int) -> None:
        """Refuse the name of another policy: after a restart only one of them could be found.

        `number` is that of the new round; if somebody else begins it, that is said later.
        """
        table = schema.rounds
        with self._store.reading() as connection:
            query = sql.select(table.c.number, table.c.fingerprint).where(
                table.c.policy == name, table.c.number < number
            )
            same_name = connection.execute(query).fetchall()
        own_fingerprint = fingerprint(optimized)
        for begun, stored_fingerprint in same_name:
            if own_fingerprint is None or own_fingerprint != stored_fingerprint:
                raise ValueError(
                    f"name {name!r} belongs to the policy of round {begun}, and this policy "
                    f"is not known to be the same: choose another name"
                )

    def policy(self, number: int) -> Policy:
        """The policy that a round deployed; the safe policy for 0."""
        return self._safe if number == SAFE else self.deployed(number).policy

    def deployed(self, number: int) -> DeployedPolicy:
        """What a past round deployed, looked up by name if necessary."""
        if number not in self._deployed:
            self._deployed[number] = self._rebuild(self._read(number))
        return self._deployed[number]

    def _read(self, number: int) -> dict[str, Any]:
        with self._store.reading() as connection:
            return read_round(connection, number)

    def last(self) -> int:
        """The last round if it deployed a tethered policy; else 0, the safe policy."""
        table = schema.rounds
        query = sql.select(table.c.number, table.c.log_beta).order_by(table.c.number.desc())
        with self._store.reading() as connection:
            row = connection.execute(query.limit(1)).one_or_none()
        return SAFE if row is None or row.log_beta == -np.inf else int(row.number)

    def tethered(
        self, optimized: Policy, reference: int, calibration: Calibration
    ) -> Tethered | PathTethered:
        """The calibrated policy between the reference and the optimized one.

        Clip becomes budgeted clip where its normalizing constant is not known.
        """
        same = self._family is not None and self._family.name == calibration.family
        with told_elsewhere():
            if isinstance(optimized, PathOptimized):
                return optimized.pair.tethered(calibration)
            return Tethered(
                self.policy(reference),
                optimized,
                calibration,
                family=self._family if same else None,
                normalizer_draws=self._normalizer_draws,
            )

    def _look_up(
        self,
        row: Mapping[str, Any],
        impossible: str = "the rows of that round cannot be weighted without it",
        instead: str = "retire the round",
    ) -> Policy:
        """The optimized policy of a round: the user's, by its name, or else the stored one.

        If there is none, an error says what is impossible, and what can be done instead.
        """
        name, number = row["policy"], row["number"]
        policy = self._passed(name)
        if policy is None and row["policy_digest"] is not None:
            with self._store.reading() as connection:
                policy = load_stored_policy(connection, row["policy_digest"], self._load)
            if isinstance(policy, Picker):
                return policy
        if policy is None:
            raise ValueError(
                f"round {number} was served by the policy {name!r}, which is not available: "
                f"{impossible}. Pass policies={{{name!r}: …}}, or a function from names to "
                f"policies, to tether.Controller, or {instead} (it is not in the store: "
                f"{row['policy_problem']})"
            )
        return self._as_optimized(f"policies[{name!r}]", policy)

    def _passed(self, name: str) -> Any:
        """The policy that the user passes under a name; None if there is none."""
        if callable(self._lookup):
            return self._lookup(name)
        return None if self._lookup is None else self._lookup.get(name)

    def _rebuild(self, row: Mapping[str, Any]) -> DeployedPolicy:
        name, number = row["policy"], row["number"]
        optimized = self._look_up(row)
        _check_fingerprint(optimized, row)
        table = schema.actions
        where = (
            table.c.id > _first_possible_id(row["seen"]),  # so that the search begins there
            table.c.round == number,
            table.c.log_optimized.is_not(None),
        )
        check_stored_scores(
            self._store, name, optimized, "optimized", table.c.log_optimized, *where
        )
        calibration = calibration_from_json(row["calibration"])
        assert calibration is not None  # only calibrated rounds deploy a policy
        policy = self.tethered(optimized, row["reference"], calibration)
        normalizer = None
        if row["log_psi"] is not None:  # as it was estimated then, not again
            error = row["log_psi_error"] or 0.0
            normalizer = Normalizer(np.array([row["log_psi"]]), np.array([error]))
            assert isinstance(policy, Tethered)
            policy.remember(normalizer)
        return DeployedPolicy(optimized, policy, row["reference"], normalizer)


def _check_fingerprint(optimized: Policy, row: Mapping[str, Any]) -> None:
    """Refuse a policy that is known not to be that of a round."""
    own = fingerprint(optimized)
    if own and row["fingerprint"] and own != row["fingerprint"]:
        raise ValueError(
            f"policies[{row['policy']!r}] is not the policy of round {row['number']}: its "
            f"fingerprint is {own} but the store has {row['fingerprint']}"
        )


def _first_possible_id(seen: str) -> int:
    """An id below those of a round's actions, given what its calibration saw of each lane."""
    reached = json.loads(seen)
    return min((first_id(int(lane)) + last for lane, (last, _) in reached.items()), default=0)


def check_stored_scores(
    store: Store, name: str, policy: Policy, kind: str, column: sql.Column[Any], *where: Any
) -> None:
    """Let a policy score some stored actions again; refuse it if the scores differ."""
    table = schema.actions
    coded = (table.c.context, table.c.candidates, table.c.action)
    query = sql.select(*coded, column).where(*where)
    with store.reading() as connection:
        rows = connection.execute(query.order_by(table.c.id).limit(MAX_PROBES)).fetchall()
        if not rows:
            return
        codecs = read_codecs(connection)
    contexts, candidates, actions, scores = zip(*rows, strict=True)
    check_scores(
        name,
        policy,
        codecs.decode_contexts(contexts, candidates),
        codecs.action.decode(actions),
        np.array(scores, dtype=np.float64),
        kind,
    )


def check_scores(
    name: str,
    policy: Policy,
    contexts: Any,
    actions: NDArray[Any],
    expected: Floats,
    kind: str = "safe",
) -> None:
    """Refuse a policy that scores stored actions differently than before."""
    compare_scores(name, policy_calls.score(kind, policy, contexts, actions), expected, kind)


def compare_scores(name: str, scores: Floats, expected: Floats, kind: str) -> None:
    """Refuse scores that differ from the stored ones."""
    both_zero = np.isneginf(scores) & np.isneginf(expected)
    with np.errstate(invalid="ignore"):
        differs = np.abs(scores - expected) > SCORE_TOLERANCE * (1 + np.abs(expected))
    differs = (differs | (np.isneginf(scores) != np.isneginf(expected))) & ~both_zero
    if differs.any():
        row = int(np.argmax(differs))
        raise ChangedPolicyError(
            f"the {kind} policy is not the {name!r} of this store: it scores a stored action "
            f"{scores[row]:.6g}, but {expected[row]:.6g} was stored ({int(differs.sum())} of "
            f"{len(differs)} scores differ). If it was trained further in place, pass a copy of it "
            f"to `begin`: each round needs a policy of its own"
        )
