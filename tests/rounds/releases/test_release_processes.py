"""Several processes on one release, and processes that are killed."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import pytest

from tests.rounds.child_processes import KILLED
from tests.rounds.releases.release_jobs import KEYS, loss_of, open_release
from tests.rounds.worker_process import read_journal
from tests.scale import scaled
from tether.rounds import verify_store


def test_processes_that_assign_the_same_keys_agree(store_url, tmp_path, child_processes):
    """In a step all of them have the same answer; between steps a key only moves to new."""
    journal, gate = tmp_path / "journal", tmp_path / "gate"
    open_release(store_url).close()
    given = {"url": store_url, "journal": str(journal), "gate": str(gate)}
    children = [child_processes.start("assign_all", seed=seed, **given) for seed in range(4)]
    child_processes.open(gate, journal, len(children))
    assert [child_processes.wait(child) for child in children] == [0] * len(children)
    lines = [line for line in read_journal(journal) if line["what"] == "assigned"]
    assert len(lines) == 4 * len(KEYS)
    with open_release(store_url) as release:
        steps = release.history().steps
        rows = sum(step.old.rows + step.new.rows for step in steps)
        answers = {(line["key"], line["system"]) for line in lines}
        assert rows == len(answers)
        assert {key for key, _ in answers} == set(KEYS)
    assert verify_store(store_url).ok


@pytest.mark.slow
def test_kill_9_at_any_moment_loses_nothing_that_was_answered(child_processes):
    memory = Path("/dev/shm")
    folder = Path(tempfile.mkdtemp(dir=memory if memory.is_dir() else None))
    try:
        url, journal = str(folder / "release.db"), folder / "journal"
        open_release(url).close()
        journal.touch()
        for trip in range(3, 3 + 24 * scaled(1)):
            ended = child_processes.run("ramp", url=url, journal=str(journal), trip=7 * trip)
            assert ended in (KILLED, 0)
            _check(url, read_journal(journal))
        assert ended in (KILLED, 0)
        assert child_processes.run("ramp", url=url, journal=str(journal), trip=10**9) == 0
        _check(url, read_journal(journal))
        with open_release(url) as release:
            assert len(release.history().steps) >= len(KEYS) // 30
    finally:
        shutil.rmtree(folder)


def _check(url, lines):
    """Every answer and loss that was returned is there, and the store is whole."""
    assert verify_store(url).ok
    with open_release(url) as release, release._store.reading() as connection:
        taken = connection.exec_driver_sql(
            "SELECT a.context, a.action, a.id, o.loss FROM tether_actions a "
            "LEFT JOIN tether_observations o ON o.action = a.id"
        )
        rows: dict = {}
        for context, system, _, loss in taken:
            key = (bytes(context).decode(), bytes(system).decode())
            assert key not in rows, "a key has two rows of one system"
            rows[key] = loss
    for line in lines:
        if line["what"] == "assigned":
            assert (line["key"], line["system"]) in rows
        if line["what"] == "observed":
            for key in line["keys"]:
                assert loss_of(key) in (rows.get((key, "old")), rows.get((key, "new")))
