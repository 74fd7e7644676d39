"""Alarms: raised by what the store has, standing until a person clears them."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import tether
from tests.rounds.small_runs import monitored_run
from tests.rounds.store_invariants import check_alarms, check_whole, read_tables
from tests.rounds.worker_process import CONTEXTS, begin_and_act, named, open_run
from tether.rounds import Controller
from tether.rounds.kept import Kept
from tether.rounds.losses_seen import SEEN
from tether.rounds.store.lanes import read_lanes


def test_an_alarm_sends_the_rest_of_the_round_to_the_safe_policy():
    run, round_, rng = monitored_run()
    assert round_.beta > 0
    taken = round_.act(200, rng)
    run.observe(taken.ids[:100], np.full(100, 0.1))
    assert run.history().alarm is None
    run.observe(taken.ids[100:], np.ones(100))  # the world has changed
    alarm = run.history().alarm
    assert (alarm.monitor, alarm.round, alarm.cleared) == ("risk", 2, None)
    assert "ALARM" in alarm.message
    round_.act(50, rng)
    run._refresh()
    assert (run._rows.served[-50:] == 0).all()
    np.testing.assert_allclose(run._rows.log_prob[-50:], run._rows.log_safe[-50:])
    assert run.history().rounds[1].safe_rows == 50
    run.observe(run.pending().ids, np.zeros(50))
    held = run.begin(tether.Gaussian(0.3))
    assert held.beta == 0
    assert "alarm 1 stood when the round began" in held.note
    with pytest.raises(ValueError, match="reason must say why"):
        run.resume("")
    run.resume("the sensor was replaced")
    with pytest.raises(ValueError, match="no alarm stands"):
        run.resume("again")
    alarm = run.history().alarms[0]
    assert (alarm.reason, alarm.cleared is None) == ("the sensor was replaced", False)
    assert run.history().alarm is None
    assert run.begin(tether.Gaussian(0.3)).calibration is not None


@pytest.mark.parametrize("batch", [1, 7, 100])
def test_the_alarm_falls_on_the_same_loss_whatever_the_batches_and_restarts(tmp_path, batch):
    run, round_, rng = monitored_run(tmp_path / f"{batch}.db")
    taken = round_.act(200, rng)
    losses = (np.random.default_rng(1).random(200) < 0.4).astype(float)
    alarmed_at = None
    policies = {"round 2": tether.Gaussian(0.3)}
    for first in range(0, 200, batch):
        if first % 14 == 0:
            run.close()
            run = Controller(
                tether.Gaussian(0.0),
                store=tmp_path / f"{batch}.db",
                alpha=0.1,
                false_alarm_probability=0.01,
                policies=policies,
            )
        run.observe(taken.ids[first : first + batch], losses[first : first + batch])
        if run.history().alarm and alarmed_at is None:
            alarmed_at = first + batch
    monitor = tether.monitor.RiskMonitor(
        run.settings.limits["loss"].alarm_risk, false_alarm_probability=0.01
    )
    expected = monitor.update(losses).alarm_at
    assert expected is not None
    assert expected <= alarmed_at < expected + batch
    assert f"ALARM at loss {expected}" in run.history().alarms[0].message


def test_an_alarm_and_resuming_across_restarts(store_url):
    with open_run(store_url) as run:
        _, taken = begin_and_act(run, rows=100)
        run.observe(taken.ids, np.zeros(100))
        current, taken = begin_and_act(run, name="tilt 1", seed=1)
        assert current.beta > 0
        for first in (0, 3, 6):  # each is counted once
            run.observe(taken.ids[first : first + 3], np.ones(3))
    with open_run(store_url) as run:  # the monitor reads the nine again, and the tenth is enough
        assert run.history().alarm is None
        run.observe(taken.ids[9:12], np.ones(3))
        assert "ALARM at loss 10" in run.history().alarm.message
    with open_run(store_url) as run:
        rng = np.random.default_rng(2)
        run.round.act(rng.integers(CONTEXTS, size=5), rng)
        assert run.begin(named("tilt 2")).beta == 0
        run.resume("the sensor was replaced")
        run.observe(taken.ids[12:], np.ones(len(taken) - 12))
        tables = read_tables(run)
        check_whole(tables)
        check_alarms(tables)
        assert [row["served"] for row in tables["tether_actions"][-5:]] == [0] * 5
        reasons = [alarm.reason for alarm in run.history().alarms]
        assert reasons == ["the sensor was replaced", None]


def test_every_loss_is_seen_by_some_call_that_has_observed_at_the_same_time(postgres_url):
    with open_run(postgres_url) as run, ThreadPoolExecutor(6) as threads:
        _, taken = begin_and_act(run, rows=90)

        def observe(first):
            with open_run(postgres_url) as alongside:
                for k in range(first, len(taken), 6):
                    alongside.observe(taken.ids[k : k + 1], [0.0])

        assert list(threads.map(observe, range(6))) == [None] * 6
        with run._store.reading() as connection:
            lanes = read_lanes(connection)
            stored = {str(lane): each.last_observation for lane, each in lanes.items() if lane >= 0}
            seen = json.loads(Kept(connection)[SEEN])
            assert seen == {lane: last for lane, last in stored.items() if last}
            assert sum(seen.values()) == 90
