"""Watching a run: each look has what is read anew, on any course of events."""

import dataclasses
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tether
from tests.rounds.small_runs import monitored_run
from tether.monitor import RiskMonitor
from tether.rounds import monitor_path
from tether.rounds.errors import StoreError
from tether.rounds.kept_sums import Sums
from tether.rounds.run_watch import RunWatch

LIMITS = {"alpha": {"harm": 0.5, "cost": 0.4}, "bound": {"harm": 1.0, "cost": 2.0}}
EVENTS = st.one_of(
    st.tuples(st.just("act"), st.integers(1, 15)),
    st.tuples(st.just("observe"), st.integers(0, 40), st.floats(0, 1)),
    st.tuples(st.sampled_from(["halt", "resume", "begin", "begin safe", "look"])),
)


def watching(run):
    return RunWatch(run._store, run.settings)


def plain(history):
    """Calibrations hold arrays, which cannot be compared as they are."""
    rounds = [
        dataclasses.replace(each, calibration=None, note=each.note + str(each.calibration))
        for each in history.rounds
    ]
    return dataclasses.replace(history, rounds=tuple(rounds))


def recounted(run, view):
    """Counts, means and monitors of the present round, from the stored rows one after another."""
    query = (
        "SELECT a.id, a.round, a.served, o.which, o.loss, o.number FROM tether_actions a "
        "LEFT JOIN tether_observations o ON o.action = a.id ORDER BY o.number"
    )
    with run._store.reading() as connection:
        rows = connection.exec_driver_sql(query).fetchall()
    for record in view.history.rounds:
        mine = [row for row in rows if row.round == record.number]
        assert record.rows == len({row.id for row in mine})
        assert record.safe_rows == len({row.id for row in mine if row.served == 0})
        number = record.number if record.calibration and record.calibration.exists else 0
        for which, name in enumerate(view.history.limits):
            losses = [
                row.loss
                for row in mine
                if row.which == which and (view.history.is_ramp or row.served == number)
            ]
            assert (name in record.losses) == bool(losses)
            if losses:
                assert record.losses[name].count == len(losses)
                assert record.losses[name].mean == pytest.approx(np.mean(losses))


@pytest.mark.parametrize("options", [{}, {"family": "ramp"}], ids=["beta", "ramp"])
@settings(max_examples=10)
@given(events=st.lists(EVENTS, max_size=20))
def test_a_look_has_what_is_read_anew(options, events):
    rng = np.random.default_rng(0)
    given_options = LIMITS | {"missing": "worst_case", "alarm_risk": {"harm": 0.8, "cost": 1.5}}
    safe = tether.Gaussian(0.0)
    with tether.Controller(safe, store="sqlite://", **given_options, **options) as run:
        run.begin()
        watch, ids = watching(run), []
        for name, *values in events:
            if name == "act":
                ids += run.round.act(values[0], rng).ids.tolist()
            elif name == "observe" and values[0] < len(ids):
                ids.sort()
                losses = {"harm": [values[1]], "cost": [2 * values[1]]}
                run.observe([ids.pop(values[0])], losses)
            elif name == "halt":
                run.halt("a test", actor="ann")
            elif name == "resume" and run.history().alarm is not None:
                run.resume("a test", actor="ann")
            elif name.startswith("begin"):
                run.begin(tether.Gaussian(0.3) if name == "begin" else None)
            elif name == "look":
                watch.look()
        view = watch.look()
        assert plain(view.history) == plain(run.history())
        recounted(run, view)
        total = sum(each.rows for each in view.history.rounds)
        assert len(view.recent) == min(20, total)
        assert view.serves is False or view.history.alarm is None


