"""What several processes do at once on one store, each writing down what became of it."""

from __future__ import annotations

import os
import time
from pathlib import Path

import numpy as np

from tests.rounds.child_processes import DEADLINE_SECONDS
from tests.rounds.worker_process import CONTEXTS, Journal, named, open_run
from tether.rounds import RoundTakenError
from tether.rounds.round_start import RoundStart


def make(url: str, journal: str, gate: str) -> None:
    """Open a store that is not there, at the same time as others."""
    _wait(Journal(journal), gate)
    open_run(url).close()


def begin(url: str, journal: str, gate: str, name: str) -> None:
    """Begin a round at the same time as others; go on in it, whoever began it."""
    notes, rng = Journal(journal), np.random.default_rng()
    with open_run(url) as run:
        save = RoundStart.save

        def save_together(
            *given, **named
        ):  # every process has calibrated before one of them writes
            _wait(notes, gate)
            save(*given, **named)

        RoundStart.save = save_together
        try:
            current = run.begin(named(name), name=name)
            notes.write("begun", round=current.number, name=name, beta=current.beta)
        except RoundTakenError as error:
            notes.write("taken", message=str(error), name=name)
            current = run.round
        taken = current.act(rng.integers(CONTEXTS, size=20), rng)
        notes.write("act", round=current.number, ids=taken.ids.tolist())


def act_and_observe(url: str, journal: str, gate: str, times: int, seed: int) -> None:
    """Act and observe in the open round, at the same time as others."""
    notes, rng = Journal(journal), np.random.default_rng(seed)
    with open_run(url) as run:
        current = run.round
        _wait(notes, gate)
        for _ in range(times):
            taken = current.act(rng.integers(CONTEXTS, size=rng.integers(1, 9)), rng)
            lists = {"ids": taken.ids.tolist(), "actions": taken.actions.tolist()}
            notes.write("act", round=current.number, contexts=taken.contexts.tolist(), **lists)
            losses = rng.random(len(taken)) * 0.5
            both = {"ids": lists["ids"], "losses": losses.tolist()}
            notes.write("will observe", **both)
            run.observe(taken.ids, losses)
            notes.write("observe", **both)


def observe_one_by_one(url: str, journal: str, gate: str, loss: float) -> None:
    """Observe every action, one by one, at the same time as others who observe the same."""
    notes = Journal(journal)
    with open_run(url) as run:
        ids = run.pending().ids
        _wait(notes, gate)
        for each in ids.tolist():
            notes.write("will observe", ids=[each], losses=[loss])
            try:
                run.observe([each], [loss])
            except ValueError as error:
                notes.write("refused", ids=[each], losses=[loss], message=str(error))
            else:
                notes.write("observe", ids=[each], losses=[loss])


def hold(url: str, journal: str, gate: str) -> None:
    """Begin to write, and never end."""
    notes = Journal(journal)
    with open_run(url) as run, run._store.writing(exclusive=True):
        notes.write("ready")
        time.sleep(DEADLINE_SECONDS)  # it is killed before


def forks(url: str, journal: str, gate: str) -> None:
    """Open the run, fork, and act in both processes."""
    notes = Journal(journal)
    run = open_run(url)
    current = run.begin(named("tilt 2"), name="tilt 2")
    child = os.fork()
    who, rng = ("parent" if child else "child"), np.random.default_rng(child)
    _wait(notes, gate)
    taken = [current.act(rng.integers(CONTEXTS, size=20), rng) for _ in range(3)]
    notes.write(who, ids=np.concatenate([each.ids for each in taken]).tolist())
    if not child:
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    run.close()


def _wait(notes: Journal, gate: str) -> None:
    notes.write("ready")
    while not Path(gate).exists():
        time.sleep(0.001)
