"""What every run has: a store, settings, losses that arrive late, acts of people, and an end."""

from __future__ import annotations

import getpass
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import numpy as np

from tether._core import signing, validate
from tether._core.arrays import Floats, Integers
from tether._core.records import encode
from tether.runs.body import Columns, pack
from tether.runs.errors import FinalLossError, StoreError, TamperedError
from tether.runs.event_log import EventLog, Result, Transaction
from tether.runs.history import History, read_history
from tether.runs.keys import Index, claims_of
from tether.runs.log_rows import cut
from tether.runs.outbox import Outbox
from tether.runs.settings import Settings
from tether.runs.state import LOSS, REWARD

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
        key: signing.PrivateKey | None = None,
        outbox: Outbox | None = None,
        free: tuple[str, ...] = (),
    ) -> None:
        if given is not None and key is not None:
            given = replace(given, signer=signing.key_id(signing.read_private_key(key)))
        self._log = EventLog(
            store,
            deadline=validate.number("deadline", deadline, above=0.01, below=86_400),
            create=given is not None,
            key=key,
            outbox=outbox,
            deliver=self._carry_out,
        )
        try:
            self._settings = self.submit(lambda t: self._create(t, given, free), PATIENCE)
        except TamperedError:
            if self._log.state.settings is None:
                self._log.close()
                raise
            self._settings = self._log.state.settings  # the safe policy or old system serves
        except BaseException:
            self._log.close()
            raise

    @classmethod
    def open(
        cls, store: str | Path, *, deadline: float = 5.0, key: signing.PrivateKey | None = None
    ) -> Run:
        """Open any run that exists, without its policies: to look, verify, halt or resume.

        Parameters
        ----------
        store : str or pathlib.Path
            A path (SQLite) or the URL of an SQLite or PostgreSQL database.
        deadline : float, default 5.0
            How many seconds a call may wait for the store.
        key : str, pathlib.Path or Ed25519PrivateKey, optional
            The private key of a signed run; without it the run can only be looked at.
        """
        return Run(store, None, deadline=deadline, key=key)

    def _create(self, t: Transaction, given: Settings | None, free: tuple[str, ...]) -> Settings:
        if t.state.original is None:
            if given is None:
                raise StoreError(f"{self._log.database.name} does not hold a tether run")
            t.append("settings", pack(dict(encode(given))))
        elif given is not None:
            t.state.original.check_same(given, self._log.database.name, free)
        return t.state.given

    @property
    def settings(self) -> Settings:
        """What was decided when the run began, and tightened since."""
        if self._log.state.settings is not None:
            self._settings = self._log.state.settings
        return self._settings

    def history(self) -> History:
        """Everything that the run has stored, as frozen records: units, alarms and acts."""
        name = self._log.database.name
        if self._log.tampered is not None:
            return read_history(self._log.state, name, tampered=str(self._log.tampered))
        return self.submit(lambda t: read_history(t.state, name), PATIENCE)

    def halt(self, reason: str, *, actor: str | None = None) -> None:
        """Send all traffic to the safe policy or old system until `resume`.

        Parameters
        ----------
        reason : str
            Why, for the record.
        actor : str, optional
            Who does it; the user of the process by default.
        """
        self.append_act("halt", reason, actor)

    def resume(self, reason: str, *, actor: str | None = None) -> None:
        """Clear every alarm, with a reason as for `halt`; the next unit begins anew."""
        self.append_act("resume", reason, actor)

    def tighten(self, reason: str, *, actor: str | None = None, **changes: float) -> None:
        """Tolerate less from now on: a smaller guardrail, growth or outcome deadline.

        Parameters
        ----------
        **changes : float
            Guardrails by name, `growth` or `outcome_deadline`. Loosening is refused.
        """
        self.append_act("tighten", reason, actor, changes=changes)

    def retire(self, number: int, reason: str, *, actor: str | None = None) -> None:
        """Leave the rows of a round's policy out of later calibrations, since the policy is lost.

        Only for reasons that are unrelated to the losses of the round.
        """
        self.append_act("retire", reason, actor, subject=str(number))

    def verify(self, key: signing.PublicKey | None = None) -> list[str]:
        """Replay everything and compare; what is wrong, in words.

        Parameters
        ----------
        key : str or pathlib.Path, optional
            The public key with which the run must be signed.

        Returns
        -------
        list of str
            Empty if the store is as it was written and follows from its rows.
        """
        from tether.runs.verify import verify_log

        return verify_log(self._log, key)

    def export(self, target: str | Path) -> None:
        """Copy the run into an empty store while it goes on: a backup, or a file for auditors.

        Parameters
        ----------
        target : str or pathlib.Path
            A file that does not exist yet, or the URL of a database that holds no run.
        """
        from tether.runs.export import copy_run

        self._log.read(lambda connection: copy_run(connection, target))

    def close(self) -> None:
        """Close the store; later calls are refused."""
        self._log.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # ---- shared with the two kinds ------------------------------------------------------------

    def append_act(self, act: str, reason: str, actor: str | None = None, **more: Any) -> None:
        """Store what a person did and why, unless it cannot be done now."""
        header = {**act_header(act, reason, actor), **more}

        def job(t: Transaction) -> None:
            t.state.check_act(header)
            t.append("act", pack(header))

        self.submit(job)

    def submit(self, job: Callable[[Transaction], Result], seconds: float | None = None) -> Result:
        """Run a job in one transaction; what it returned, once that is committed."""
        return self._log.submit(job, seconds)

    async def submit_async(self, job: Callable[[Transaction], Result], seconds: float) -> Result:
        """The same on an event loop."""
        return await self._log.submit_async(job, seconds)

    def _call(self, kind: str, header: dict[str, Any], columns: Columns) -> Any:
        """Carry out a call in a transaction, or keep it in the outbox: then None.

        It is kept if the store does not answer, and there is an outbox; not for a store that was
        tampered with, to which nothing is delivered any more.
        """
        log = self._log
        if log.is_available or log.outbox is None or log.tampered is not None:
            try:
                return log.submit(lambda t: self._carry_out(t, kind, header, columns))
            except StoreError as error:
                if log.outbox is None or isinstance(error, TamperedError):
                    raise
                log.is_available = False  # until the writer has reached the store again
        log.outbox.add(kind, pack(header | {"outage": True}, **columns))
        return None

    def _carry_out(
        self, t: Transaction, kind: str, header: dict[str, Any], columns: Columns
    ) -> Any:
        """Carry out a call, which may have waited in the outbox, inside a transaction."""
        raise NotImplementedError

    @staticmethod
    def _store_losses(
        t: Transaction, rows: Integers, columns: Columns, keep_first: bool = False
    ) -> int:
        """Append losses of rows, which are final, and rewards; how many losses are new."""
        new: dict[str, Floats] = {}
        for name, values in columns.items():
            stored = t.state.rows[name][rows]
            known = ~np.isnan(stored)
            differs = known & ~np.isnan(values) & (stored != values)
            if differs.any() and not keep_first and name != REWARD:
                place = int(np.argmax(differs))
                raise FinalLossError(
                    f"loss {name.removeprefix(LOSS)!r} of row {rows[place]} is final at "
                    f"{stored[place]:g}, got {values[place]:g}"
                )
            new[name] = np.where(known, np.nan, values)
        counts = {name: ~np.isnan(values) for name, values in new.items()}
        chosen = np.flatnonzero(np.any(list(counts.values()), axis=0))
        held = {name: each[chosen] for name, each in {"row": rows, **new}.items()}
        for _, part in cut(held):
            t.append("losses", pack({}, **part))
        return int(sum(each.sum() for name, each in counts.items() if name != REWARD))


def append_rows(t: Transaction, header: dict[str, Any], columns: Columns, index: Index) -> int:
    """Append the rows of one call, given the claims on their keys before it; the first of them."""
    first = t.state.rows.size
    for start, part in cut(columns):
        held = {**header, "first": first + start}
        t.append("rows", pack(held, **part), claims_of(t.state, held, part, index))
    return first


def losses_in(columns: Columns) -> Columns:
    """The losses and rewards among the columns of a call."""
    return {name: each for name, each in columns.items() if name.startswith(LOSS) or name == REWARD}


def act_header(act: str, reason: str, actor: str | None) -> dict[str, Any]:
    """What a person did, why, and who it was."""
    if not isinstance(reason, str) or not reason.strip():
        raise ValueError(f"reason must be text that says why, got {reason!r}")
    who = getpass.getuser() if actor is None else actor
    if not isinstance(who, str) or not who.strip():
        raise ValueError(f"actor must be a name, got {actor!r}")
    return {"act": act, "reason": reason.strip(), "actor": who.strip()}
