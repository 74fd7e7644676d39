"""A process that ramps policies until it is killed."""

from __future__ import annotations

import os
import signal

import numpy as np
import sqlalchemy as sql

import tether
from tests.rounds.ramps.ramp_model import AlwaysTakes
from tests.rounds.worker_process import Journal

ACTIONS_PER_STEP, BATCH = 20, 10
RAMPED = {
    "promise": 0.3,  # whose shares are computed, and verified, much faster than those of an alpha
    "family": "ramp",
    "actions_per_step": ACTIONS_PER_STEP,
    "max_silence": None,
}


def open_ramp(url: str) -> tether.Controller:
    """The run, as every process of these tests opens it."""
    return tether.Controller(
        AlwaysTakes(0), store=url, policies=ramped_policy, deadline=60, **RAMPED
    )


def ramped_policy(name: str) -> AlwaysTakes:
    """The policy of that name: "policy 1" always takes action 1."""
    return AlwaysTakes(int(name.split()[-1]))


def safe_rows(url: str) -> None:
    """Begin the run with rows of the safe policy."""
    with open_ramp(url) as run:
        taken = run.begin().act(60, np.random.default_rng(0))
        run.observe(taken.ids, np.zeros(len(taken)))


def act_in_ramp(url: str, journal: str, life: int, trip: int) -> None:
    """Act and observe, and be killed at that point: around a statement that writes.

    The first lives find the policy of the last one, and every third begins with another.
    """
    notes, rng = Journal(journal), np.random.default_rng([life, trip])
    run = open_ramp(url)
    _die_around_writes(trip)
    present = run.round
    if life % 3 == 0 or present is None or present.ramp_share is None:
        name = f"policy {1 + life % 5}"
        present = run.begin(ramped_policy(name), name=name)
        notes.write("begin", round=present.number, share=present.share)
    for call in range(5):
        key = f"{life} {trip} {call}"
        notes.write("will act", key=key)
        taken = present.act(BATCH, rng, key=key)
        ids, actions = taken.ids.tolist(), taken.actions.tolist()
        notes.write("act", key=key, ids=ids, actions=actions)
        run.observe(taken.ids, (taken.actions == 0) * 0.1)
        notes.write("observe", ids=ids, losses=[0.1 * (each == 0) for each in actions])


def _die_around_writes(trip: int) -> None:
    """Be killed before or after a statement that writes, at the given one of these moments."""
    passed = 0

    def touch(connection, cursor, statement, *_: object) -> None:
        nonlocal passed
        if statement.startswith(("INSERT", "UPDATE", "WITH")):  # PostgreSQL writes some at once
            passed += 1
            if passed == trip:
                os.kill(os.getpid(), signal.SIGKILL)

    for event in ("before_cursor_execute", "after_cursor_execute"):
        sql.event.listen(sql.Engine, event, touch)
