"""A store that does not answer: the safe policy acts in time, and nothing is lost."""

from __future__ import annotations

import os
import sqlite3
import stat
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import sqlalchemy as sql

from tests.rounds.worker_process import CONTEXTS, SETTINGS, named, table, two_rounds
from tests.runs.frozen_processes import frozen, server_pids
from tether.rounds import Controller, Round, StoreError
from tether.rounds.store.lanes import FIRST_SPOOL_LANE, LANE_BITS
from tether.rounds.store.verify_run import find_tampering

GENEROUS_SECONDS = 30
"""Far more than a deadline, far less than forever."""


def open_run(url, folder, deadline=0.5):
    return Controller(
        table(0.0),
        store=url,
        policies=named,
        fallback="safe",
        spool=folder / "spool",
        deadline=deadline,
        **SETTINGS,
    )


def locked(url):
    """Hold the write lock of an SQLite file, as a stuck process would."""
    connection = sqlite3.connect(url.removeprefix("sqlite:///"), isolation_level=None)
    connection.execute("BEGIN IMMEDIATE")
    return connection


def check_whole(run, stored):
    """Every action that was returned is in the store, and the chain is whole."""
    run._refresh()
    rows = run._rows
    taken_by = zip(rows.actions.tolist(), rows.served.tolist(), strict=True)
    found = dict(zip(rows.ids.tolist(), taken_by, strict=True))
    for taken, served in stored:
        for number, action in zip(taken.ids.tolist(), taken.actions.tolist(), strict=True):
            assert found[number] == (action, served)
    with run._store.reading() as connection:
        assert list(find_tampering(connection)) == []


def test_actions_are_spooled_and_delivered(sqlite_url, tmp_path):
    rng = np.random.default_rng(0)
    with open_run(sqlite_url, tmp_path) as run:
        two_rounds(run)
        run.observe(run.pending().ids, np.zeros(40))
        round_ = run.round
        assert round_.beta > 0
        before = round_.act(rng.integers(CONTEXTS, size=5), rng)
        stuck = locked(sqlite_url)
        begun = time.monotonic()
        spooled = [round_.act(rng.integers(CONTEXTS, size=3), rng) for _ in range(20)]
        assert time.monotonic() - begun < GENEROUS_SECONDS  # the store is not waited for 20 times
        assert all("the store was unavailable" in each.failure for each in spooled)
        ids = np.concatenate([each.ids for each in spooled])
        assert ((ids >> LANE_BITS) >= FIRST_SPOOL_LANE).all()
        assert len(np.unique(ids)) == 60
        with pytest.raises(StoreError):
            run.observe(spooled[0].ids, np.zeros(3))
        stuck.close()
        run.observe(spooled[0].ids, np.full(3, 0.25))  # the ids are those that they will have
        assert len(run.pending()) == 5 + 57
        run.observe(run.pending().ids, np.zeros(62))
        time.sleep(0.5)  # until the store is tried again
        after = round_.act(rng.integers(CONTEXTS, size=5), rng)
        assert not after.failure
        check_whole(run, [(before, 2), (after, 2), *((each, 0) for each in spooled)])
        record = run.history().rounds[1]
        assert (record.fallback_rows, record.safe_rows) == (60, 60)
        run.observe(after.ids, np.zeros(5))
        assert run.begin(named("tilt 3"), name="tilt 3").calibration is not None


def test_what_a_killed_process_spooled_is_delivered_by_the_next(sqlite_url, tmp_path):
    rng = np.random.default_rng(0)
    run = open_run(sqlite_url, tmp_path)
    two_rounds(run)
    stuck = locked(sqlite_url)
    spooled = run.round.act(rng.integers(CONTEXTS, size=4), rng)
    run.close()  # without delivering anything
    stuck.close()
    assert stat.S_IMODE(os.stat(tmp_path / "spool").st_mode) == 0o600
    with open_run(sqlite_url, tmp_path) as run:
        assert set(spooled.ids.tolist()) <= set(run.pending().ids.tolist())
        check_whole(run, [(spooled, 0)])


