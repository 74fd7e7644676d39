"""Commits that come after their callers were answered otherwise; others repeat their rows."""

from __future__ import annotations

import random
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager

import numpy as np
import pytest
from sqlalchemy.exc import OperationalError

import tether
from tests.runs.audit import audit
from tests.runs.frozen_processes import frozen, server_pids
from tests.runs.jobs import in_threads, wait_until
from tests.scale import scaled
from tether.runs import Controller, Release, event_log
from tether.runs.errors import StoreError
from tether.runs.release import SYSTEMS

KEYS = [f"k{k}" for k in range(200)]
REPEATED = KEYS[:100]


def open_release(store, **more):
    options = {"old": {"error": 0.02}, "deadline": 30.0, "fallback": "old"} | more
    return Release(store, {"error": 0.1}, **options)


@contextmanager
def late(run):
    """The next commit of a run comes too late, on PostgreSQL when the connection is lost.

    The transaction after it waits for the end of the block.
    """
    log, gate, came, slow = run._log, threading.Event(), threading.Event(), [True]
    commit, attempt = run._log.database.commit, run._log._try

    def committed(connection, *last):
        if log.is_ahead and slow:
            slow.clear()
            seconds = log.deadline + 0.3
            driver = connection.connection.driver_connection
            if log.database.is_sqlite:
                time.sleep(seconds)
            else:  # its process takes the commit when it goes on, and nobody hears of it
                driver.execute("SET LOCAL idle_in_transaction_session_timeout=0")
                process = ExitStack()
                process.enter_context(frozen([driver.info.backend_pid]))
                threading.Timer(seconds, process.close).start()
        commit(connection, *last)

    def waiting(batch):
        if not slow:
            came.set()
            gate.wait()
        return attempt(batch)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(log.database, "commit", committed)
        patch.setattr(log, "_try", waiting)
        try:
            yield came
        finally:
            gate.set()
    wait_until(lambda: not (log._ghosts or log.outbox))


def standing(release, tmp_path, name="export"):
    """The keys of each system with a row that was not withdrawn."""
    assert release.verify() == []
    release.export(tmp_path / name)
    found = audit(tmp_path / name)
    kept = release._log.submit(lambda t: t.state.kept(slice(0, t.state.rows.size)).tolist())
    assert (found.wrong, kept) == ([], [n for n, row in enumerate(found.rows) if row["answers"]])
    pairs = {(row["key"].decode(), SYSTEMS[row["arm"]]) for row in found.rows if row["answers"]}
    return {each: {key for key, system in pairs if system == each} for each in SYSTEMS}


def test_a_row_that_another_process_has_answered_from_is_not_withdrawn(
    store_url, tmp_path, monkeypatch
):
    monkeypatch.setattr(event_log, "EVENTS_PER_CACHE", 2)  # nor does a cache hide it
    a, b, c = (open_release(store_url, deadline=each) for each in (1.0, 30.0, 30.0))
    with a, b, c:
        with late(a) as came:
            assert set(a.assign(KEYS)) == {"old"}  # kept for the store
            assert a.observe("k199", {"error": 1.0}, system="old") == 1
            assert came.wait(60)
            told = dict(zip(REPEATED, b.assign(REPEATED), strict=True))
            assert b._log.state.rows.size == len(KEYS)
            new = [key for key, system in told.items() if system == "new"]
            assert c.observe(new[0], {"error": 1.0}, system="new") == 1
        assert standing(c, tmp_path) == {"old": set(KEYS), "new": set(new)}
        assert c.observe("k199", {"error": 1.0}, system="old") == 0
        assert c.assign(REPEATED) == b.assign(REPEATED) == [*told.values()]
        assert b.observe(new[1:], {"error": [0.0] * len(new[1:])}, system="new") == len(new) - 1
        assert b.observe(new[0], {"error": 1.0}, system="new") == 0


def test_a_row_is_withdrawn_when_all_who_have_answered_from_it_disown_it(store_url, tmp_path):
    with open_release(store_url, deadline=1.0) as a, open_release(store_url, deadline=1.0) as b:
        with late(a) as came:
            assert set(a.assign(KEYS)) == {"old"}
            assert came.wait(60)
            with late(b) as second:
                assert set(b.assign(KEYS)) == {"old"}
                assert second.wait(60)
            assert standing(b, tmp_path, "held")["new"]  # a may stand by them
        assert standing(b, tmp_path) == {"old": set(KEYS), "new": set()}


