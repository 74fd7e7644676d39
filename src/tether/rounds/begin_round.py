"""Beginning a round: calibrate what was given, store it, and hand it out."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import numpy as np
import sqlalchemy as sql

from tether.policies.policy import Policy
from tether.rounds.calibrate_round import calibrate_round
from tether.rounds.round import Round
from tether.rounds.round_start import RoundStart, alarm_note
from tether.rounds.store import queries, schema
from tether.rounds.store.serving import read_retired, read_serving
from tether.rounds.stored_policies import SavedPolicy, save_policy_content

if TYPE_CHECKING:
    from tether.rounds.controller import Controller

logger = logging.getLogger("tether.rounds")

MAX_NAME_LENGTH = 200
"""How long the name of a policy may be."""


def begin_round(run: Controller, optimized: Any, name: str | None) -> Round:
    """Calibrate how far `optimized` may go, and begin the round."""
    policy = None if optimized is None else run._space.optimized("optimized", optimized)
    run._refresh()
    with run._store.reading() as connection:
        serving, retired = read_serving(connection), read_retired(connection)
    number = 1 + serving.round
    name = f"round {number}" if name is None else checked_name(name)
    if policy is not None:
        run._registry.check_name(name, policy, number)
        if serving.alarm is None:
            run._space.check_served(optimized)
    try:
        start = _start(run, policy, number, serving.alarm, retired)
        saved = _add(run, number, policy, start)
        start.save(
            run._store,
            number,
            name,
            policy,
            run._rows.seen,
            run._scores,
            run._new_checkpoints(),
            saved,
            run.settings.limits,
        )
        run._scores.mark_saved()
    except BaseException as error:
        run._scores.forget()
        if isinstance(error, Exception):  # an interrupt may come after the commit
            run._registry.forget(number)
        raise
    logger.info("round %d of %s begins: %s", number, run._store.name, _summary(start))
    return Round(number, start.calibration, start.note, run, start.deployed)


def _add(run: Controller, number: int, policy: Policy | None, start: RoundStart) -> SavedPolicy:
    """Remember what a round deploys; its policy as it is stored."""
    if start.deployed is None:
        return SavedPolicy()
    run._registry.add(number, start.deployed)
    return save_policy_content(policy)


def _summary(start: RoundStart) -> str:
    """What serves, in a few words."""
    if start.deployed is None or start.calibration is None:
        return f"the safe policy serves ({start.note})"
    return f"beta {start.calibration.beta:.6g}"


def present_round(run: Controller) -> Round | None:
    """The last round, also after a restart; None before the first."""
    table = schema.rounds
    query = sql.select(table).order_by(table.c.number.desc()).limit(1)
    with run._store.reading() as connection:
        row = connection.execute(query).mappings().one_or_none()
        retired = read_retired(connection)
    if row is None:
        return None
    number, deployed = row["number"], None
    if row["log_beta"] > -np.inf and number not in retired:
        deployed = run._registry.deployed(number)
    calibration = queries.calibration_from_json(row["calibration"])
    return Round(number, calibration, row["note"], run, deployed)


def _start(
    run: Controller,
    optimized: Policy | None,
    number: int,
    alarm: int | None,
    retired: frozenset[int],
) -> RoundStart:
    if alarm is not None:
        return RoundStart(note=alarm_note(alarm))
    if optimized is None:
        return RoundStart(note="no optimized policy was given")
    assert run._family is not None  # a ramp begins its rounds elsewhere
    return calibrate_round(
        run.settings,
        run._family,
        run._rows,
        run._scores,
        run._registry,
        optimized,
        number,
        run._draws,
        retired,
    )


def checked_name(name: str) -> str:
    """The name of a policy: text that can be stored."""
    if not isinstance(name, str) or not 0 < len(name) <= MAX_NAME_LENGTH:
        raise ValueError(f"name must be text of 1 to {MAX_NAME_LENGTH} characters, got {name!r}")
    if queries.storable_text(name) != name:
        raise ValueError(f"name must not contain NUL or lone surrogates, got {name!r}")
    return name
