"""The monitors of a run: they read the stored rows, and store an alarm where there is cause.

Their state is stored too, and follows from the stored rows: a process that opens the store later,
or alongside another, continues where the last one stopped.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime

import numpy as np
import sqlalchemy as sql
from numpy.typing import ArrayLike

from tether._core import validate
from tether._core.contexts import length
from tether._core.types import Contexts, Floats
from tether.policies.shortlist_rows import ShortlistRows
from tether.rounds.contexts_seen import ContextsSeen
from tether.rounds.kept_sums import read_kept, write_kept
from tether.rounds.limits import ONLY_LOSS
from tether.rounds.losses_seen import LossesSeen, Raised
from tether.rounds.settings import Settings
from tether.rounds.store import queries
from tether.rounds.store.database import Store
from tether.rounds.store.lanes import read_lanes
from tether.rounds.store.serving import read_serving
from tether.rounds.store.writer import Writer

SILENCE = "silence"
"""The name under which it is kept when the last loss arrived."""


class _AlarmFoundError(Exception):
    """An alarm that must be stored while nobody else writes."""


class Monitors:
    """A risk monitor per round and loss on its policy's losses, a shift monitor on all contexts.

    Where losses stop arriving, there is nothing to monitor: that is an alarm too, of silence.
    """

    def __init__(
        self, settings: Settings, context_score: Callable[[Contexts], ArrayLike] | None = None
    ) -> None:
        self._settings, self._context_score = settings, context_score
        self._contexts = ContextsSeen(settings)

    @property
    def monitors_contexts(self) -> bool:
        """Whether contexts are monitored, not only losses."""
        return self._context_score is not None

    def scores(self, contexts: Contexts) -> Floats | None:
        """The scores of contexts that the shift monitor sees; None if there is no monitor."""
        if self._context_score is None:
            return None
        plain = contexts.contexts if isinstance(contexts, ShortlistRows) else contexts
        scores = validate.floats("context_score's result", self._context_score(plain))
        validate.same_length("context_score's result", scores, "contexts", length(plain))
        if not np.isfinite(scores).all():
            validate.reject("context_score's result", scores, ~np.isfinite(scores), "finite")
        return scores

    def update(self, writer: Writer) -> None:
        """Read what is new, and raise an alarm if there is cause; with no other writer."""
        raised = self._advance(writer.connection)
        if raised is not None:
            queries.write_alarm(writer, raised.round, raised.monitor, raised.message)

    def catch_up(self, store: Store) -> None:
        """Read what is new while others write too; or leave it to another call that is about to."""
        try:
            with store.updating_monitors() as connection:
                if connection is not None and self._advance(connection) is not None:
                    raise _AlarmFoundError
        except _AlarmFoundError:  # nothing was kept: it is found again
            with store.writing(exclusive=True) as writer:
                self.update(writer)

    def restart(self, writer: Writer) -> None:
        """Begin all monitors anew, after an alarm was cleared."""
        seen = LossesSeen(writer.connection, self._settings)
        seen.update(watch=False)
        seen.restart()
        seen.save()
        self._contexts.restart(writer.connection)
        end_silence(writer.connection, self._settings.limits)

    def silence(self, connection: sql.Connection, now: datetime | None = None) -> str:
        """Why the run has been without one of its losses for too long; empty if it has not."""
        actions, seconds = self._settings.max_silent_actions, self._settings.max_silent_seconds
        if actions is seconds is None:
            return ""
        last = read_silence(connection)
        taken = _actions(connection)
        for name in self._settings.limits:
            loss = "loss" if name == ONLY_LOSS else f"loss {name!r}"
            count, since = last.get(name, (0, self._settings.created))
            if seconds is not None:
                passed = (now or datetime.now(UTC)) - datetime.fromisoformat(since)
                if passed.total_seconds() > seconds:
                    return f"no {loss} has arrived since {since}, the limit is {seconds:g} s"
            if actions is not None and taken - count >= actions:
                return f"{taken - count:,} actions without a {loss}, the limit is {actions:,}"
        return ""

    def _advance(self, connection: sql.Connection) -> Raised | None:
        watch = read_serving(connection).alarm is None
        losses = LossesSeen(connection, self._settings)
        before = dict(losses.seen)
        raised = losses.update(watch=watch)
        if losses.seen != before:
            losses.save()
        if losses.new_losses:
            end_silence(connection, losses.new_losses)
        if watch and raised is None and self.monitors_contexts:
            raised = self._contexts.update(connection)
        return raised


def read_silence(connection: sql.Connection) -> dict[str, tuple[int, str]]:
    """For each loss, how many actions there were when it last arrived, and when that was."""
    kept = json.loads(read_kept(connection, SILENCE) or "[]")
    return {name: (count, since) for name, count, since in kept}


def end_silence(connection: sql.Connection, names: Iterable[str]) -> None:
    """Count actions and time without some of the losses from now on."""
    moment, taken = datetime.now(UTC).isoformat(timespec="seconds"), _actions(connection)
    last = read_silence(connection) | dict.fromkeys(names, (taken, moment))
    write_silence(connection, last)


def write_silence(connection: sql.Connection, last: Mapping[str, tuple[int, str]]) -> None:
    """Keep what `read_silence` reads."""
    kept = [[name, count, since] for name, (count, since) in sorted(last.items())]
    write_kept(connection, {SILENCE: json.dumps(kept)})


def _actions(connection: sql.Connection) -> int:
    return sum(lane.last_action for lane in read_lanes(connection).values())
