"""Processes that are killed at any moment: nothing that was returned is lost, nothing is half."""

from __future__ import annotations

import shutil
import time

import numpy as np
import pytest

from tests.rounds.child_processes import KILLED
from tests.rounds.store_invariants import StoreAudit, read_tables
from tests.rounds.worker_process import open_run, two_rounds
from tests.scale import scaled

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("call", ["act", "observe", "withdraw", "resume", "begin"])
def test_kill_9_before_every_write_of_a_call_and_around_its_commits(folder, child_processes, call):
    made, path, journal = folder / "made.db", folder / "run.db", folder / "journal"
    with open_run(str(made)) as run:
        taken = two_rounds(run)
        if call == "resume":
            run.observe(taken.ids, np.ones(len(taken)))
        before = read_tables(run)
    ended, trip, kept = KILLED, 0, []
    while ended == KILLED:
        for each in folder.glob("run.db*"):
            each.unlink()
        shutil.copy(made, path)
        journal.write_text("")
        trip += 1
        given = {"url": str(path), "journal": str(journal), "call": call, "trip": trip}
        ended = child_processes.run("one_call", **given)
        after = StoreAudit(str(path), journal, before).look()
        kept.append(after != before)
    assert kept == sorted(kept), "a later kill kept less than an earlier one"
    assert sum(kept) > 1, "no kill came between a commit and a return"
    assert len(kept) > 5 + sum(kept)
    assert len(after["tether_alarms"]) == (call in ("observe", "resume"))


def test_kill_9_at_any_moment_of_a_round(folder, child_processes):
    tables = kill_again_and_again(
        child_processes, folder, f"sqlite:///{folder / 'run.db'}", times=scaled(12)
    )
    assert len(tables["tether_rounds"]) > 2


def test_kill_9_at_any_moment_of_a_round_on_postgresql(
    folder, server, postgres_url, child_processes
):
    def wait():  # the server may still be committing what it received
        server.wait_until_disconnected(postgres_url)

    tables = kill_again_and_again(child_processes, folder, postgres_url, times=scaled(6), wait=wait)
    assert len(tables["tether_rounds"]) > 2


def kill_again_and_again(child_processes, folder, url, times, wait=lambda: None):
    """So often around commits and at returns, and as often at random moments.

    `wait` returns when the database has ended what the killed process had begun.
    """
    journal, rng = folder / "journal", np.random.default_rng(5)
    journal.touch()
    audit, longest = StoreAudit(url, journal), 0.0
    trips = rng.permutation(np.linspace(1, 120, times).astype(int)).tolist()
    for life in range(times):
        given = {"url": url, "journal": str(journal), "seed": life}
        started = time.perf_counter()
        assert child_processes.run("live", trip=trips[life], **given) == KILLED
        wait()
        audit.look()
        if life:  # the first waits for the children
            longest = max(longest, min(time.perf_counter() - started, 0.2))
        delay = rng.uniform(0, longest)
        assert child_processes.run("live", kill_after=delay, **given) == KILLED
        wait()
        tables = audit.look()
    return tables
