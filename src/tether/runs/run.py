"""What every run has: a store, settings, losses that arrive late, acts of people, and an end."""

from __future__ import annotations

import getpass
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Self, TypeVar

import numpy as np

from tether._core import validate
from tether._core.arrays import Floats, Integers
from tether.runs.body import pack, unpack
from tether.runs.errors import FinalLossError, StoreError
from tether.runs.event_log import Event, EventLog, Transaction
from tether.runs.history import History, read_history
from tether.runs.settings import Settings
from tether.runs.state import State

Result = TypeVar("Result")

ROWS_PER_EVENT = 50_000
"""A call with more rows is stored as several events."""
PATIENCE = 600.0
"""How many seconds opening, history and verification may take."""


class Run:
    """A run in a store; `Controller` and `Release` are the two kinds of it."""

    def __init__(
        self,
        store: str | Path,
        given: Settings | None,
        *,
        deadline: float = 5.0,
        sign: Callable[[bytes], str] | None = None,
        free: tuple[str, ...] = (),
    ) -> None:
        deadline = validate.number("deadline", deadline, above=0.01, below=86_400)
        self._log = EventLog(
            store, State, deadline=deadline, create=given is not None, sign=sign, undo=_withdraw
        )
        try:
            self._settings = self._submit(lambda t: self._create(t, given, free), PATIENCE)
        except BaseException:
            self._log.close()
            raise

    @classmethod
    def open(cls, store: str | Path, *, deadline: float = 5.0) -> Run:
        """Open any run that exists, without its policies: to look, verify, halt or resume.

        Parameters
        ----------
        store : str or pathlib.Path
            A path (SQLite) or the URL of an SQLite or PostgreSQL database.
        deadline : float, default 5.0
            How many seconds a call may wait for the store.

        Returns
        -------
        Run
            The run.
        """
        return Run(store, None, deadline=deadline)

    def _create(self, t: Transaction, given: Settings | None, free: tuple[str, ...]) -> Settings:
        if t.state.settings is None:
            if given is None:
                raise StoreError(f"{self._log.database.name} holds no run of tether")
            t.append("settings", pack(given.to_dict()))
        elif given is not None:
            t.state.settings.check_same(given, self._log.database.name, free)
        found: Settings = t.state.given
        return found

    @property
    def settings(self) -> Settings:
        """What was decided when the run began, and tightened since."""
        if self._log.state.settings is not None:
            self._settings = self._log.state.settings
        return self._settings

    def history(self) -> History:
        """Everything that the run has stored, as frozen records.

        Returns
        -------
        History
            Units, alarms and acts.
        """
        name = self._log.database.name
        return self._submit(lambda t: read_history(t.state, name), PATIENCE)

    def halt(self, reason: str, *, actor: str | None = None) -> None:
        """Send all traffic to the safe policy or old system until `resume`.

        Parameters
        ----------
        reason : str
            Why, for the record.
        actor : str, optional
            Who does it; the user of the process by default.
        """
        header = _act("halt", reason, actor)

        def job(t: Transaction) -> None:
            t.append("act", pack(header))
            t.append("alarm", pack({"monitor": "halt", "message": header["reason"]}))

        self._submit(job)

    def resume(self, reason: str, *, actor: str | None = None) -> None:
        """Clear every alarm; the next unit begins anew.

        Parameters
        ----------
        reason, actor : str
            As for `halt`.
        """
        header = _act("resume", reason, actor)

        def job(t: Transaction) -> None:
            if t.state.standing is None:
                raise ValueError("no alarm stands: there is nothing to resume from")
            t.append("act", pack(header))

        self._submit(job)

    def tighten(self, reason: str, *, actor: str | None = None, **changes: float) -> None:
        """Tolerate less from now on: a smaller guardrail, growth or outcome deadline.

        Parameters
        ----------
        reason, actor : str
            As for `halt`.
        **changes : float
            Guardrails by name, `growth` or `outcome_deadline`. Loosening is refused.
        """
        header = {**_act("tighten", reason, actor), "changes": changes}

        def job(t: Transaction) -> None:
            t.state.given.tightened(**changes)
            t.append("act", pack(header))

        self._submit(job)

    def verify(self) -> list[str]:
        """Replay everything and compare; what is wrong, in words.

        Returns
        -------
        list of str
            Empty if the store is as it was written and follows from its rows.
        """
        from tether.runs.verify import verify_log

        return verify_log(self._log)

    def close(self) -> None:
        """Close the store; later calls are refused."""
        self._log.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # ---- shared with the two kinds ------------------------------------------------------------

    def _submit(self, job: Callable[[Transaction], Result], seconds: float | None = None) -> Result:
        return self._log.submit(job, seconds)

    @staticmethod
    def _finish(t: Transaction) -> None:
        """Append the alarm that what was appended has raised."""
        if t.state.raises is not None:
            monitor, message = t.state.raises
            t.append("alarm", pack({"monitor": monitor, "message": message}))

    @staticmethod
    def _store_losses(
        t: Transaction, rows: Integers, losses: Mapping[str, Floats], keep_first: bool = False
    ) -> int:
        """Append losses of rows, which are final; how many are new."""
        new: dict[str, Floats] = {}
        for name, values in losses.items():
            stored = t.state.loss(name)[rows]
            known = ~np.isnan(stored)
            differs = known & ~np.isnan(values) & (stored != values)
            if differs.any() and not keep_first:
                place = int(np.argmax(differs))
                raise FinalLossError(
                    f"loss {name!r} of row {rows[place]} is final at {stored[place]:g}, "
                    f"got {values[place]:g}"
                )
            new[name] = np.where(known, np.nan, values)
        any_new = np.any([~np.isnan(values) for values in new.values()], axis=0)
        chosen = np.flatnonzero(any_new)
        for start in range(0, len(chosen), ROWS_PER_EVENT):
            part = chosen[start : start + ROWS_PER_EVENT]
            columns = {f"loss/{name}": values[part] for name, values in new.items()}
            t.append("losses", pack({"losses": list(new)}, row=rows[part], **columns))
        return int(sum((~np.isnan(values)).sum() for values in new.values()))


def _act(act: str, reason: str, actor: str | None) -> dict[str, Any]:
    if not isinstance(reason, str) or not reason.strip():
        raise ValueError(f"reason must say why, got {reason!r}")
    who = getpass.getuser() if actor is None else actor
    if not isinstance(who, str) or not who.strip():
        raise ValueError(f"actor must be a name, got {actor!r}")
    return {"act": act, "reason": reason.strip(), "actor": who.strip()}


def _withdraw(t: Transaction, events: list[Event]) -> None:
    """Withdraw rows whose caller was told that nothing was stored."""
    t.mark = b""
    for event in events:
        if event.kind != "rows":
            continue
        header, columns = unpack(event.body)
        rows = header["first"] + np.arange(len(columns["arm"]), dtype=np.int64)
        t.append("withdrawn", pack({"reason": "the call had been answered otherwise"}, row=rows))


def findings(checks: Iterator[str]) -> list[str]:
    """Everything that is wrong, at most a thousand of it."""
    return [each for each, _ in zip(checks, range(1000), strict=False)]
