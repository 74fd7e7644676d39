"""Watching a run: each look has what is read anew, on any course of events."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tether
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
