"""A process that runs rounds and journals what was returned to it, to be killed at any moment."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import numpy as np
import sqlalchemy as sql
from sqlalchemy.dialects.postgresql.psycopg import PGDialect_psycopg
from sqlalchemy.dialects.sqlite.pysqlite import SQLiteDialect_pysqlite

import tether
from tests.scale import SCALE
from tether.rounds import Controller

CONTEXTS, ACTIONS, BATCH = 3, 4, 12
WRONG = 4
READS = ("SELECT", "PRAGMA", "BEGIN")
"""How statements begin that leave a store as it is."""
SETTINGS = {"alpha": 0.3, "alarm_risk": 0.45, "false_alarm_probability": 0.1, "missing": "exclude"}


def table(pull: float) -> tether.Categorical:
    """A policy that likes later actions the more, the larger `pull` is."""
    context, action = np.mgrid[:CONTEXTS, :ACTIONS]
    return tether.Categorical.from_logits(0.3 * context - 0.2 * action + pull * action)


def named(name: str) -> tether.Categorical:
    """The optimized policy "tilt 3", and so on."""
    return table(0.5 + 0.2 * (int(name.split()[1]) % 4))


def open_run(url: str, deadline: float = 60) -> Controller:
    """The run, as every process of these tests opens it."""
    return Controller(table(0.0), store=url, policies=named, deadline=deadline, **SETTINGS)


def begin_and_act(run, rows=30, seed=0, name=None):
    """Begin a round and take some actions in it."""
    current = run.begin(None if name is None else named(name), name=name)
    rng = np.random.default_rng(seed)
    return current, current.act(rng.integers(CONTEXTS, size=rows), rng)


def two_rounds(run):
    """A round to calibrate on, and a round of a tethered policy; its actions, not yet observed."""
    _, taken = begin_and_act(run, rows=60)
    run.observe(taken.ids, 0.01 + 0.13 * taken.actions)
    _, taken = begin_and_act(run, rows=40, name="tilt 2", seed=1)
    return taken


def warm_up() -> None:
    """Go through a round once, so that children need not import anything."""
    with open_run("sqlite://") as run:
        for optimized in (None, named("tilt 1")):
            taken = run.begin(optimized).act(
                np.arange(CONTEXTS).repeat(9), np.random.default_rng(0)
            )
            run.observe(taken.ids, np.zeros(len(taken)))
        run.history()


class Journal:
    """What a worker is about to do, and what was returned to it: whole lines, in the file."""

    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def write(self, what: str, **content: object) -> None:
        """One line, in one call: it is there whole once this returns, whoever is killed then."""
        os.write(self._file, (json.dumps({"what": what, **content}) + "\n").encode())


def read_journal(path: str | Path) -> list[dict]:
    """All lines so far."""
    return [json.loads(line) for line in Path(path).read_text().splitlines()]


def live(url: str, journal: str, seed: int, trip: int = 0) -> None:
    """Rounds without end. With `trip`, be killed at that point: around a commit, or at a return.

    A life takes up the round that is open at one of three places, in turn by its seed. Rows that an
    earlier life got to know are observed; those that nobody knows of are withdrawn.
    """
    touch = _tripwire(trip, commits=True)
    rng, notes = np.random.default_rng(seed), Journal(journal)
    known_ids = {i for line in read_journal(journal) if line["what"] == "act" for i in line["ids"]}
    run = open_run(url)
    touch()
    current, stage = run.round, seed % 3
    while True:
        if current is not None:
            for _ in range(3 * (stage == 0)):
                _act(run, current, notes, known_ids, rng)
                touch()
            for _ in range(stage < 2):
                _settle(run, current, notes, known_ids, rng)
                touch()
        number = current.number + 1 if current else 1
        optimized = named(f"tilt {number}") if number % 6 != 1 else None
        current = run.begin(optimized, name=f"tilt {number}")
        notes.write("begin", round=current.number, beta=current.beta)
        touch()
        stage = 0


def one_call(url: str, journal: str, call: str, trip: int) -> None:
    """Open the run, make one call, and be killed at that point of it, if it has so many."""
    rng, notes = np.random.default_rng(trip), Journal(journal)
    run = open_run(url)
    current, pending = run.round, run.pending()
    _tripwire(trip, commits=False)
    if call == "act":
        _take(current, notes, rng)
    elif call == "observe":  # all of them at the worst loss, which is enough for an alarm
        _observe(run, notes, pending.ids, pending.actions, number=WRONG)
    elif call == "withdraw":
        _withdraw(run, notes, pending.ids[:7])
    elif call == "resume":
        run.resume("looked into it")
    else:
        begun = run.begin(named("tilt 3"), name="tilt 3")
        notes.write("begin", round=begun.number, beta=begun.beta)


def _take(current, notes, rng) -> tether.rounds.TakenActions:
    taken = current.act(rng.integers(CONTEXTS, size=BATCH), rng)
    lists = {"ids": taken.ids.tolist(), "actions": taken.actions.tolist()}
    notes.write("act", round=current.number, contexts=taken.contexts.tolist(), **lists)
    return taken


def _withdraw(run, notes, ids) -> None:
    notes.write("will withdraw", ids=ids.tolist())
    run.withdraw(ids, "the process that asked for them is gone")
    notes.write("withdraw", ids=ids.tolist())


def _act(run, current, notes, known_ids, rng) -> None:
    taken = _take(current, notes, rng)
    known_ids |= set(taken.ids.tolist())
    some = rng.permutation(len(taken))[: BATCH // 2]
    _observe(run, notes, taken.ids[some], taken.actions[some], current.number)


def _settle(run, current, notes, known_ids, rng) -> None:
    pending = run.pending()
    known = np.array([number in known_ids for number in pending.ids], dtype=bool)
    if len(known) and known.all():
        known[rng.integers(len(known))] = False
    lost = pending.ids[~known]
    if len(lost):
        _withdraw(run, notes, lost)
    if known.any():
        _observe(run, notes, pending.ids[known], pending.actions[known], current.number)
    if _goes_wrong(current.number) and run.history().alarm is not None:
        run.resume("looked into it")
        notes.write("resume")


def _observe(run, notes, ids, actions, number) -> None:
    """Losses grow with the action; now and then a round goes wrong enough for an alarm."""
    losses = np.ones(len(ids)) if _goes_wrong(number) else 0.01 + 0.13 * actions
    both = {"ids": ids.tolist(), "losses": losses.tolist()}
    notes.write("will observe", **both)
    run.observe(ids, losses, rewards=losses + 1)
    notes.write("observe", **both)


def _goes_wrong(number: int) -> bool:
    return number % 12 == WRONG


def _tripwire(trip: int, commits: bool):
    """A function that counts, which writes (or only commits) of this process call as well.

    What was written is the same from one write or commit to the next, whatever is read meanwhile:
    so a kill before each of them meets every state of the store. At a larger scale every statement
    counts, before and after it.
    """
    passed = 0

    def touch(*_: object) -> None:
        nonlocal passed
        passed += 1
        if passed == trip:
            os.kill(os.getpid(), signal.SIGKILL)

    def around(function):
        def wrapped(*arguments):
            touch()
            function(*arguments)
            touch()

        return wrapped

    def before(_connection, _cursor, statement, *_: object) -> None:
        if SCALE > 1 or not statement.startswith(READS):
            touch()

    if not commits:
        sql.event.listen(sql.Engine, "before_cursor_execute", before)
    if not commits and SCALE > 1:
        sql.event.listen(sql.Engine, "after_cursor_execute", touch)
    for dialect in (SQLiteDialect_pysqlite, PGDialect_psycopg):
        dialect.do_commit = around(dialect.do_commit)
    return touch
