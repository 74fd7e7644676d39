"""Processes that are killed at any moment: nothing that was returned is lost, nothing is half."""

from __future__ import annotations

import shutil
import tempfile
import time
from pathlib import Path

import numpy as np
import pytest

from tests.rounds.invariants import Audit
from tests.rounds.nursery import KILLED
from tests.rounds.worker import read_journal


@pytest.fixture
def folder():
    """In memory where that can be had: kill -9 does not ask what reached the disk."""
    memory = Path("/dev/shm")
    found = Path(tempfile.mkdtemp(dir=memory if memory.is_dir() else None))
    yield found
    shutil.rmtree(found)


def test_kill_9_at_any_moment_of_a_round(folder, nursery):
    tables = kill_again_and_again(nursery, folder, f"sqlite:///{folder / 'run.db'}", times=80)
    assert len(tables["tether_rounds"]) > 12
    assert len(tables["tether_alarms"]) > 0


def test_kill_9_at_any_moment_of_a_round_on_postgresql(folder, postgres_url, nursery):
    tables = kill_again_and_again(nursery, folder, postgres_url, times=16)
    assert len(tables["tether_rounds"]) > 2


def kill_again_and_again(nursery, folder, url, times):
    """So often before and after statements, as often around commits, and at random moments."""
    journal, rng = folder / "journal", np.random.default_rng(5)
    journal.touch()
    audit, longest = Audit(url, journal), 0.0
    statements = rng.permutation(np.linspace(1, 120, times).astype(int)).tolist()
    commits = rng.permutation(np.linspace(1, 40, times).astype(int)).tolist()
    for life in range(3 * times):
        given = {"url": url, "journal": str(journal), "seed": life}
        delay, started = None, time.perf_counter()
        if life % 3 == 2:
            delay = rng.uniform(0, longest)
        else:
            which = statements if life % 3 else commits
            given |= {"trip": which[life // 3], "commits": which is commits}
            given["seed"] = life // 3
        assert nursery.run("live", kill_after=delay, **given) == KILLED
        if life:  # the first waits for the nursery
            longest = max(longest, min(time.perf_counter() - started, 0.2))
        tables = audit.look()
    lines = [line for line in read_journal(journal) if line["what"] == "act"]
    told = {number for line in lines for number in line["ids"]}
    assert len(told) < len(tables["tether_actions"]), "no kill came between a commit and a return"
    assert any(row["loss"] is None for row in tables["tether_reports"])
    return tables
