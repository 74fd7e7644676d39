"""A run behind a service: it acts in the present round, and begins the next one beside.

Other processes may serve the same store, and begin rounds too. What they do is followed: an action
is stored only in the present round, so a round that is over is noticed in any case.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from threading import Event, Lock, Thread
from typing import Any

import numpy as np
import sqlalchemy as sql

from tether._core.arrays import Contexts
from tether.rounds.begin_conditions import missing_in_words, require_losses
from tether.rounds.cleared_alarms import RAMP_OVER, present_note
from tether.rounds.controller import Controller
from tether.rounds.errors import LossesMissingError, RoundOverError, RoundTakenError, StoreError
from tether.rounds.history import Alarm
from tether.rounds.interventions import checked_actor, checked_reason
from tether.rounds.json_rows import contexts_from_json
from tether.rounds.policy_registry import SAFE
from tether.rounds.ramps.ramp_record import RampRecord
from tether.rounds.ramps.ramp_round import RampRound
from tether.rounds.returned_rows import TakenActions, TrainingRows
from tether.rounds.round import Round
from tether.rounds.run_state import RunState
from tether.rounds.run_watch import RunWatch
from tether.rounds.served_round import ServedRound
from tether.rounds.settings import Settings
from tether.rounds.store import queries, schema
from tether.rounds.store.serving import read_serving

BEGIN = "begin"
"""The act in the audit trail that asks for the next round."""
MISSING_POLICY_SECONDS = 10.0
"""How often the policy of a round is looked for that was not available."""
MAX_ROUNDS_MISSED = 20
"""How often an action may find its round over, before that is an error."""

Improve = Callable[[TrainingRows], Any]
"""Makes an optimized policy from the rows that it may learn from."""

log = logging.getLogger("tether.service")


class NoSuchRoundError(ValueError):
    """The round that was to be followed by another is not the present one."""


class ServedRun:
    """A `Controller` that a service stands in front of; for several threads.

    If nothing was begun in the store, a round of the safe policy is. If the policy of the present
    round is not available, the safe policy acts in that round, and is recorded as such.

    Parameters
    ----------
    run : Controller
        The run; closed with this object. With fallback="safe" it acts without its store too.
    improve : callable, optional
        Makes the optimized policy of the next round from `training_rows`.
    name : str, optional
        The name under which policies are looked up after a restart, see `Controller.begin`.
    """

    def __init__(
        self, run: Controller, improve: Improve | None = None, name: str | None = None
    ) -> None:
        self.run, self._improve, self._name = run, improve, name
        self.due = Event()  # nothing is: rounds begin when somebody asks for one
        self._guard, self._swap = Lock(), Lock()
        self._thread: Thread | None = None
        self._begin_failure = ""
        self._about: tuple[Round | None, dict[str, Any]] = (None, {})
        self._is_closed = False
        self._served = self._first_round()

    @property
    def settings(self) -> Settings:
        """The settings of the run."""
        return self.run.settings

    @property
    def can_begin(self) -> bool:
        """Whether it can make an optimized policy."""
        return self._improve is not None

    def contexts_from_json(self, values: Sequence[Any]) -> Any:
        """Convert JSON values to contexts of this run.

        Parameters
        ----------
        values : sequence
            One value for each context: null where the run has no contexts.

        Returns
        -------
        array, data frame or int
            The contexts.

        Raises
        ------
        ValueError
            If the values have another format than the run's contexts.
        """
        codecs = self.run._recorder.known_codecs()
        return contexts_from_json(values, None if codecs is None else codecs.context)

    def act(self, contexts: Contexts, *, key: str | None = None) -> TakenActions:
        """Take one action per context in the present round, as `Round.act`.

        Parameters
        ----------
        contexts : array-like, data frame or int
            One row per action, or their number.
        key : str, optional
            A name for this call, so that it can be repeated.

        Returns
        -------
        TakenActions
            The actions, their ids, and who took them.
        """
        rng = np.random.default_rng()
        for _ in range(MAX_ROUNDS_MISSED):
            present = self._served.round
            try:
                return present.act(contexts, rng, key=key)
            except RoundOverError:
                self._follow_round()
        raise RuntimeError(f"{MAX_ROUNDS_MISSED} rounds were over before an action was stored")

    def observe(
        self, ids: Sequence[int], losses: Mapping[str, Sequence[float]], rewards: Any = None
    ) -> dict[str, int]:
        """Store losses and rewards, as `Controller.observe`.

        Parameters
        ----------
        ids : sequence of int
            The ids of actions.
        losses : mapping of str to sequence of float
            Their losses, by name.
        rewards : sequence of float, optional
            Their rewards.

        Returns
        -------
        dict of str to int
            How many losses were new, by name.
        """
        new = self.run._recorder.observe(ids, losses, rewards, self.settings.limits)
        return {name: len(each) for name, each in new.by_loss(self.settings.limits).items()}

    def follow(self) -> RunState:
        """Read what holds now, and act in that round from now on.

        Returns
        -------
        RunState
            The present round and the alarm that stands.
        """
        store, table, alarm = self.run._store, schema.alarms, None
        with store.reading() as connection:
            serving = read_serving(connection)
            if serving.alarm is not None:
                found = connection.execute(sql.select(table).where(table.c.number == serving.alarm))
                alarm = Alarm(**found.mappings().one())
        held = self._served
        if serving.round != held.round.number or time.monotonic() >= held.look_again_at:
            self._follow_round()
        present = self._served.round
        if self._about[0] is not present:
            self._about = present, self._read(present)
        about = self._about[1]
        return RunState(
            present.number,
            **about | {"note": _note(present, about["note"], serving.cleared)},
            alarm=alarm,
            beginning=self.is_beginning,
            begin_failure=self._begin_failure,
        )

    def watch(self) -> RunWatch:
        """Begin to watch the run for a live page.

        Returns
        -------
        RunWatch
            What looks at it; each look after the first reads what is new.
        """
        return RunWatch(self.run._store, self.settings)

    @property
    def missing_policy(self) -> str:
        """Why the safe policy acts here in place of the round's policy; empty if it does not."""
        held = self._served
        return held.round.note if held.stands_in else ""

    @property
    def is_beginning(self) -> bool:
        """Whether this process calibrates the next round now."""
        return self._thread is not None

    @property
    def begin_failure(self) -> str:
        """Why the last attempt of this process to begin a round failed; empty if it did not."""
        return self._begin_failure

    def begin(self, after: int, reason: str, *, actor: str) -> int:
        """Begin the round after the present one in a thread beside; `state` says what comes of it.

        Parameters
        ----------
        after : int
            The number of the present round, so that a request may be repeated.
        reason : str
            Why the next one is to begin; stored with it.
        actor : str
            Who asks for it.

        Returns
        -------
        int
            The number of the next round.

        Raises
        ------
        NoSuchRoundError
            If `after` is not the present round.
        ValueError
            If there is nothing that makes a policy.
        LossesMissingError
            If too few losses have arrived to calibrate on; nothing is stored then.
        StoreError
            If the act could not be stored.
        """
        if self._improve is None:
            raise ValueError("this service has no function that makes an optimized policy")
        why, who = checked_reason("a round begins", reason), checked_actor(actor)
        with self._guard:
            if self._thread is not None:
                if after != self._served.round.number:
                    raise NoSuchRoundError(f"round {after} is not the present one")
                return after + 1
            require_losses(self.run)
            with self.run._store.writing(exclusive=True) as writer:
                latest = read_serving(writer.connection).round
                if latest != after:
                    raise NoSuchRoundError(
                        f"round {after} is not the present one, which is {latest}"
                    )
                queries.write_audit(writer, BEGIN, who, why, after + 1)
            self._begin_failure = ""
            self._thread = Thread(target=self._begin, name="tether-begin", daemon=True)
            self._thread.start()
        return after + 1

    def halt(self, reason: str, *, actor: str) -> None:
        """Send all traffic to the safe policy, in every process.

        Parameters
        ----------
        reason : str
            Why; stored with it.
        actor : str
            Who does it.
        """
        self.run.halt(reason, actor=actor)

    def resume(self, reason: str, *, actor: str) -> None:
        """Clear the alarms that stand.

        Parameters
        ----------
        reason : str
            Why they may be cleared; stored with it.
        actor : str
            Who does it.
        """
        self.run.resume(reason, actor=actor)

    def wait(self) -> None:
        """Wait for a round that begins now."""
        thread = self._thread
        if thread is not None:
            thread.join()

    def close(self) -> None:
        """Close the run; a calibration that is under way fails."""
        self._is_closed = True
        self.run.close()

    def _begin(self) -> None:
        """Make a policy and begin a round with it; actions go on in the present one."""
        assert self._improve is not None
        try:
            optimized = self._improve(self.run.training_rows())
            begun = self.run.begin(optimized, name=self._name)
            self._serve(ServedRound(begun))
        except Exception as error:  # whatever it is, the present round goes on
            self._begin_failure = f"{type(error).__name__}: {error}"
            if isinstance(error, LossesMissingError):
                self._begin_failure = missing_in_words(error)
            if not self._is_closed:
                log.error("a round could not begin: %s", self._begin_failure)
        finally:
            self._thread = None

    def _first_round(self) -> ServedRound:
        with self.run._store.reading() as connection:
            number = read_serving(connection).round
        if not number:
            try:
                return ServedRound(self.run.begin())
            except RoundTakenError:
                return self._open_round()
        return self._open_round()

    def _follow_round(self) -> None:
        """Act in the present round from now on."""
        if self._thread is None:
            self._serve(self._open_round())
            return
        # The calibration has the run's lock, and has begun this round or will find it taken.
        with self.run._store.reading() as connection:
            number = read_serving(connection).round
        self._serve(self._stand_in(number, "it began while this process calibrated", 0.0))

    def _serve(self, found: ServedRound) -> None:
        with self._swap:
            if self._served.gives_way_to(found):
                self._served = found

    def _open_round(self) -> ServedRound:
        """The present round; one of the safe policy if that of the round is not available."""
        try:
            present = self.run.round
        except StoreError:
            raise
        except (ValueError, RuntimeError) as error:
            with self.run._store.reading() as connection:
                number = read_serving(connection).round
            if self._round_number() != number:
                log.error("the safe policy serves round %d: %s", number, error)
            again = time.monotonic() + MISSING_POLICY_SECONDS
            return self._stand_in(number, f"its policy is not available: {error}", again)
        assert present is not None  # the first one has begun
        return ServedRound(present)

    def _round_number(self) -> int:
        held = getattr(self, "_served", None)
        return 0 if held is None else held.round.number

    def _stand_in(self, number: int, note: str, look_again_at: float) -> ServedRound:
        """A round whose policy cannot act: the safe policy does, in its place."""
        made = Round(number, None, note, self.run, None)
        if self.settings.is_ramp:
            record = RampRecord(number, SAFE, number, None)
            made = RampRound(number, None, note, self.run, None, record)
        return ServedRound(made, stands_in=True, look_again_at=look_again_at)

    def _read(self, present: Round) -> dict[str, Any]:
        """What is stored of a round, and what it promises."""
        with self.run._store.reading() as connection:
            row = queries.read_round(connection, present.number)
        if isinstance(present, RampRound):
            ramp = present.ramp_share
            promises = {} if ramp is None else ramp.promises
            level = {"share": present.share}
        else:
            found = present.calibration
            promises = {}
            if found is not None and found.exists:
                promises = {name: each.promise for name, each in found.losses.items()}
            level = {"beta": present.beta}
        about = {"begun": row["begun"], "policy": row["policy"], "note": present.note}
        return {**about, "level": level, "promises": promises or {}}


def _note(present: Round, note: str, cleared: int) -> str:
    """The note of the present round, with what cleared alarms mean for it."""
    if not isinstance(present, RampRound):
        return present_note(note, cleared)
    step = present._stored.step
    return RAMP_OVER if step is not None and step.cleared < cleared else note
