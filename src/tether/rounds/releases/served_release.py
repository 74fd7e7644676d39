"""A release behind a service: it always has an answer, and tells which answers are stored."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from threading import Event
from typing import Any

import sqlalchemy as sql
from numpy.typing import ArrayLike

from tether.release.arm_counts import ArmCounts
from tether.rounds.errors import StoreError
from tether.rounds.history import Alarm, Estimate
from tether.rounds.history_reader import mean_losses
from tether.rounds.interventions import checked_actor, checked_reason
from tether.rounds.losses_seen import OLD_SUMS, LossesSeen
from tether.rounds.releases import step as steps_of_releases
from tether.rounds.releases.beginning import ByHand
from tether.rounds.releases.followed_history import FollowedHistory
from tether.rounds.releases.key_rows import NEW, OLD, Key
from tether.rounds.releases.observing import ObservedKeys
from tether.rounds.releases.release import Release
from tether.rounds.releases.release_settings import ReleaseSettings
from tether.rounds.releases.release_watch import ReleaseWatch
from tether.rounds.releases.step import Step, goes_on
from tether.rounds.releases.unstored_answers import UnstoredAnswers
from tether.rounds.silence import taken
from tether.rounds.store import schema
from tether.rounds.store.lanes import read_lanes
from tether.rounds.store.serving import read_serving

logger = logging.getLogger("tether.rounds")


@dataclass(frozen=True)
class ReleaseState:
    """What holds now, which every process that serves the release follows.

    Parameters
    ----------
    step : Step
        The present step.
    share : float
        The new system's share of the keys: 0 while an alarm stands.
    alarm : Alarm or None
        The alarm that stands.
    keys : int, default 0
        How many rows the present step has.
    """

    step: Step
    share: float
    alarm: Alarm | None
    keys: int = 0

    unit = "step"
    stopped = "the old system answers all keys"

    @property
    def sentence(self) -> str:
        """How far the new system goes now."""
        return f"the new system has {self.share:.3%} of the keys"

    @property
    def begun_details(self) -> dict[str, Any]:
        """What webhooks are told of the present step."""
        step = self.step
        return {"number": step.number, "share": step.share, "begun": step.begun}

    @property
    def number(self) -> int:
        """The number of the present step."""
        return self.step.number

    @property
    def figures(self) -> dict[str, float]:
        """What is measured and logged."""
        return {"step": self.step.number, "share": self.share}

    @property
    def promises(self) -> Mapping[str, float]:
        """What is promised of each guardrail."""
        return self.step.ramp_share.promises or {}

    @property
    def counted(self) -> dict[tuple[str, str], ArmCounts]:
        """The rows that the share was computed from, by system and guardrail."""
        found = self.step.ramp_share.guardrails
        return {
            (system, name): arm
            for name, each in found.items()
            for system, arm in ((OLD, each.old), (NEW, each.new))
        }

    def ends(self, settings: ReleaseSettings) -> datetime | None:
        """When the present step ends.

        Parameters
        ----------
        settings : ReleaseSettings
            The settings of the release.

        Returns
        -------
        datetime.datetime or None
            The time, in UTC; None if it does not end by time, an alarm keeps it from ending, or its
            time is over and it goes on until enough keys have come.
        """
        is_paused = self.alarm is not None and not self.step.collects_old_rows(settings)
        if settings.step_seconds is None or is_paused:
            return None
        ends = datetime.fromisoformat(self.step.begun) + timedelta(seconds=settings.step_seconds)
        return None if self._lacking(settings) and steps_of_releases.moment() >= ends else ends

    def _lacking(self, settings: ReleaseSettings) -> int:
        """How many keys the step needs at least, whatever its time."""
        return self.step.rows_lacking(settings, self.step.rows_before + self.keys)

    def told(self, settings: ReleaseSettings) -> str:
        """Say what holds now, and why.

        Parameters
        ----------
        settings : ReleaseSettings
            The settings of the release.

        Returns
        -------
        str
            A sentence without its full stop.
        """
        if self.alarm is not None:
            return f"alarm {self.alarm.number} stands ({self.alarm.monitor}): {self.stopped}"
        if self.share == 0 < self.step.share:
            return f"the alarm is cleared, and a new ramp is about to begin: {self.stopped}"
        if not self.step.collects_old_rows(settings):
            return f"{self.sentence}: {self.step.why}"
        until, ends = "somebody ends the step", self.ends(settings)
        if settings.keys_per_step is not None:
            until = f"{settings.keys_per_step:,} keys have come"
        elif ends is not None:
            until = f"{ends:%Y-%m-%d %H:%M} UTC"
        elif settings.step_seconds is not None:
            return f"{goes_on(self.keys, settings.least_first_rows)}; the new one has no keys"
        return (
            f"collecting rows of the old system until {until} ({self.keys:,} so far); the new one "
            f"has no keys"
        )


class ServedRelease(Release):
    """A `Release` with fallback="old" that a service stands in front of.

    It does not begin a step that is over while a key waits: `begin_due_step` does, in a thread of
    the service. Until then keys still belong to the present step.

    Parameters
    ----------
    *arguments : object
        As of `Release`.
    **options : object
        As of `Release`, without the fallback.
    spool : pathlib.Path, optional
        A folder for answers that were given while the store was unavailable; by default nothing
        is kept of them.

    Attributes
    ----------
    due : threading.Event
        Set when a key has found that the present step is over.
    unstored : UnstoredAnswers or None
        The answers that were given while the store was unavailable, and wait to be listed.
    """

    def __init__(self, *arguments: Any, spool: Path | None = None, **options: Any) -> None:
        self.due = Event()
        self._when_due = self.due.set
        super().__init__(*arguments, **options, fallback=OLD)
        self._followed = FollowedHistory(self._store, self.settings)
        self.unstored: UnstoredAnswers | None = None
        if spool is not None:
            try:
                self.unstored = UnstoredAnswers(self._store, spool)
            except BaseException:
                self.close()
                raise

    def _tell(self, doubt: str) -> None:
        """A service has a log, and nobody who sees warnings."""
        logger.warning("%s", doubt)

    def close(self) -> None:
        """Close the store, and release the spool."""
        if self.unstored is not None:
            self.unstored.close()
        super().close()

    def assign_stored(
        self,
        keys: Sequence[Key],
        made_rows: Callable[[Sequence[tuple[bytes, str]]], None] | None = None,
        is_wanted: Callable[[], bool] | None = None,
    ) -> list[str | None]:
        """Say which system answers each key, as `assign`, and whether it was stored.

        Parameters
        ----------
        keys : sequence of str, bytes or int
            The keys.
        made_rows : callable, optional
            Is called, before this returns, with the keys and systems whose row this call has made:
            the first units of those keys under those systems.
        is_wanted : callable, optional
            Whether anyone still waits for it. Once nobody does nothing is stored, unless that is
            being committed just then.

        Returns
        -------
        list of str or None
            "old" or "new" for each key; None where the old system answers because the store is
            unavailable, without a row.
        """
        return self._assigner.assign_stored(keys, made_rows, is_wanted)

    def observe_counted(
        self,
        keys: Sequence[Key],
        losses: Mapping[str, ArrayLike],
        system: Sequence[str],
        *,
        keep_first: bool = False,
    ) -> ObservedKeys:
        """Store the losses of keys, as `observe`, and say how many keys have no row.

        Parameters
        ----------
        keys : sequence of str, bytes or int
            The keys.
        losses : mapping of str to array-like of float
            The losses, by guardrail.
        system : sequence of str
            The system of each key, as it was assigned.
        keep_first : bool, default False
            Skip losses of rows that have another one already.

        Returns
        -------
        ObservedKeys
            How many losses were new, and how many keys were skipped.
        """
        return self._observe(keys, losses, system, keep_first=keep_first)

    def state(self) -> ReleaseState:
        """Read what holds now.

        Returns
        -------
        ReleaseState
            The present step, the share in force and the alarm that stands.
        """
        with self._store.reading() as connection:
            serving = read_serving(connection)
            step = self._steps.of(connection, serving)
            keys = taken(read_lanes(connection)) - step.rows_before
            table, alarm = schema.alarms, None
            if serving.alarm is not None:
                found = connection.execute(sql.select(table).where(table.c.number == serving.alarm))
                alarm = Alarm(**found.mappings().one())
        is_ramped = alarm is None and serving.cleared == step.cleared
        return ReleaseState(step, step.share if is_ramped else 0.0, alarm, keys)

    def present_losses(self) -> dict[str, Mapping[str, Estimate]]:
        """Read the mean losses of both systems in the present step, as far as they are known.

        Returns
        -------
        dict
            For "old" and "new" the estimates by guardrail; those without a loss are left out.
        """
        with self._store.reading() as connection:
            number = read_serving(connection).round
            losses = LossesSeen(connection, self.settings)
            losses.update(watch=False)
            losses.load_sums([number])
            return {
                OLD: mean_losses(losses.sums(number, OLD_SUMS)),
                NEW: mean_losses(losses.sums(number)),
            }

    def warnings(self) -> Mapping[str, str]:
        """Read everything that keeps the share down or looks wrong.

        Returns
        -------
        mapping of str to str
            `ReleaseHistory.warnings_by_kind`; a call after the first reads what is new.
        """
        return self._followed.read().warnings_by_kind

    def follow(self) -> ReleaseState:
        """Begin a step that is due, read what holds now, and list answers without the store.

        Returns
        -------
        ReleaseState
            The present step, the share in force and the alarm that stands.
        """
        self.begin_due_step()
        state = self.state()
        with suppress(StoreError):  # what holds is known all the same; the next look tries again
            self.list_unstored()
        return state

    def watch(self) -> ReleaseWatch:
        """Begin to watch the release for a live page.

        Returns
        -------
        ReleaseWatch
            What looks at it; each look after the first reads what is new.
        """
        return ReleaseWatch(self._store, self.settings)

    def begin_due_step(self) -> bool:
        """Begin the next step if the present one is over, without waiting for a key.

        Returns
        -------
        bool
            Whether it was.
        """
        self.due.clear()
        with self._store.reading() as connection:
            serving = read_serving(connection)
            step = self._steps.of(connection, serving)
            due = self._steps.is_over(step, serving, read_lanes(connection))
        if due:
            self._steps.advance_if_due()
        return due

    def list_unstored(self) -> int:
        """List the answers in the store that were given while it was unavailable.

        Returns
        -------
        int
            How many they were.
        """
        return 0 if self.unstored is None else self.unstored.deliver()

    def end_step(self, step: int, reason: str, *, actor: str) -> Step:
        """End a step by hand, as `advance`, and store who did it.

        Parameters
        ----------
        step : int
            The number of the present step. If it has ended already nothing happens, so that a
            request may be repeated.
        reason : str
            Why it ends now, which must not depend on losses.
        actor : str
            Who ends it.

        Returns
        -------
        Step
            The step that has begun.

        Raises
        ------
        ValueError
            If the step is not the present one, or steps end by themselves.
        StoreError
            If it could not be stored.
        """
        why, who = checked_reason("the step ends", reason), checked_actor(actor)
        return self._steps.advance(ByHand(step, why, who))
