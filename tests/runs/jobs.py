"""What child processes do to a store, and how they are started, killed and waited for."""

from __future__ import annotations

import json
import multiprocessing
import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

import tether
from tether.runs import Controller, Release, databases

FORK = multiprocessing.get_context("forkserver")
FORK.set_forkserver_preload(["tests.runs.jobs"])
PATIENCE = 120.0


def start(job: Any, *given: Any) -> Any:
    """A child process that runs a function of this module."""
    child = FORK.Process(target=job, args=given, daemon=True)
    child.start()
    return child


def in_threads(work: Any, count: int) -> None:
    """Call a function with 0, 1, … at the same time; what it raises is raised here."""
    with ThreadPoolExecutor(count) as pool:
        list(pool.map(work, range(count)))


def finish(child: Any) -> None:
    """Wait for a child that ends by itself."""
    child.join(PATIENCE)
    assert child.exitcode == 0, child.exitcode


def note(journal: str, entry: Any) -> None:
    """Append a line that is there as soon as this returns.

    A kill tears a write where a page of the file ends, so every line begins anew: what was torn
    stays alone on its line, and the next one is whole.
    """
    line = b"\n" + json.dumps(entry).encode() + b"\n"
    file = os.open(journal, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    written = os.write(file, line)
    os.close(file)
    assert written == len(line), f"{written} of {len(line)} bytes were written"


def noted(journal: Path) -> list[Any]:
    """The complete lines of a journal.

    A part of a list is not JSON: it is the line of a child that was killed before `note` returned.
    """
    found = []
    for line in journal.read_bytes().split(b"\n") if journal.exists() else ():
        with suppress(ValueError):
            found += [json.loads(line)] if line else []
    return found


def open_release(store: str, **more: Any) -> Release:
    """The release that every child has a part in."""
    databases.SYNCHRONOUS = "OFF"
    options = {"old": {"error": 0.02}, "step": 200, "deadline": 30.0} | more
    return Release(store, {"error": 0.2}, **options)


def use(store: str, journal: str, name: str, calls: int) -> None:
    """Assign and observe, and note what was confirmed."""
    rng = np.random.default_rng(abs(hash(name)) % 2**32)
    with open_release(store) as release:
        for call in range(calls):
            keys = [f"{name}-{call}-{k}" for k in range(int(rng.integers(1, 30)))]
            systems = release.assign(keys)
            note(journal, ["assigned", keys, systems])
            losses = (rng.random(len(keys)) < 0.05).astype(float).tolist()
            release.observe(keys, {"error": losses}, system=systems)
            note(journal, ["observed", keys, losses])


def act(store: str, journal: str, name: str, calls: int) -> None:
    """Rounds of a run: act, observe and begin the next, and note what was confirmed."""
    rng = np.random.default_rng(abs(hash(name)) % 2**32)
    databases.SYNCHRONOUS = "OFF"
    with Controller(tether.Gaussian(0.0), store, alpha=0.12, missing="worst_case") as run:
        if run.round is None:
            run.begin()
        for call in range(calls):
            taken = run.round.act(30, rng, keys=[f"{name}-{call}-{k}" for k in range(30)])
            note(journal, ["acted", taken.ids.tolist()])
            run.observe(taken, taken.actions > 1.5)
            note(journal, ["observed", taken.ids.tolist()])
            begun = run.begin(tether.Gaussian(round(rng.uniform(0.1, 0.5), 3)))
            note(journal, ["begun", [begun.number, begun._unit.level]])


def kill(
    rng: np.random.Generator, job: Any, store: str, journal: Path, name: str, lines: int = 12
) -> None:
    """Start a child, and kill it after it has noted something."""
    before = count_lines(journal)
    child = start(job, store, str(journal), name, 1000)
    lines = before + 1 + int(rng.integers(0, lines))
    wait_until(lambda: count_lines(journal) >= lines or not child.is_alive())
    assert child.is_alive(), f"{name} ended by itself with {child.exitcode}: see its traceback"
    time.sleep(float(rng.uniform(0, 0.01)))
    child.kill()
    child.join(PATIENCE)


def count_lines(journal: Path) -> int:
    """How many complete lines a journal has, without reading what they say."""
    return journal.read_bytes().count(b"]\n") if journal.exists() else 0


def wait_until(condition: Callable[[], bool]) -> None:
    """Wait until something has happened, and not for ever."""
    until = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < until, "it does not get on"
        time.sleep(0.005)
