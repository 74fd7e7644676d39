"""Threads that call everything at once: a process that computes the run anew finds the same."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing

import numpy as np
import pytest

from tests.rounds.mixed_calls import Caller
from tests.rounds.recomputed_run import read_run
from tests.rounds.store_invariants import check_whole, read_tables
from tests.rounds.test_threads import THREADS, all_at_once
from tests.rounds.worker_process import open_run, two_rounds
from tests.scale import SCALE

pytestmark = pytest.mark.slow
CALLS = 40 if SCALE == 1 else 100 * SCALE**2
"""By each thread: 10,000 in `make endurance`."""
ROUNDS = 6 if SCALE == 1 else 20
EXACT = {"rtol": 1e-9, "atol": 1e-9}


@pytest.mark.parametrize("kind", ["memory", "sqlite", "postgresql"])
def test_a_fresh_process_computes_the_same(kind, request, tmp_path, child_processes):
    names = {"sqlite": "sqlite_url", "postgresql": "postgres_url"}
    url = request.getfixturevalue(names[kind]) if kind in names else "sqlite://"
    with open_run(url) as run:
        first = two_rounds(run)
        run.observe(first.ids, 0.01 + 0.13 * first.actions)
        begin_every = max(2, CALLS // ROUNDS)
        callers = [Caller(run, url, seed) for seed in range(THREADS)]
        all_at_once(
            [lambda: callers[0].make_calls(CALLS, begin_every)]
            + [lambda each=each: each.make_calls(CALLS) for each in callers[1:]]
        )
        callers[0].begin()  # with what came after the last one, and then an alarm
        taken = callers[0].act(40)
        run.observe(taken.ids, np.ones(40), taken.ids % 7)
        callers[0].losses |= dict.fromkeys(taken.ids.tolist(), 1.0)
        live, tables = read_run(run), read_tables(run)
        if kind == "memory":
            url = str(tmp_path / "memory.db")
            with run._store.reading() as connection, closing(sqlite3.connect(url)) as file:
                connection.connection.driver_connection.backup(file)
    assert sum(sum(each.made.values()) for each in callers) == THREADS * CALLS
    check_whole(tables)
    check_journals(callers, tables)
    check_counts(live, tables)
    assert child_processes.run("recompute", url=url, folder=str(tmp_path)) == 0
    found = json.loads((tmp_path / "recomputed.json").read_text())
    assert found["wrong"] == found["wrong in the copy"] == []
    assert found["store"] == live
    same_but_for_order(found["copy"], live)
    for number, (log_beta, _) in found["calibrations"].items():
        beta = live["rounds"][number]["beta"]
        np.testing.assert_allclose(np.exp(log_beta), beta, rtol=0.02)  # a step of the grid
        if beta > 0:  # also what `begin` returned
            assert callers[0].betas.get(int(number), beta) == beta
    assert sum(each["beta"] > 0 for each in live["rounds"].values()) > ROUNDS // 2
    assert live["alarms"][-1][:2] == [len(live["rounds"]), "risk"]
    assert live["standing"] == len(live["alarms"])


def check_journals(callers, tables):
    """What was returned to the threads is in the store, once, and nothing else is."""
    rows = {row["id"]: row for row in tables["tether_actions"]}
    stored = {row["action"]: row for row in tables["tether_observations"]}
    taken = [each for caller in callers for each in caller.taken]
    assert len(set(taken)) == len(taken) == len(rows) - 100  # those of `two_rounds`
    for caller in callers:
        for each, (number, context, action) in caller.taken.items():
            row = rows[each]
            assert row["round"] == number
            found = [int(np.frombuffer(row[name], "<i8")[0]) for name in ("context", "action")]
            assert found == [context, action]
            assert (each in stored) == (each in caller.losses or each in caller.withdrawn)
        for each, loss in caller.losses.items():
            assert (stored[each]["loss"], stored[each]["reward"]) == (loss, each % 7)
        assert all(stored[each]["loss"] is None for each in caller.withdrawn)


def check_counts(live, tables):
    """Counts and sums of each round, from the plain rows."""
    stored = {row["action"]: row for row in tables["tether_observations"]}
    actions = tables["tether_actions"]
    assert live["pending"] == sorted(row["id"] for row in actions if row["id"] not in stored)
    training = {
        str(row["id"]): stored[row["id"]]["loss"]
        for row in actions
        if row["id"] in stored and not row["calibration"]
    }
    assert live["training"] == {k: loss for k, loss in training.items() if loss is not None}
    of_safe = []
    for number, record in live["rounds"].items():
        own = [row for row in actions if row["round"] == int(number)]
        found = [stored[row["id"]] for row in own if row["id"] in stored]
        assert record["rows"] == len(own)
        assert record["safe_rows"] == sum(not row["served"] for row in own)
        assert record["calibration_rows"] == sum(row["calibration"] for row in own)
        assert record["observed"] == sum(row["loss"] is not None for row in found)
        assert record["withdrawn"] == sum(row["loss"] is None for row in found)
        by_safe = {row["id"] for row in own if not row["served"]}
        of_safe += [row for row in found if row["action"] in by_safe]
        safe_began = record["beta"] == 0
        check_means(record, [row for row in found if (row["action"] in by_safe) == safe_began])
    check_means(live["safe"], of_safe)


def check_means(record, observations):
    losses = [row["loss"] for row in observations if row["loss"] is not None]
    rewards = [row["reward"] for row in observations if row["reward"] is not None]
    for found, values in ((record["loss"], losses), (record["reward"], rewards)):
        assert (found is None) == (not values)
        if values:
            np.testing.assert_allclose(found[:2], [len(values), np.mean(values)], **EXACT)


def same_but_for_order(copy, live):
    """A copy has read its rows in an order of its own, so that sums may differ by rounding."""
    assert {**copy, "rounds": None, "safe": None} == {**live, "rounds": None, "safe": None}
    assert copy["rounds"].keys() == live["rounds"].keys()
    pairs = [(copy["rounds"][k], live["rounds"][k]) for k in live["rounds"]]
    for ours, theirs in [*pairs, (copy["safe"], live["safe"])]:
        for name in theirs:
            if name not in ("loss", "reward"):
                assert ours[name] == theirs[name]
            elif theirs[name] is None:
                assert ours[name] is None
            else:
                np.testing.assert_allclose(ours[name][:2], theirs[name][:2], **EXACT)
