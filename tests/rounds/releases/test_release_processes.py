"""Several processes on one release, and processes that are killed."""

from __future__ import annotations

import numpy as np
import pytest

from tests.rounds.releases.release_jobs import BATCHES, KEYS, batch_keys, loss_of, open_release
from tests.rounds.repeated_kills import kill_again_and_again
from tests.rounds.worker_process import read_journal
from tests.runs.postgres_server import name_of
from tests.scale import SCALE, scaled
from tether.release import is_new, positions
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


@pytest.mark.parametrize("threads", [1, 3])
def test_processes_that_assign_the_same_new_keys_in_other_orders_do_not_block_each_other(
    store_url, server, tmp_path, child_processes, threads
):
    """On PostgreSQL two writers of the same keys could wait for each other for good.

    One order prevents it between processes. Threads share transactions, whose orders differ: the
    one that the database ends begins anew.
    """
    if store_url.startswith("postgresql"):
        server.tell(f"ALTER DATABASE {name_of(store_url)} SET deadlock_timeout = '20ms'")
    journal, gate = tmp_path / "journal", tmp_path / "gate"
    open_release(store_url).close()
    given = {"url": store_url, "journal": str(journal), "gate": str(gate), "threads": threads}
    children = [child_processes.start("assign_batches", seed=seed, **given) for seed in range(3)]
    child_processes.open(gate, journal, len(children))
    assert [child_processes.wait(child) for child in children] == [0] * len(children)
    answers = set()
    for line in read_journal(journal):
        if line["what"] == "assigned":
            answers |= set(zip(line["keys"], line["systems"], strict=True))
    with open_release(store_url) as release:
        steps = release.history().steps
        assert sum(step.old.rows + step.new.rows for step in steps) == len(answers)
    assert {key for key, _ in answers} == {key for b in range(BATCHES) for key in batch_keys(b)}
    assert verify_store(store_url).ok


@pytest.mark.slow
def test_kill_9_at_any_moment_loses_nothing_that_was_answered(folder, child_processes):
    kill_and_check(child_processes, folder, str(folder / "release.db"), scaled(8))


@pytest.mark.slow
def test_kill_9_at_any_moment_loses_nothing_that_was_answered_on_postgresql(
    folder, server, postgres_url, child_processes
):
    def wait():  # the server may still be committing what it received
        server.wait_until_disconnected(postgres_url)

    kill_and_check(child_processes, folder, postgres_url, scaled(4), wait)


def kill_and_check(child_processes, folder, url, times, wait=lambda: None):
    journal, rng = folder / "journal", np.random.default_rng(5)
    open_release(url).close()
    journal.touch()
    kill_again_and_again(
        child_processes,
        "ramp",
        lambda life: {"url": url, "journal": str(journal), "first": 60 * min(life, times - 1)},
        rng.permutation(np.linspace(1, 300 if SCALE > 1 else 60, times).astype(int)).tolist(),
        lambda: _check(url, read_journal(journal)),
        wait,
    )  # at last what was killed is done again
    with open_release(url) as release:
        assert len(release.history().steps) > times


def _check(url, lines):
    """Every answer and loss that was returned is there, answers agree, and the store is whole."""
    assert verify_store(url).ok, verify_store(url)
    with open_release(url) as release, release._store.reading() as connection:
        taken = connection.exec_driver_sql(
            "SELECT a.context, a.action, a.round, o.loss FROM tether_actions a "
            "LEFT JOIN tether_observations o ON o.action = a.id"
        )
        rows: dict = {}
        for context, system, step, loss in taken:
            key = (bytes(context).decode(), bytes(system).decode())
            assert key not in rows, "a key has two rows of one system"
            rows[key] = (step, loss)
        salt = release.settings.salt_bytes
    for line in lines:
        if line["what"] == "assigned":
            assert (line["key"], line["system"]) in rows
        if line["what"] == "observed":
            for key in line["keys"]:
                losses = [rows.get((key, system), (0, None))[1] for system in ("old", "new")]
                assert loss_of(key) in losses
    asked = sorted({line["key"] for line in lines if line["what"] == "assigned"})
    with open_release(url) as release:  # whoever asks again has the answer that the share says
        before = None
        while before != release.step.number:  # moved keys are rows, and may end the step
            before, systems = release.step.number, np.array(release.assign(asked), object)
        assert ((systems == "new") == is_new(positions(asked, salt), release.share)).all()
