"""Reading the history of a release from its store."""

from __future__ import annotations

from pathlib import Path

from tether.rounds.errors import StoreError, as_tampering
from tether.rounds.history import AuditRecord
from tether.rounds.history_reader import alarm_record, count_actions, mean_losses
from tether.rounds.losses_seen import OLD_SUMS, LossesSeen
from tether.rounds.releases.release_history import ReleaseHistory, StepRecord, SystemRecord
from tether.rounds.releases.release_settings import ReleaseSettings
from tether.rounds.releases.step import Step
from tether.rounds.releases.unstored_answers import count_unstored
from tether.rounds.run_settings import RELEASE_KIND, check_kind
from tether.rounds.store import schema
from tether.rounds.store.database import PATIENCE_FOR_ROWS, Store
from tether.rounds.store.opened_store import opened_store
from tether.rounds.store.queries import read_all, read_settings
from tether.rounds.store.serving import read_serving


def read_release(store: str | Path | Store) -> ReleaseHistory:
    """Read the history of the release in a store.

    Parameters
    ----------
    store : str, pathlib.Path or Store
        The path or URL of an existing store, or an open one.

    Returns
    -------
    ReleaseHistory
        Settings, steps and alarms so far.

    Raises
    ------
    ValueError
        If the store holds something else.
    StoreError
        If there is no store, it is empty, or it cannot be read.
    """
    with opened_store(store) as opened:
        return _read_release(opened)


def _read_release(store: Store) -> ReleaseHistory:
    with store.reading(patience=PATIENCE_FOR_ROWS) as connection:
        stored = read_settings(connection)
        if not stored:
            raise StoreError(f"{store.name} holds no release yet")
        check_kind(stored, RELEASE_KIND, store.name)
        settings = ReleaseSettings.from_dict(stored)
        with as_tampering("the table of steps"):
            steps = [Step.from_row(row) for row in read_all(connection, schema.rounds)]
        audit = tuple(AuditRecord(**row) for row in read_all(connection, schema.audit))
        alarms = tuple(alarm_record(row, audit) for row in read_all(connection, schema.alarms))
        counts, losses = count_actions(connection), LossesSeen(connection, settings)
        losses.update(watch=False)  # those that nobody has added to the sums yet
        records = tuple(
            StepRecord(
                number=step.number,
                begun=step.begun,
                calibration=step.ramp_share,
                window=step.window,
                ramp=step.ramp,
                old=SystemRecord(
                    counts[step.number].safe, mean_losses(losses.sums(step.number, OLD_SUMS))
                ),
                new=SystemRecord(
                    counts[step.number].rows - counts[step.number].safe,
                    mean_losses(losses.sums(step.number)),
                ),
            )
            for step in steps
        )
        serving, old = read_serving(connection), mean_losses(losses.sums(None))
        unstored = count_unstored(connection)
    is_stopped = serving.alarm is not None or serving.cleared > steps[-1].cleared
    return ReleaseHistory(
        store=store.name,
        created=settings.created,
        limits=settings.limits,
        target=settings.target,
        confidence=settings.confidence,
        length=_length(settings),
        wait=settings.wait,
        share=0.0 if is_stopped else steps[-1].share,
        steps=records,
        old_losses=old,
        alarms=alarms,
        audit=audit,
        unstored=unstored,
    )


def _length(settings: ReleaseSettings) -> str:
    if settings.keys_per_step is not None:
        return f"{settings.keys_per_step:,} keys"
    if settings.step_seconds is not None:
        return f"{settings.step_seconds:g} seconds"
    return "by hand"