def test_two_calls_of_one_commit_of_which_one_is_given_up(sqlite_url, tmp_path):
    keys = [key.encode() for key in KEYS]
    with open_release(sqlite_url, deadline=1.0) as a, ThreadPoolExecutor() as pool:

        def ask(work, seconds):
            time.sleep(0.05)
            return pool.submit(a._log.submit, work, seconds)

        with late(a):
            ask(lambda t: time.sleep(0.3), 60.0)  # the next two wait for one commit
            given_up = ask(lambda t: a.assign_in(t, keys)[0], 0.5)
            told = ask(lambda t: a.assign_in(t, keys)[0], 60.0).result()
            assert isinstance(given_up.exception(), StoreError)
        new = {key.decode() for key, arm in told.items() if arm}
        assert standing(a, tmp_path)["new"] == new != set()


def test_an_idempotency_key_names_a_row_that_stands(store_url):
    rng = np.random.default_rng(1)

    def make(deadline):
        return Controller(tether.Gaussian(0.0), store_url, alpha=0.1, deadline=deadline)

    with make(1.0) as a, make(30.0) as b:
        a.begin()
        with late(a) as came:
            with pytest.raises(StoreError):
                a.round.act(4, rng, keys=["1", "2", "3", "4"])
            assert came.wait(60)
            told = b.round.act(2, rng, keys=["1", "2"])
        again = b.round.act(4, rng, keys=["1", "2", "3", "4"])
        assert again.ids[:2].tolist() == told.ids.tolist() == [0, 1]
        assert again.ids[2:].tolist() == [4, 5]
        assert b.observe(again, np.zeros(4)) == 4
        assert b.round.act(1, rng, keys="3").ids.tolist() == [4]
        assert a.verify() == []


def test_a_commit_that_has_failed_disowns_no_row_of_another_process(
    store_url, tmp_path, monkeypatch
):
    with open_release(store_url, fallback=None) as a, open_release(store_url) as b:
        told = []

        def failing(connection, *_):
            monkeypatch.undo()
            connection.connection.driver_connection.rollback()
            told.extend(zip(KEYS, b.assign(KEYS), strict=True))  # under the same numbers
            raise OperationalError("", {}, Exception("the connection is lost"))

        monkeypatch.setattr(a._log.database, "commit", failing)
        with pytest.raises(StoreError):
            a.assign(KEYS)
        wait_until(lambda: not a._log._ghosts)
        new = {key for key, system in told if system == "new"}
        assert standing(b, tmp_path) == {"old": set(KEYS) - new, "new": new}


@pytest.mark.slow
def test_clients_that_change_the_process_while_the_database_is_frozen_and_killed(
    server, postgres_url, tmp_path
):
    """What was told as stored has its row, and each row of the new system was told to somebody."""
    runs = [open_release(postgres_url, deadline=0.3) for _ in range(3)]
    runs[0].advance()
    told, ended = set(), threading.Event()
    until = time.monotonic() + scaled(8, 300)

    def ask(place):
        rng, keys = random.Random(place), [f"{place}"]
        while not ended.is_set():
            key = f"{place}-{len(keys)}" if rng.random() < 0.3 else rng.choice(keys[-4:])
            keys.append(key)
            found = rng.choice(runs)._call("assign", {}, {"key": np.array([key.encode()], object)})
            if found is not None:
                told.add((key, SYSTEMS[found[key.encode()]]))
            time.sleep(0.03)  # slower than an outbox is delivered

    def disturb():
        rng = random.Random(99)
        while time.monotonic() < until:
            time.sleep(rng.uniform(0.0, 0.2))
            pids = server_pids(server)
            if rng.random() < 0.1:
                server.stop("immediate")
                server.start()
            else:
                with frozen(pids if rng.random() < 0.3 else rng.sample(pids[1:], 2)):
                    time.sleep(rng.uniform(0.1, 0.7))
        ended.set()

    in_threads(lambda place: ask(place) if place else disturb(), 9)
    wait_until(lambda: not any(r._log._ghosts or r._log.outbox for r in runs))
    held = standing(runs[0], tmp_path)
    for run in runs:
        run.close()
    assert {key for key, system in told if system == "new"} == held["new"]
    assert {key for key, system in told if system == "old"} <= held["old"]
