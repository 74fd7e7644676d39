"""What people do to a run: halt it, resume it, retire a round; each with a name and a reason.

Every such act is stored for good, in the audit trail.
"""

from __future__ import annotations

import getpass
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tether._core import validate
from tether.rounds.any_settings import any_settings
from tether.rounds.errors import StoreError
from tether.rounds.monitors import Monitors
from tether.rounds.run_settings import ROUNDS_KIND, check_kind
from tether.rounds.store import queries, schema
from tether.rounds.store.database import Store
from tether.rounds.store.opened_store import opened_store
from tether.rounds.store.serving import RESUME, RETIRE, read_retired
from tether.rounds.store.writer import Writer

HALT = "halt"
"""The act in the audit trail that raises an alarm."""
MAX_ACTOR_LENGTH = 200


def halt(store: str | Path | Store, reason: str, actor: str | None = None) -> None:
    """Send all traffic to the safe policy, in every process, until `resume`.

    Parameters
    ----------
    store : str, pathlib.Path or Store
        The path or URL of an existing store, or an open one.
    reason : str
        Why; stored with it.
    actor : str, optional
        Who does it; by default the name of the operating system's user.

    Raises
    ------
    ValueError
        If the reason is empty.
    StoreError
        If there is no store, or it cannot be written.
    """
    reason, actor = checked_reason("the run is halted", reason), checked_actor(actor)
    with _using(store) as opened, opened.writing(exclusive=True) as writer:
        queries.write_audit(writer, HALT, actor, reason)
        latest = writer.serving.round
        queries.write_alarm(writer, latest, HALT, f"halted by {actor}: {reason}")


def resume(store: str | Path | Store, reason: str, actor: str | None = None) -> None:
    """Clear the alarms that stand in a store; the monitors restart. No policy is needed.

    Parameters
    ----------
    store : str, pathlib.Path or Store
        The path or URL of an existing store, or an open one.
    reason : str
        Why the alarm may be cleared; stored with it.
    actor : str, optional
        Who does it; by default the name of the operating system's user.

    Raises
    ------
    ValueError
        If the reason is empty, or no alarm stands.
    StoreError
        If there is no store, or it cannot be written.
    """
    reason, actor = checked_reason("the alarm may be cleared", reason), checked_actor(actor)
    with _using(store) as opened, opened.writing(exclusive=True) as writer:
        if writer.serving.alarm is None:
            raise ValueError(f"no alarm stands in {opened.name}: there is nothing to resume from")
        last = queries.last_number(writer.connection, schema.alarms.c.number)
        queries.write_audit(writer, RESUME, actor, reason, last)
        settings = any_settings(queries.read_settings(writer.connection))
        Monitors(settings).restart(writer)


def retire(store: str | Path | Store, number: int, reason: str, actor: str | None = None) -> None:
    """Leave the rows of a round's policy out of later calibrations, since the policy is lost.

    Only for reasons that are unrelated to the losses of the round. If it is the present round, the
    safe policy serves from now on.

    Parameters
    ----------
    store : str, pathlib.Path or Store
        The path or URL of an existing store, or an open one.
    number : int
        The number of the round.
    reason : str
        Why; stored with it.
    actor : str, optional
        Who does it; by default the name of the operating system's user.

    Raises
    ------
    ValueError
        If the reason is empty, there is no such round, it has no policy of its own, or another
        round's beta is measured against it.
    StoreError
        If there is no store, or it cannot be written.
    """
    reason, actor = checked_reason("the round is retired", reason), checked_actor(actor)
    number = validate.integer_at_least("number", number)
    with _using(store) as opened, opened.writing(exclusive=True) as writer:
        stored = queries.read_settings(writer.connection)
        check_kind(stored, ROUNDS_KIND, opened.name)
        if any_settings(stored).is_ramp:
            raise ValueError(
                f"{opened.name} ramps its policies, and weighs no rows of lost ones: begin the "
                f"next round instead of retiring round {number}"
            )
        _check_retirable(writer, number)
        queries.write_audit(writer, RETIRE, actor, reason, number)


def checked_actor(actor: str | None) -> str:
    """The name of who does something; by default that of the operating system's user."""
    if actor is None:
        try:
            return getpass.getuser()
        except (OSError, KeyError, ImportError):
            return "unknown"
    if not isinstance(actor, str) or not 0 < len(actor.strip()) <= MAX_ACTOR_LENGTH:
        raise ValueError(
            f"actor must be a name of at most {MAX_ACTOR_LENGTH} characters, got {actor!r}"
        )
    return queries.storable_text(actor.strip())


def checked_reason(what: str, reason: str) -> str:
    """A reason that is not empty; `what` it is the reason for stands in the error."""
    if not isinstance(reason, str) or not reason.strip():
        raise ValueError(f"reason must say why {what}, got {reason!r}")
    return queries.storable_text(reason.strip())


def _check_retirable(writer: Writer, number: int) -> None:
    rows = {row["number"]: row for row in queries.read_all(writer.connection, schema.rounds)}
    retired = read_retired(writer.connection)
    if number not in rows or rows[number]["log_beta"] == -float("inf"):
        raise ValueError(f"number must be a round with a policy of its own, got {number!r}")
    if number in retired:
        raise ValueError(f"round {number} is retired already")
    resting = [row["number"] for row in rows.values() if row["reference"] == number]
    if set(resting) - retired:
        raise ValueError(
            f"the beta of round {min(set(resting) - retired)} is measured against round {number}: "
            f"retire that first"
        )


@contextmanager
def _using(store: str | Path | Store) -> Iterator[Store]:
    """An open store as it is; another one, with a run in it, opened and closed at the end."""
    with opened_store(store) as opened:
        if opened is not store:
            with opened.reading() as connection:
                if not queries.read_settings(connection):
                    raise StoreError(f"{opened.name} holds no run of tether yet")
        yield opened
