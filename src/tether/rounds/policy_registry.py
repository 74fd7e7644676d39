"""The policies of past rounds: in memory while the process lives, by name after that."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import sqlalchemy as sql

from tether.control.family import Family
from tether.policies.normalizer import Normalizer
from tether.policies.policy import as_policy
from tether.policies.tethered import Tethered
from tether.rounds.fingerprint import PROBES, check_scores, fingerprint
from tether.rounds.round_log import SAFE, Deployed
from tether.rounds.store import schema
from tether.rounds.store.calibrations import read_calibration
from tether.rounds.store.rows import read_codecs
from tether.rounds.store.store import Store

Lookup = Mapping[str, Any] | Callable[[str], Any] | None


class Registry:
    """What each round deployed, by its number; a policy that is handed in again is checked."""

    def __init__(
        self, store: Store, safe: Any, family: Family, lookup: Lookup, normalizer_draws: int | None
    ) -> None:
        self._store, self._safe, self._family, self._lookup = store, safe, family, lookup
        self._normalizer_draws = normalizer_draws
        self._known: dict[int, Deployed] = {}

    def add(self, number: int, deployed: Deployed) -> None:
        """Remember what a round deploys."""
        self._known[number] = deployed

    def check_name(self, name: str, optimized: Any) -> None:
        """Refuse a name that another policy has: after a restart one of them would be lost."""
        table = schema.rounds
        with self._store.reading() as connection:
            query = sql.select(table.c.number, table.c.fingerprint).where(table.c.policy == name)
            before = connection.execute(query).fetchall()
        mark = fingerprint(optimized)
        for number, known in before:
            if mark is None or mark != known:
                raise ValueError(
                    f"name {name!r} is that of the policy of round {number}, and this one is not "
                    f"known to be the same: give it a name of its own"
                )

    def forget(self, number: int) -> None:
        """The round was not begun after all."""
        self._known.pop(number, None)

    def policy(self, number: int) -> Any:
        """What a round deployed; the safe policy for 0."""
        return self._safe if number == SAFE else self.deployed(number).policy

    def deployed(self, number: int) -> Deployed:
        """What a past round deployed, found again by its name if need be."""
        if number not in self._known:
            table = schema.rounds
            with self._store.reading() as connection:
                query = sql.select(table).where(table.c.number == number)
                row = dict(connection.execute(query).mappings().one())
            self._known[number] = self._found_again(row)
        return self._known[number]

    def last(self) -> int:
        """The last round, if what it deployed is a tethered policy; else 0, the safe one."""
        table = schema.rounds
        query = sql.select(table.c.number, table.c.log_beta).order_by(table.c.number.desc())
        with self._store.reading() as connection:
            row = connection.execute(query.limit(1)).one_or_none()
        return SAFE if row is None or row.log_beta == -np.inf else int(row.number)

    def tethered(self, optimized: Any, reference: int, beta: Any) -> Tethered:
        """The policy between the reference and the optimized one, as a calibration allows it."""
        return Tethered(
            self.policy(reference),
            optimized,
            beta,
            family=self._family,
            normalizer_draws=self._normalizer_draws,
        )

    def find(self, name: str, number: int) -> Any:
        """The optimized policy of a round from those that the user handed in by name."""
        found = None
        if callable(self._lookup):
            found = self._lookup(name)
        elif self._lookup is not None:
            found = self._lookup.get(name)
        if found is None:
            raise ValueError(
                f"round {number} was served by the policy {name!r}, which is not at hand: rows of "
                f"that round can be weighed only with it. Pass policies={{{name!r}: …}}, or a "
                f"function from such names to policies, to tether.Controller"
            )
        return as_policy(f"policies[{name!r}]", found)

    def _found_again(self, row: Mapping[str, Any]) -> Deployed:
        name, number = row["policy"], row["number"]
        optimized = self.find(name, number)
        mark = fingerprint(optimized)
        if mark and row["fingerprint"] and mark != row["fingerprint"]:
            raise ValueError(
                f"policies[{name!r}] is not the policy of round {number}: its fingerprint is "
                f"{mark} and the store has {row['fingerprint']}"
            )
        self._check(name, number, optimized)
        policy = self.tethered(optimized, row["reference"], read_calibration(row["calibration"]))
        if row["log_psi"] is not None:  # as it was estimated then, not anew
            policy.remember(Normalizer(np.array([row["log_psi"]]), np.zeros(1)))
        return Deployed(optimized, policy, row["reference"], row["log_psi"])

    def _check(self, name: str, number: int, optimized: Any) -> None:
        table = schema.actions
        where = (table.c.round == number, table.c.log_optimized.is_not(None))
        probe(self._store, name, optimized, "optimized", table.c.log_optimized, *where)


def probe(
    store: Store, name: str, policy: Any, kind: str, column: sql.Column[Any], *where: Any
) -> None:
    """Let a policy score some stored actions again; refuse it where the scores differ."""
    table = schema.actions
    query = sql.select(table.c.context, table.c.action, column).where(*where)
    with store.reading() as connection:
        rows = connection.execute(query.order_by(table.c.id).limit(PROBES)).fetchall()
        if not rows:
            return
        for_contexts, for_actions = read_codecs(connection)
    contexts, actions, scores = zip(*rows, strict=True)
    check_scores(
        name,
        policy,
        for_contexts.decode(contexts),
        for_actions.decode(actions),
        np.array(scores, dtype=np.float64),
        kind,
    )
