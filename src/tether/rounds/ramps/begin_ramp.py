"""Beginning rounds of a run that ramps: of the safe policy, of a new policy, and its next steps."""

from __future__ import annotations

import json
import logging
import math
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import sqlalchemy as sql

from tether.rounds.begin_round import checked_name
from tether.rounds.errors import RoundTakenError, as_tampering
from tether.rounds.kept import Kept
from tether.rounds.outage import Budget
from tether.rounds.policy_registry import SAFE, fingerprint
from tether.rounds.ramps.next_ramp_step import next_ramp_step
from tether.rounds.ramps.policy_rows import count_policy_rows
from tether.rounds.ramps.ramp_record import ABOUT_POLICY, RampRecord, read_ramp_records
from tether.rounds.ramps.ramp_round import RampRound
from tether.rounds.recording import check_latest
from tether.rounds.releases.step import moment
from tether.rounds.silence import end_silence, taken
from tether.rounds.store import schema
from tether.rounds.store.checkpoints import write_checkpoints
from tether.rounds.store.database import PATIENCE_FOR_ROWS
from tether.rounds.store.lanes import Lane, read_lanes
from tether.rounds.store.queries import read_round, storable_text
from tether.rounds.store.serving import Serving, read_serving
from tether.rounds.store.writer import Writer
from tether.rounds.stored_policies import SavedPolicy, save_policy_content

if TYPE_CHECKING:
    from tether.rounds.controller import Controller

logger = logging.getLogger("tether.rounds")

SAFE_NOTE = "no optimized policy was given"


def begin_ramp(run: Controller, optimized: Any, name: str | None) -> RampRound:
    """Begin the first step of a new policy, or a round of the safe policy without one."""
    policy = None if optimized is None else run._space.optimized("optimized", optimized)
    with run._store.reading() as connection:
        number = 1 + read_serving(connection).round
    name = f"round {number}" if name is None else checked_name(name)
    saved = SavedPolicy()
    about: dict[str, Any] = {}
    if policy is not None:
        run._registry.check_name(name, policy, number)
        saved = save_policy_content(policy)
        about = {
            "policy": name,
            "fingerprint": fingerprint(policy),
            "policy_digest": saved.digest,
            "policy_problem": storable_text(saved.problem) or None,
        }
    try:
        checkpoints = _read_rows(run)
        if policy is not None:
            run._registry.keep(number, policy)
        with run._store.writing(exclusive=True, patience=PATIENCE_FOR_ROWS) as writer:
            run._monitors.update(writer)
            serving = read_serving(writer.connection)
            if serving.round != number - 1:
                raise RoundTakenError(
                    f"round {number} was begun by another process meanwhile: use `run.round`, or "
                    f"begin the next round"
                )
            saved.write(writer)
            record, note = _write(run, writer, serving, about, begins=True)
            write_checkpoints(writer, checkpoints)
    except Exception:
        run._registry.forget(number)
        raise
    logger.info("round %d of %s begins: %s", number, run._store.name, note)
    return RampRound(number, None, note, run, None, record)


def advance(run: Controller) -> RampRound:
    """Begin the next step of the present policy by hand."""
    settings = run.settings
    if not settings.is_ramp:
        raise ValueError(f"advance is for family='ramp', and this run has {settings.family!r}")
    if settings.actions_per_step is not None and settings.confidence is None:
        raise ValueError(
            f"the steps of this run end by themselves, after {settings.actions_per_step} actions: "
            f"a step that is ended by hand could be ended because its losses look good"
        )
    return _next_step(run, due_only=False)


def step_in_use(handle: RampRound) -> RampRound:
    """The present step of the policy of a round; the next one is begun if that is due.

    To begin a step all rows are read, which may take longer than one call may wait for the store
    and is no outage. A failure is remembered as one.
    """
    run = handle._run
    if handle._is_of_safe:
        return handle
    while True:
        look = run._recorder.attempt(Budget(run._store.deadline))
        with look, run._store.reading() as connection:
            serving, lanes = read_serving(connection), read_lanes(connection)
            present = handle
            if serving.round != handle.number:
                present = _read(run, connection, serving.round)
        if present._stored.step is None or present._stored.first != handle._stored.first:
            check_latest(serving, handle.number)
        if not _is_over(run, present._stored, serving, lanes):
            return present
        outage = run._recorder.outage
        with run._lock, nullcontext() if outage is None else outage.remembered():
            _next_step(run, due_only=True)