@pytest.mark.parametrize("is_first_look_late", [False, True])
def test_the_paths_end_where_the_stored_monitors_are(is_first_look_late, monkeypatch):
    """Also after an alarm was cleared, from which on the monitors see new losses alone."""
    monkeypatch.setattr(monitor_path, "LOSSES_PER_QUERY", 10)
    run, round_, rng = monitored_run(alarm_risk=0.5)
    with run:
        watch = watching(run)
        taken = round_.act(60, rng)
        run.observe(taken.ids, np.ones(60))
        if not is_first_look_late:
            (path,) = watch.look().monitors.values()
            expected = RiskMonitor(0.5, false_alarm_probability=0.01).update(np.ones(60))
            assert (path[-1].seen, path[-1].alarm_at) == (60, expected.alarm_at)
            assert not watch.look().serves
        run.resume("checked", actor="ann")
        assert watch.look().monitors["loss"][-1].seen == 0
        later = round_.act(50, rng)
        run.observe(later.ids, np.arange(50) % 2.0)
        view = watch.look()
        assert view.serves
        with run._store.reading() as connection:
            query = "SELECT value FROM tether_kept WHERE name = 'round 2'"
            kept = Sums.from_json(connection.exec_driver_sql(query).scalar())
        found, expected = view.monitors["loss"][-1], kept.losses["loss"].risk.status
        assert found.to_dict() == pytest.approx(expected.to_dict())
        assert found.seen == 50


def test_a_look_after_an_error_reads_everything_again(monkeypatch):
    run, round_, rng = monitored_run()
    with run:
        watch = watching(run)
        with monkeypatch.context() as patch:

            def fail(*_):
                raise StoreError("no route")

            patch.setattr(watch._recent, "look", fail)
            with pytest.raises(StoreError):
                watch.look()
        round_.act(3, rng)
        assert plain(watch.look().history) == plain(run.history())
        assert watch.look().history.rounds[-1].rows == 3


def test_a_look_reads_what_is_new_alone(monkeypatch):
    """Whatever the number of rows, nothing of the table of actions is read without new ones."""
    run, round_, rng = monitored_run()
    with run:
        watch = watching(run)
        watch.look()
        counted = watch._reader._count_entries
        asked = []
        monkeypatch.setattr(
            watch._reader,
            "_count_entries",
            lambda *given: asked.append(given[2]) or counted(*given),
        )
        watch.look()
        assert asked == []
        round_.act(3, rng)
        before = watch._reader._counted[0][0]
        watch.look()
        assert asked == [before]
        assert before > 0


def test_a_retired_round_does_not_serve():
    run, _, _ = monitored_run()
    with run:
        watch = watching(run)
        assert watch.look().serves
        run.retire(2, "its policy is lost", actor="ann")
        assert not watch.look().serves


@pytest.mark.parametrize("family", ["clip", "ramp"])
def test_late_losses_of_any_round_are_seen(family):
    rng = np.random.default_rng(0)
    settings = {"alpha": 0.3, "missing": "worst_case", "family": family}
    with tether.Controller(tether.Gaussian(0.0), store="sqlite://", **settings) as run:
        watch, ids = watching(run), []
        for number in range(3):
            ids += run.begin(tether.Gaussian(0.1) if number else None).act(30, rng).ids.tolist()
            for _ in range(5):
                late = [ids.pop(0), ids.pop()]
                run.observe(late, [0.1 * number, 0.2], [1.0, 2.0])
                assert plain(watch.look().history) == plain(run.history())


def test_rows_that_several_threads_write_are_all_seen(store_url):
    """On PostgreSQL they write in several lanes."""
    settings = {"alpha": 0.3, "missing": "worst_case", "deadline": 30}
    with tether.Controller(tether.Gaussian(0.0), store=store_url, **settings) as run:
        watch, round_ = watching(run), run.begin()

        def write(seed):
            rng = np.random.default_rng(seed)
            for _ in range(6):
                taken = round_.act(rng.random((5, 2)), rng)
                run.observe(taken.ids, np.full(5, 0.1))

        with ThreadPoolExecutor(4) as threads:
            written = [threads.submit(write, seed) for seed in range(4)]
            while not all(each.done() for each in written):
                watch.look()
            assert [each.result() for each in written] == [None] * 4
        view = watch.look()
        assert plain(view.history) == plain(run.history())
        assert view.history.rounds[-1].rows == 120
        assert {row.losses["loss"] for row in view.recent} == {0.1}
        assert all(row.context.startswith("[0.") for row in view.recent)
