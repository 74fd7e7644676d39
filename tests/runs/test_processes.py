"""Releases in several processes and threads, of which some are killed."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from tests.runs import jobs
from tests.runs.audit import audit
from tests.scale import scaled
from tether.runs import Release, Run


def check_journal(store, journal, tmp_path, name):
    """Everything that a child was told is in the store, and the store is as it should be."""
    with Run.open(store, deadline=60) as run:
        assert run.verify() == []
        run.export(tmp_path / name)
    found = audit(tmp_path / name)
    assert found.wrong == []
    answers, reported = found.answers(), found.reported("error")
    for line, (kind, keys, values) in enumerate(jobs.noted(journal)):
        told = {(key.encode(), value) for key, value in zip(keys, values, strict=True)}
        lost = told - (answers if kind == "assigned" else reported)
        held = [(n, row) for n, row in enumerate(found.rows) if row["key"] in dict(lost)]
        losses = {n: found.losses["error"].get(n) for n, _ in held}
        assert not lost, f"line {line}: {kind} {lost}; the store holds {held}, losses {losses}"
    return found


@pytest.mark.slow
@pytest.mark.parametrize(
    ("database", "kills"), [("sqlite", scaled(20, 300)), ("postgres", scaled(10, 100))]
)
def test_nothing_confirmed_is_lost_when_processes_are_killed(database, kills, request, tmp_path):
    store, journal = request.getfixturevalue(f"{database}_url"), tmp_path / "journal"
    rng = np.random.default_rng(7)
    for life in range(kills):
        jobs.kill(rng, jobs.use, store, journal, f"life{life}")
        if life % max(kills // 4, 5) == 4:
            check_journal(store, journal, tmp_path, f"export{life}")
    jobs.finish(jobs.start(jobs.use, store, str(journal), "last", 3))
    check_journal(store, journal, tmp_path, "export")


def test_two_processes_share_a_store(store_url, tmp_path):
    journal = tmp_path / "journal"
    children = [jobs.start(jobs.use, store_url, str(journal), f"p{k}", 15) for k in range(2)]
    for child in children:
        jobs.finish(child)
    found = check_journal(store_url, journal, tmp_path, "export")
    assert len(found.steps) > 1


def test_a_new_store_can_be_opened_by_several_at_once(tmp_path):
    """SQLite says at once that it is locked to all but one that turn its log on."""
    for store in range(20):
        together = threading.Barrier(4)

        def work(_, path=tmp_path / f"{store}.db", together=together):
            together.wait()
            jobs.open_release(str(path)).close()

        jobs.in_threads(work, 4)


@pytest.mark.slow
def test_threads_and_a_fresh_process_agree(sqlite_url, tmp_path):
    """Eight threads; in `make endurance` each makes 10,000 calls, of every kind."""
    journal, rounds = tmp_path / "journal", scaled(25, 4000)
    with jobs.open_release(sqlite_url) as release:

        def work(place):
            name = f"t{place}"
            for call in range(rounds):
                keys = [f"{name}-{call}-{k}" for k in range(3)]
                systems = release.assign(keys)
                jobs.note(str(journal), ["assigned", keys, systems])
                release.observe(keys, {"error": [0.0, 0.0, 0.0]}, system=systems)
                if call % 2:
                    assert 0 <= release.share <= 1
                if call % 500 == 20:
                    assert release.history().units
                if call == 10 and name == "t0":
                    release.halt("a look", actor="ann")
                    release.resume("all is well", actor="ann")

        jobs.in_threads(work, 8)
        share, rows = release.share, sum(sum(u.rows.values()) for u in release.history().units)
    check_journal(sqlite_url, journal, tmp_path, "export")
    with Release(sqlite_url) as fresh:
        assert fresh.share == share
        history = fresh.history()
        assert sum(sum(unit.rows.values()) for unit in history.units) == rows == 8 * 3 * rounds
        assert [act.act for act in history.acts] == ["halt", "resume"]


def test_a_forked_process_is_refused(sqlite_url):
    import os

    with jobs.open_release(sqlite_url) as release:
        release.assign("ann")
        child = os.fork()
        if child == 0:
            try:
                release.assign("bob")
            except OSError:
                os._exit(7)
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        release.assign("carl")