def present_ramp_round(run: Controller) -> RampRound | None:
    """The last round, also after a restart; None before the first."""
    with run._store.reading() as connection:
        number = read_serving(connection).round
        present = _read(run, connection, number) if number else None
    if present is not None and present._serves:
        run._registry.ramped(number)  # refused now if it is not available
        run._registry.ramped(present.reference)
    return present


def _next_step(run: Controller, *, due_only: bool) -> RampRound:
    """Begin the next step; if `due_only`, unless another process has."""
    checkpoints, number = _read_rows(run), None
    try:
        with run._store.writing(exclusive=True, patience=PATIENCE_FOR_ROWS) as writer:
            run._monitors.update(writer)
            connection = writer.connection
            serving = read_serving(connection)
            present = _read(run, connection, serving.round) if serving.round else None
            if present is None or present._stored.step is None:
                raise ValueError("advance needs a policy that is ramped: pass one to `begin`")
            if due_only and not _is_over(run, present._stored, serving, read_lanes(connection)):
                return present
            number = serving.round + 1
            about = _about(connection, serving.round)
            run._registry.ramp_on(number, serving.round)
            record, note = _write(run, writer, serving, about, begins=False)
            write_checkpoints(writer, checkpoints)
    except Exception:
        if number is not None:
            run._registry.forget(number)
        raise
    logger.info("round %d of %s begins: %s", record.number, run._store.name, note)
    return RampRound(record.number, None, note, run, None, record)


def _write(
    run: Controller, writer: Writer, serving: Serving, about: dict[str, Any], *, begins: bool
) -> tuple[RampRecord, str]:
    """Store a round, in a transaction without any other writer; and its note."""
    run._rows.refresh(writer.connection)
    number, begun = serving.round + 1, moment().isoformat()
    if about:
        record = next_ramp_step(
            run.settings,
            count_policy_rows(run._rows, list(run.settings.limits)),
            read_ramp_records(writer.connection),
            begins=begins,
            alarm=serving.alarm,
            cleared=serving.cleared,
            seen=_seen(run),
            begun=begun,
        )
        row = record.to_row()
    else:
        record = RampRecord(number, SAFE, number, None)
        row = record.to_row() | {
            "number": number,
            "log_beta": -math.inf,
            "seen": run._rows.seen,
            "note": SAFE_NOTE,
            "begun": begun,
        }
    writer.record(schema.rounds, row | {"policy": None} | about)
    if number == 1:
        kept = Kept(writer.connection)
        end_silence(kept, run.settings.limits, writer.lanes)
        kept.save()
    return record, row["note"]


def _seen(run: Controller) -> dict[int, tuple[int, int]]:
    return {
        int(lane): (place[0] or 0, place[1] or 0)
        for lane, place in json.loads(run._rows.seen).items()
    }


def _read_rows(run: Controller) -> list[dict[str, Any]]:
    """Read most rows before other writers have to wait; checkpoints of them."""
    run._refresh()
    return run._new_checkpoints()


def _read(run: Controller, connection: sql.Connection, number: int) -> RampRound:
    row = read_round(connection, number)
    with as_tampering(f"round {number}"):
        record = RampRecord.from_row(row)
    return RampRound(number, None, row["note"], run, None, record)


def _about(connection: sql.Connection, number: int) -> dict[str, Any]:
    """The policy of a round, as its row names it."""
    row = read_round(connection, number)
    return {name: row[name] for name in ABOUT_POLICY}


def _is_over(run: Controller, record: RampRecord, serving: Serving, lanes: dict[int, Lane]) -> bool:
    """Whether the next step of a policy is due: its actions were taken, or a person has resumed."""
    step, length = record.step, run.settings.actions_per_step
    if step is None or serving.alarm is not None:
        return False
    if serving.cleared > step.cleared:
        return True
    return length is not None and taken(lanes) - step.rows_before >= length
