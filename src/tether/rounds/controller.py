"""The controller: a loop the user owns, round after round, with everything in a store."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import sqlalchemy as sql
from numpy.typing import NDArray
from sqlalchemy.exc import IntegrityError

from tether._core import validate
from tether._core.contexts import take
from tether._core.types import Floats
from tether.control.families import find_family
from tether.control.family import Family
from tether.control.test_weight import is_bounded
from tether.policies.policy import as_policy
from tether.rounds import observations
from tether.rounds.calibrate_round import Beginning, calibrate_round
from tether.rounds.errors import RoundTakenError
from tether.rounds.fingerprint import describe, fingerprint
from tether.rounds.history import History
from tether.rounds.history_reader import read_history
from tether.rounds.monitors import Watch
from tether.rounds.policy_registry import Lookup, Registry, probe
from tether.rounds.round import Round, Taken
from tether.rounds.score_columns import Scores
from tether.rounds.settings import Terms, watched_by_default
from tether.rounds.store import alarms, schema
from tether.rounds.store.actions import write_actions
from tether.rounds.store.calibrations import read_calibration, write_calibration
from tether.rounds.store.rows import Rows
from tether.rounds.store.store import Store, last, read_terms, write_terms
from tether.rounds.training_rows import TrainingRows


class Controller:
    """Keeps an optimized policy on its tether, round after round, for as long as the store lasts.

    Promised for each round: what `calibrate` promises, with all past rounds in the log's mixture.
    Assumed, beside what it assumes: the optimized policy learns from `training_rows` alone. Half of
    the rows (`calibration_share`) are set apart for calibration by chance, for good.

    `missing` says what becomes of rows without a loss: "wait" refuses to calibrate until a share
    `enough` of every round's has come and counts the rest as the worst loss; "worst_case" counts
    them so at once; "exclude" leaves them out, which is right only where losses are missing by
    chance. `against="last"` measures beta from what was deployed last instead of the safe policy:
    the policy can go further over the rounds, and what is promised rests on each round before.

    Where the optimized policy is gone the safe policy acts, and its rows count as its own.

    An alarm, when the mean loss of a round shows to be above `watched` (half more than alpha unless
    given) or a score of contexts shifts, sends everything to the safe policy until `resume`.

    A store outlives the process: `policies` (a mapping or a function) then gives past policies back
    by the names under which they began.
    """

    def __init__(
        self,
        safe: Any,
        *,
        alpha: float,
        store: str | Path,
        bound: float = 1.0,
        family: str | Family = "clip",
        test_weight: str | float = "empirical",
        calibration_share: float = 0.5,
        missing: str = "wait",
        enough: float = 1.0,
        against: str = "safe",
        watched: float | None = None,
        delta: float = 0.05,
        context_score: Callable[[Any], Any] | None = None,
        policies: Lookup = None,
        name: str = "safe",
        draws: int | None = None,
        normalizer_draws: int | None = None,
        seed: int = 0,
    ) -> None:
        self.safe = as_policy("safe", safe)
        self._family = find_family(family)
        bound = validate.number("bound", bound, above=0, below=np.inf)
        alpha = validate.number("alpha", alpha, above=0, below=bound)
        if test_weight == "analytic" and not is_bounded(self._family):
            raise ValueError(
                f"test_weight 'analytic' does not exist for family {self._family.name!r}: its "
                f"weights have no bound; use 'empirical' or a number"
            )
        if context_score is not None and not callable(context_score):
            raise TypeError(f"context_score must be a function of contexts, got {context_score!r}")
        given = Terms(
            safe=name,
            alpha=alpha,
            bound=bound,
            family=self._family.name,
            family_mark=describe(self._family),
            test_weight=test_weight,
            calibration_share=calibration_share,
            missing=missing,
            enough=enough,
            against=against,
            watched=watched_by_default(alpha, bound) if watched is None else watched,
            delta=delta,
            normalizer_draws=normalizer_draws,
            seed=seed,
            created=alarms.now(),
        )
        self._store, self._draws = Store(store), draws
        try:
            self.terms = self._agreed(given)
        except BaseException:
            self._store.close()
            raise
        self._rows, self._scores = Rows(), Scores(self._store)
        self._registry = Registry(self._store, self.safe, self._family, policies, normalizer_draws)
        self._watch = Watch(self.terms, context_score)

    def begin(self, optimized: Any = None, *, name: str | None = None) -> Round:
        """Calibrate how far `optimized` may go, and open the next round with it.

        The safe policy serves the whole round where there is no optimized policy, no loss to
        calibrate on, no beta that passes, or an alarm stands; the round's `note` says so. `name` is
        under what the policy is asked for after a restart ("round 3" and so on unless given).

        Every round keeps its policy, to weigh its rows later: a model that is trained further in
        place is another policy, and is refused. Hand in a copy.
        """
        if optimized is not None:
            optimized = as_policy("optimized", optimized)
        self._refresh()
        with self._store.reading() as connection:
            number = 1 + last(connection, schema.rounds.c.number)
            alarm = alarms.standing(connection)
        name = f"round {number}" if name is None else name
        if optimized is not None:
            self._registry.check_name(name, optimized)
        try:
            begun = Beginning(note="no optimized policy was given")
            if alarm is not None:
                begun = Beginning(note=f"alarm {alarm} stands: the safe policy serves")
            elif optimized is not None:
                begun = calibrate_round(
                    self.terms,
                    self._family,
                    self._rows,
                    self._scores,
                    self._registry,
                    optimized,
                    number,
                    self._draws,
                )
            if begun.deployed is not None:
                self._registry.add(number, begun.deployed)
            self._write_round(number, name if optimized is not None else None, optimized, begun)
            self._scores.settle()
        except BaseException as error:
            self._scores.forget()
            if isinstance(error, Exception):  # an interrupt may come after the round was kept
                self._registry.forget(number)
            raise
        return Round(self, number, begun.calibration, begun.note, begun.deployed)

    @property
    def round(self) -> Round | None:
        """The round that is open, also after a restart; None before the first."""
        table = schema.rounds
        with self._store.reading() as connection:
            query = sql.select(table).order_by(table.c.number.desc()).limit(1)
            row = connection.execute(query).mappings().one_or_none()
        if row is None:
            return None
        number, deployed = row["number"], None
        if row["log_beta"] > -np.inf:
            deployed = self._registry.deployed(number)
        return Round(self, number, read_calibration(row["calibration"]), row["note"], deployed)

    def observe(self, ids: Any, losses: Any, rewards: Any = None) -> None:
        """Report what actions of any round cost: late, in any order, once for each.

        All of the report is kept, or nothing: an unknown id, a second report or a loss outside
        [0, bound] is an error that names it.
        """
        observations.observe(self._store, self._watch, ids, losses, rewards, self.terms.bound)

    def withdraw(self, ids: Any, reason: str) -> None:
        """Take out actions that were never carried out, such as those of a process that crashed.

        Only for reasons that have nothing to do with the loss: leaving rows out for what they cost
        or did would bend every later calibration.
        """
        observations.withdraw(self._store, self._watch, ids, reason)

    def pending(self) -> Taken:
        """Actions whose loss is awaited, oldest first."""
        self._refresh()
        return self._taken(np.flatnonzero(self._rows.pending))

    def training_rows(self) -> TrainingRows:
        """The rows an optimizer may learn from: those of the training share whose loss is known.

        There is no way to ask for the others, on which the next calibration rests.
        """
        self._refresh()
        rows = self._rows
        where = np.flatnonzero(rows.observed & ~rows.calibration)
        taken = self._taken(where)
        return TrainingRows(
            ids=taken.ids,
            round=rows.round[where],
            contexts=taken.contexts,
            actions=taken.actions,
            loss=rows.loss[where],
            reward=rows.reward[where],
            log_prob=rows.log_prob[where],
        )

    def resume(self, reason: str) -> None:
        """Clear the alarm that stands, on a person's word; the monitors begin anew."""
        alarms.clear(self._store, reason)

    def history(self) -> History:
        """What the run has been so far."""
        return read_history(self._store)

    def close(self) -> None:
        """Let go of the store."""
        self._store.close()

    def __enter__(self) -> Controller:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Controller(alpha={self.terms.alpha:g}, store={self._store.name!r})"

    def _agreed(self, given: Terms) -> Terms:
        """The terms of the store, which are the given ones if it is new."""
        mark = fingerprint(self.safe)
        with self._store.reading() as connection:
            stored = read_terms(connection)
        if not stored:
            with self._store.writing() as connection:
                stored = read_terms(connection)
                if not stored:
                    write_terms(connection, {**given.to_dict(), "fingerprint": mark})
                    return given
        terms = Terms.from_dict(stored)
        given.check_same(terms, self._store.name)
        if mark and stored["fingerprint"] and mark != stored["fingerprint"]:
            raise ValueError(
                f"the safe policy is not the one that {self._store.name} was made with: its "
                f"fingerprint is {mark} and the store has {stored['fingerprint']}"
            )
        probe(self._store, terms.safe, self.safe, "safe", schema.actions.c.log_safe)
        return terms

    def _refresh(self) -> None:
        with self._store.reading() as connection:
            self._rows.refresh(connection)

    def _taken(self, where: NDArray[Any]) -> Taken:
        rows = self._rows
        if not len(rows):
            return Taken(where + 1, np.empty(0), 0)
        return Taken(where + 1, rows.actions[where], take(rows.contexts, where))

    def _alarm(self) -> int | None:
        with self._store.reading() as connection:
            return alarms.standing(connection)

    def _write_round(self, number: int, name: str | None, optimized: Any, begun: Beginning) -> None:
        deployed = begun.deployed
        row = {
            "number": number,
            "policy": name,
            "fingerprint": None if optimized is None else fingerprint(optimized),
            "reference": begun.reference,
            "log_beta": -np.inf if deployed is None else deployed.policy.log_beta,
            "log_psi": None if deployed is None else deployed.log_psi,
            "last_action": len(self._rows),
            "last_report": self._rows.last_report,
            "calibration": write_calibration(begun.calibration),
            "note": begun.note,
            "begun": alarms.now(),
        }
        try:
            with self._store.writing() as connection:
                connection.execute(schema.rounds.insert().values(**row))
                self._scores.save(connection)
                begun.save_proposals(connection, number)
                if begun.listed is not None and "listed_actions" not in read_terms(connection):
                    write_terms(connection, {"listed_actions": begun.listed.tolist()})
        except IntegrityError as error:
            raise RoundTakenError(
                f"round {number} was begun by another process while this one calibrated: ask "
                f"`run.round` for it, or begin the next"
            ) from error

    def _write_actions(
        self,
        *,
        number: int,
        served: int,
        alarm: int | None,
        contexts: Any,
        actions: NDArray[Any],
        scores: dict[str, Floats | None],
        failure: str,
        rng: np.random.Generator,
    ) -> NDArray[np.int64] | None:
        return write_actions(
            self._store,
            self._watch,
            number=number,
            served=served,
            alarm=alarm,
            contexts=contexts,
            actions=actions,
            calibration=rng.random(len(actions)) < self.terms.calibration_share,
            scores=scores,
            failure=failure,
        )
