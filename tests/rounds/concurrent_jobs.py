"""What several processes do at once on one store, each writing down what became of it."""

from __future__ import annotations

import os
import time
from pathlib import Path

import numpy as np

from tests.rounds.worker_process import CONTEXTS, Journal, named, open_run
from tether.rounds import RoundTakenError
from tether.rounds.round_start import RoundStart


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
