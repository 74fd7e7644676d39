"""Alarms: raised by what the store has, standing until a person clears them."""

import numpy as np
import pytest

import tether
from tether.rounds import Controller, read_history
from tether.rounds.monitors import REFERENCE


def start(store="sqlite://", **options):
    terms = {"alpha": 0.1, "delta": 0.01} | options
    run = Controller(tether.Gaussian(0.0), store=store, **terms)
    rng = np.random.default_rng(0)
    taken = run.begin().act(400, rng)
    run.observe(taken.ids, (taken.actions > 2.0).astype(float))
    return run, run.begin(tether.Gaussian(0.3)), rng


def test_an_alarm_sends_the_rest_of_the_round_to_the_safe_policy():
    run, round_, rng = start()
    assert round_.beta > 0
    taken = round_.act(200, rng)
    run.observe(taken.ids[:100], np.full(100, 0.1))
    assert history_of(run).alarm is None
    run.observe(taken.ids[100:], np.ones(100))  # the world has changed
    alarm = history_of(run).alarm
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
    assert "alarm 1 stands" in held.note
    with pytest.raises(ValueError, match="reason must say in words"):
        run.resume("")
    run.resume("the sensor was replaced")
    with pytest.raises(ValueError, match="no alarm stands"):
        run.resume("again")
    alarm = history_of(run).alarms[0]
    assert (alarm.reason, alarm.cleared is None) == ("the sensor was replaced", False)
    assert history_of(run).alarm is None
    assert run.begin(tether.Gaussian(0.3)).calibration is not None


def history_of(run):
    return run.history()


def test_the_rest_of_a_round_goes_on_after_resuming():
    run, round_, rng = start()
    taken = round_.act(100, rng)
    run.observe(taken.ids, np.ones(100))
    run.resume("a drill")
    round_.act(10, rng)
    run._refresh()
    assert (run._rows.served[-10:] == 2).all()
    late = run.pending()
    run.observe(late.ids, np.zeros(10))  # the monitors began anew: old losses do not count
    assert run.history().alarm is None


def test_mixture_counts_know_who_served():
    run, round_, rng = start()
    taken = round_.act(100, rng)
    run.observe(taken.ids, np.ones(100))
    more = round_.act(60, rng)
    run.observe(more.ids, np.zeros(60))
    run.resume("a drill")
    run._refresh()
    rows = run._rows
    where = rows.calibration
    found = run.begin(tether.Gaussian(0.1)).calibration
    counts = [int((where & (rows.served == k)).sum()) for k in (0, 2)]
    assert counts[0] > where[:400].sum()  # rows after the alarm are the safe policy's
    mixture = tether.Mixture([run.safe, round_.policy], counts)
    log = tether.make_log(
        run.safe, tether.Gaussian(0.1), None, rows.actions[where], rows.loss[where],
        logged_by=mixture,
    )  # fmt: skip
    draws = tether.make_proposals(
        run.safe,
        tether.Gaussian(0.1),
        1,
        1000,
        np.random.default_rng([0, 3, 7919]),
        logged_by=mixture,
    )
    assert found.log_beta == tether.calibrate(log, draws, alpha=0.1).log_beta


def test_safe_rows_raise_no_alarm():
    run = Controller(tether.Gaussian(0.0), alpha=0.1, store="sqlite://")
    taken = run.begin().act(300, np.random.default_rng(0))
    run.observe(taken.ids, np.ones(300))
    assert run.history().alarms == ()


@pytest.mark.parametrize("batch", [1, 7, 100])
def test_the_alarm_falls_on_the_same_loss_whatever_the_batches_and_restarts(tmp_path, batch):
    run, round_, rng = start(tmp_path / f"{batch}.db")
    taken = round_.act(200, rng)
    losses = (np.random.default_rng(1).random(200) < 0.4).astype(float)
    alarmed_at = None
    policies = {"round 2": tether.Gaussian(0.3)}
    for first in range(0, 200, batch):
        if first % 14 == 0:
            run.close()
            run = Controller(
                tether.Gaussian(0.0), store=tmp_path / f"{batch}.db", alpha=0.1, delta=0.01,
                policies=policies,
            )  # fmt: skip
        run.observe(taken.ids[first : first + batch], losses[first : first + batch])
        if run.history().alarm and alarmed_at is None:
            alarmed_at = first + batch
    watch = tether.monitor.RiskMonitor(run.terms.watched, false_alarm_probability=0.01)
    expected = watch.update(losses).alarm_at
    assert expected is not None
    assert expected <= alarmed_at < expected + batch
    assert f"ALARM at loss {expected}" in run.history().alarms[0].message


def test_a_shift_of_contexts_raises_an_alarm():
    safe = tether.Gaussian(lambda x: x[:, 0], 1.0)
    run = Controller(
        safe, alpha=0.3, store="sqlite://", context_score=lambda x: x[:, 0], missing="worst_case"
    )
    rng = np.random.default_rng(3)
    round_ = run.begin()
    for _ in range(8):
        round_.act(rng.normal(size=(100, 2)), rng)
    assert run.history().alarms == ()
    for _ in range(3):
        round_.act(1.5 + rng.normal(size=(100, 2)), rng)
    alarm = run.history().alarm
    assert alarm.monitor == "shift"
    run.resume("a new clinic joined")
    for _ in range(10):  # the first contexts from now on are the new reference
        round_.act(1.5 + rng.normal(size=(100, 2)), rng)
    assert run.history().alarm is None
    assert REFERENCE == 500


def test_a_context_score_is_checked():
    run = Controller(
        tether.Gaussian(lambda x: x[:, 0], 1.0),
        alpha=0.3,
        store="sqlite://",
        context_score=lambda x: x,
    )
    round_, rng = run.begin(), np.random.default_rng(0)
    with pytest.raises(ValueError, match="context_score's answer must have 1 dimension"):
        round_.act(rng.normal(size=(5, 2)), rng)
    assert len(run.pending()) == 0  # nothing was kept


def test_history_reads_without_policies(tmp_path):
    run, round_, rng = start(tmp_path / "run.db")
    taken = round_.act(100, rng)
    run.observe(taken.ids[:40], np.zeros(40), np.arange(40.0))
    run.close()
    found = read_history(tmp_path / "run.db")
    assert [each.number for each in found.rounds] == [1, 2]
    first, second = found.rounds
    assert (first.rows, first.observed, first.pending) == (400, 400, 0)
    assert (second.rows, second.observed, second.pending) == (100, 40, 60)
    assert second.loss.mean == 0
    assert second.loss.lower == 0 < second.loss.upper < 1
    assert second.reward.mean == 19.5
    assert first.reward is None
    assert found.safe_loss.count == 400
    assert second.calibration.beta == pytest.approx(round_.beta)
    assert second.beta == pytest.approx(round_.beta)
    assert str(second.calibration) == str(round_.calibration)
