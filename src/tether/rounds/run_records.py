"""What can be asked of a run whatever its policies are: its rows, their losses, stopping it."""

from __future__ import annotations

from threading import RLock
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from tether.rounds import interventions
from tether.rounds.action_space import ActionSpace, taken_rows
from tether.rounds.checked_observations import Losses
from tether.rounds.history import History
from tether.rounds.history_reader import read_history
from tether.rounds.recording import Recorder
from tether.rounds.returned_rows import TakenActions, TrainingRows
from tether.rounds.settings import Settings
from tether.rounds.store.checkpoints import make_checkpoints
from tether.rounds.store.database import PATIENCE_FOR_ROWS, Store
from tether.rounds.store.rows import Rows
from tether.rounds.stored_run import StoredRun


class RunRecords(StoredRun[Settings]):
    """The rows of a run and what is done to them; several threads may use it.

    Parameters
    ----------
    store : Store
        Where they are.
    settings : Settings
        The settings of the run.
    space : ActionSpace
        What the policies of the run choose from.
    recorder : Recorder
        Writes actions and losses.
    """

    def __init__(
        self, store: Store, settings: Settings, space: ActionSpace, recorder: Recorder
    ) -> None:
        self._store, self.settings, self._space, self._recorder = store, settings, space, recorder
        self._lock = RLock()  # of what is kept in memory
        self._rows = Rows(len(settings.limits))

    @property
    def given_safe(self) -> Any:
        """The safe policy, or the shortlist, as it was passed."""
        return self._space.given

    def observe(self, ids: ArrayLike, losses: Losses, rewards: ArrayLike | None = None) -> None:
        """Store the losses of actions of any round: late, and in any order.

        Either all of them are stored or none. A loss that is stored already may be repeated, and
        changes nothing; another value of it is refused. Where a run has several losses, each may
        arrive on its own.

        Parameters
        ----------
        ids : array-like of int
            The ids of the actions.
        losses : array-like of float, or mapping of str to array-like of float
            One loss per id, in [0, bound]; by name where the run has several losses.
        rewards : array-like of float, optional
            One finite reward per id.

        Raises
        ------
        ValueError
            If an id is unknown or has another loss already, or a loss is outside [0, bound].
        StoreError
            If the losses could not be stored.
        """
        self._recorder.observe(ids, losses, rewards, self.settings.limits)

    def withdraw(self, ids: ArrayLike, reason: str, *, actor: str | None = None) -> None:
        """Exclude actions that were never carried out, such as those of a process that crashed.

        Only for reasons that are unrelated to the loss: excluding rows because of their losses or
        actions would bias every later calibration. Either all of them are excluded or none. What
        was withdrawn for the same reason already may be repeated, and changes nothing.

        Parameters
        ----------
        ids : array-like of int
            The ids of the actions.
        reason : str
            Why they were not carried out; stored with them.
        actor : str, optional
            Who withdraws them; by default the name of the operating system's user.

        Raises
        ------
        ValueError
            If the reason is empty, or an id is unknown, was observed before, or was withdrawn for
            another reason.
        StoreError
            If it could not be stored.
        """
        reason = interventions.checked_reason("the actions are withdrawn", reason)
        self._recorder.withdraw(ids, reason, interventions.checked_actor(actor))

    def pending(self) -> TakenActions:
        """The actions of which a loss is still missing, oldest first.

        Returns
        -------
        TakenActions
            The actions and their ids.
        """
        with self._lock:
            self._refresh()
            return taken_rows(self._space, self._rows, np.flatnonzero(self._rows.pending))

    def training_rows(self) -> TrainingRows:
        """The rows that an optimizer may learn from: training rows whose losses are known.

        The calibration rows, on which the next calibration rests, cannot be read.

        Returns
        -------
        TrainingRows
            The rows as columns, oldest first.
        """
        with self._lock:
            self._refresh()
            rows = self._rows
            where = np.flatnonzero(rows.observed & ~rows.calibration)
            taken = taken_rows(self._space, rows, where)
            return TrainingRows.select(rows, where, taken, list(self.settings.limits))

    def halt(self, reason: str, *, actor: str | None = None) -> None:
        """Send all traffic to the safe policy, in every process, until `resume`.

        Parameters
        ----------
        reason : str
            Why; stored with it.
        actor : str, optional
            Who does it; by default the name of the operating system's user.
        """
        interventions.halt(self._store, reason, actor)

    def resume(self, reason: str, *, actor: str | None = None) -> None:
        """Clear the alarms that stand; the monitors restart.

        Parameters
        ----------
        reason : str
            Why they may be cleared; stored with it.
        actor : str, optional
            Who does it; by default the name of the operating system's user.
        """
        interventions.resume(self._store, reason, actor)

    def retire(self, number: int, reason: str, *, actor: str | None = None) -> None:
        """Leave the rows of a round's policy out of later calibrations, since the policy is lost.

        Only for reasons that are unrelated to the losses of the round.

        Parameters
        ----------
        number : int
            The number of the round.
        reason : str
            Why; stored with it.
        actor : str, optional
            Who does it; by default the name of the operating system's user.
        """
        interventions.retire(self._store, number, reason, actor)

    def history(self) -> History:
        """The run so far.

        Returns
        -------
        History
            Settings, rounds and alarms.
        """
        return read_history(self._store)

    def _refresh(self) -> None:
        self._recorder.deliver()
        with self._store.reading(patience=PATIENCE_FOR_ROWS) as connection:
            self._rows.refresh(connection)

    def _new_checkpoints(self) -> list[dict[str, Any]]:
        """Checkpoints of rows that have none yet, to be stored with a round."""
        with self._store.reading(patience=PATIENCE_FOR_ROWS) as connection:
            made = list(make_checkpoints(connection, self._rows.checkpoints))
        self._rows.checkpoints = []
        return made
