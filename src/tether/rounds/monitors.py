"""The monitors of a run: they read the stored rows, and store an alarm where there is cause.

Their state is stored too, and follows from the stored rows: a process that opens the store later,
or alongside another, continues where the last one stopped.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping

import numpy as np
import sqlalchemy as sql
from numpy.typing import ArrayLike

from tether._core import validate
from tether._core.arrays import Contexts, Floats
from tether._core.contexts import length
from tether.policies.picker import ShortlistRows
from tether.rounds.contexts_seen import ContextsSeen
from tether.rounds.kept import Kept
from tether.rounds.losses_seen import SEEN, LossesSeen, Raised
from tether.rounds.run_settings import RunSettings
from tether.rounds.silence import SILENCE, end_silence, find_silence
from tether.rounds.store import queries
from tether.rounds.store.database import Store
from tether.rounds.store.lanes import Lane
from tether.rounds.store.serving import read_serving
from tether.rounds.store.writer import Writer


class _AlarmFoundError(Exception):
    """An alarm that must be stored while nobody else writes."""


class Monitors:
    """A risk monitor per round and loss on its policy's losses, a shift monitor on all contexts.

    Where losses stop arriving, there is nothing to monitor: that is an alarm too, of silence.
    """

    def __init__(
        self, settings: RunSettings, context_score: Callable[[Contexts], ArrayLike] | None = None
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
        end_silence(seen.kept, self._settings.limits, seen.lanes)
        seen.save()
        self._contexts.restart(writer.connection)

    def silence(self, kept: Kept, lanes: Mapping[int, Lane]) -> str:
        """Why the run has been without one of its losses for too long; empty if it has not."""
        if self._settings.max_silence is None:
            return ""
        kept.load((SILENCE, SEEN))  # together with what `unseen` reads
        return find_silence(kept, self._settings, lanes)

    def unseen(self, kept: Kept, lanes: Mapping[int, Lane]) -> str | None:
        """How far the monitors have read, if losses are stored that they have not seen."""
        text = kept[SEEN]
        seen = json.loads(text or "{}")
        behind = any(
            lane.last_observation > seen.get(str(number), 0) for number, lane in lanes.items()
        )
        return (text or "{}") if behind else None

    def _advance(self, connection: sql.Connection) -> Raised | None:
        watch = read_serving(connection).alarm is None
        losses = LossesSeen(connection, self._settings)
        before = dict(losses.seen)
        raised = losses.update(watch=watch)
        if losses.new_losses:
            end_silence(losses.kept, losses.new_losses, losses.lanes)
        if losses.seen != before:
            losses.save()
        if watch and raised is None and self.monitors_contexts:
            raised = self._contexts.update(connection)
        return raised