def test_a_delivery_that_was_not_marked_is_not_repeated(sqlite_url, tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    with open_run(sqlite_url, tmp_path) as run:
        two_rounds(run)
        stuck = locked(sqlite_url)
        spooled = run.round.act(rng.integers(CONTEXTS, size=4), rng)
        stuck.close()

        def fail(_):
            raise RuntimeError("the power failed")

        with monkeypatch.context() as patch:
            patch.setattr(run._recorder.outage.spool, "mark_delivered", fail)
            with pytest.raises(RuntimeError, match="the power failed"):
                run.pending()
        assert len(run.pending()) == 40 + 4
        check_whole(run, [(spooled, 0)])


def test_a_key_names_the_same_actions_before_and_after_delivery(sqlite_url, tmp_path):
    rng = np.random.default_rng(0)
    contexts = rng.integers(CONTEXTS, size=4)
    with open_run(sqlite_url, tmp_path) as run:
        two_rounds(run)
        stuck = locked(sqlite_url)
        first = run.round.act(contexts, rng, key="one")
        again = run.round.act(contexts, rng, key="one")
        with pytest.raises(ValueError, match="key 'one' was used for other contexts"):
            run.round.act(contexts[:2], rng, key="one")
        stuck.close()
        time.sleep(0.5)
        later = run.round.act(contexts, rng, key="one")
        for each in (again, later):
            np.testing.assert_array_equal(each.ids, first.ids)
            np.testing.assert_array_equal(each.actions, first.actions)


def test_rows_whose_write_was_given_up_but_succeeded_are_withdrawn(sqlite_url, tmp_path):
    """The caller was told that the safe policy acted: nobody carried them out."""
    rng = np.random.default_rng(0)
    with open_run(sqlite_url, tmp_path) as run:
        two_rounds(run)
        run.observe(run.pending().ids, np.zeros(40))
        round_, lost = run.round, []

        def lose_the_answer(connection):
            if connection.get_execution_options().get("tether_writes") and not lost:
                lost.append(True)
                connection.connection.driver_connection.commit()
                raise sql.exc.OperationalError("COMMIT", {}, OSError("no answer"))

        sql.event.listen(run._store._engine, "commit", lose_the_answer)
        taken = round_.act(rng.integers(CONTEXTS, size=4), rng)
        sql.event.remove(run._store._engine, "commit", lose_the_answer)
        assert lost
        assert taken.failure
        time.sleep(0.5)
        assert run.pending().ids.tolist() == taken.ids.tolist()
        assert run.history().rounds[1].withdrawn == 4
        check_whole(run, [(taken, 0)])


def test_a_frozen_server_under_load(server, postgres_url, tmp_path):
    """Every `act` of several threads is answered, and everything is there afterwards."""
    with open_run(postgres_url, tmp_path, deadline=2) as run:
        two_rounds(run)
        run.observe(run.pending().ids, np.zeros(40))
        round_, stored, slowest = run.round, [], []

        def act(seed):
            rng, mine = np.random.default_rng(seed), []
            until = time.monotonic() + 6
            while time.monotonic() < until:
                begun = time.monotonic()
                mine.append(round_.act(rng.integers(CONTEXTS, size=3), rng))
                slowest.append(time.monotonic() - begun)
            return mine

        with ThreadPoolExecutor(4) as pool:
            jobs = [pool.submit(act, seed) for seed in range(4)]
            time.sleep(1)
            with frozen(server_pids(server)):
                time.sleep(4)
            for job in jobs:
                stored += [(each, 0 if each.failure else 2) for each in job.result(timeout=120)]
        assert max(slowest) < GENEROUS_SECONDS
        assert {served for _, served in stored} == {0, 2}
        time.sleep(2)
        check_whole(run, stored)


def unavailable(run, monkeypatch):
    """Within the block every transaction fails at once."""
    context = monkeypatch.context()
    patch = context.__enter__()

    def fail(*_, **__):
        raise sql.exc.OperationalError("BEGIN", {}, OSError("no answer"))

    patch.setattr(run._store, "_begin", fail)
    run._recorder.outage._try_again_at = 0.0
    return context


def available(run, context):
    context.__exit__(None, None, None)
    run._recorder.outage._try_again_at = 0.0


def test_a_key_in_two_outages_does_not_block_delivery(sqlite_url, tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    contexts = rng.integers(CONTEXTS, size=3)
    with open_run(sqlite_url, tmp_path) as run:
        two_rounds(run)
        stored = run.round.act(contexts, rng, key="stored")  # carried out
        spooled = []
        for _ in range(2):
            outage = unavailable(run, monkeypatch)
            current = Round(2, None, "", run, None)
            spooled += [current.act(contexts, rng, key=key) for key in ("one", "stored")]
            available(run, outage)
            run.pending()
        assert not set(stored.ids) & {each for taken in spooled for each in taken.ids.tolist()}
        pending = set(run.pending().ids.tolist())
        for taken in (stored, *spooled):  # none was withdrawn, none is missing
            assert set(taken.ids.tolist()) <= pending
        again = run.round.act(contexts, rng, key="one")
        np.testing.assert_array_equal(again.ids, spooled[0].ids)
        again = run.round.act(contexts, rng, key="stored")
        np.testing.assert_array_equal(again.ids, stored.ids)
