"""Ramps of policies on every database, and processes that are killed."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from tests.rounds.ramps.ramp_jobs import (
    ACTIONS_PER_STEP,
    BATCH,
    open_ramp,
    ramped_policy,
    safe_rows,
)
from tests.rounds.repeated_kills import kill_again_and_again
from tests.rounds.worker_process import read_journal
from tests.scale import scaled
from tether.rounds import export_run, import_run, verify_store

MOMENTS = {False: 60, True: 30}
"""Of how many moments some are tried, and all if there are so many kills; on PostgreSQL or not."""


def test_a_ramp_on_every_database(store_url, tmp_path):
    """Steps that end by themselves, two processes' handles, a halt, and a copy of the run."""
    safe_rows(store_url)
    rng = np.random.default_rng(0)
    with open_ramp(store_url) as run, open_ramp(store_url) as other:
        begun = run.begin(ramped_policy("policy 1"), name="policy 1")
        handles = [begun, other.round]
        for k in range(8):
            taken = handles[k % 2].act(BATCH, rng)
            (run, other)[k % 2].observe(taken.ids, np.zeros(BATCH))
        assert run.round.number == other.round.number == begun.number + 3
        assert run.round.share > begun.share > 0
        run.halt("a test", actor="ann")
        assert set(handles[1].act(BATCH, rng).actions) == {0}
        run.resume("a test", actor="ann")
        handles[1].act(BATCH, rng)
        assert other.round.number == begun.number + 4
        assert other.round.share == pytest.approx(begun.share)
        steps = run.history().rounds
    assert verify_store(store_url).ok
    export_run(store_url, tmp_path / "run.parquet")
    import_run(tmp_path / "run.parquet", tmp_path / "copy.db", actor="ann")
    assert verify_store(tmp_path / "copy.db").ok
    with open_ramp(str(tmp_path / "copy.db")) as copy:
        assert [each.beta for each in copy.history().rounds] == [each.beta for each in steps]


@pytest.mark.slow
def test_kill_9_at_any_moment_of_a_ramp(folder, child_processes):
    kill_and_check(child_processes, folder, str(folder / "run.db"), scaled(4))


@pytest.mark.slow
def test_kill_9_at_any_moment_of_a_ramp_on_postgresql(
    folder, server, postgres_url, child_processes
):
    def wait():  # the server may still be committing what it received
        server.wait_until_disconnected(postgres_url)

    kill_and_check(child_processes, folder, postgres_url, scaled(2), wait)


def kill_and_check(child_processes, folder, url, times, wait=lambda: None):
    journal = folder / "journal"
    safe_rows(url)
    journal.touch()
    kill_again_and_again(
        child_processes,
        "act_in_ramp",
        lambda life: {"url": url, "journal": str(journal), "life": life},
        [1 + (8 + 7 * k) % MOMENTS[url.startswith("postgresql")] for k in range(times)],
        lambda: _check(url, read_journal(journal)),
        wait,
    )


def _check(url, lines):
    """What was returned is there, nothing is half, steps have their length, and a key acts once."""
    assert verify_store(url).ok, verify_store(url)
    with open_ramp(url) as run, run._store.reading() as connection:
        taken = connection.exec_driver_sql(
            "SELECT a.id, a.round, a.served, o.loss FROM tether_actions a "
            "LEFT JOIN tether_observations o ON o.action = a.id"
        )
        rows = {number: (step, served, loss) for number, step, served, loss in taken}
        ramps = connection.exec_driver_sql(
            "SELECT number, policy FROM tether_rounds ORDER BY number"
        ).fetchall()
        entries = connection.exec_driver_sql(
            "SELECT key, first, last FROM tether_entries WHERE kind = 'actions'"
        ).fetchall()
    names = dict(map(tuple, ramps))
    sizes = {number: 0 for number in names}
    for step, served, _ in rows.values():
        sizes[step] += 1
        assert served in (0, step)
    for (number, name), (_, following) in pairwise(ramps):
        if name is not None and name == following:
            assert sizes[number] >= ACTIONS_PER_STEP
    keys = [key for key, _, _ in entries if key is not None]
    assert len(keys) == len(set(keys))
    assert all(last - first + 1 == BATCH for key, first, last in entries if key is not None)
    assert set(keys) <= {line["key"] for line in lines if line["what"] == "will act"}
    for line in lines:
        if line["what"] == "begin":
            assert names[line["round"]] is not None
        if line["what"] == "act":
            assert line["key"] in keys
            for number, action in zip(line["ids"], line["actions"], strict=True):
                step, served, _ = rows[number]
                assert action == (0 if served == 0 else int(names[step].split()[-1]))
        if line["what"] == "observe":
            for number, loss in zip(line["ids"], line["losses"], strict=True):
                assert rows[number][2] == loss
