"""Following a release: steps begin beside the requests, and outages are noticed."""

import logging
from threading import Event

from tests.service.running import tries
from tether.release import ArmCounts
from tether.rounds.errors import StoreError
from tether.rounds.releases.served_release import ServedRelease
from tether.service.operating import follower as follower_module
from tether.service.operating.follower import Follower

LOG = {"complaint": ArmCounts(2000, 20.0)}


def test_steps_alarms_and_outages_are_noticed(caplog, monkeypatch):
    caplog.set_level(logging.INFO, "tether.service")
    seen = []
    with ServedRelease("sqlite://", {"complaint": 0.02}, old=LOG) as release:
        follower = Follower(release, seen.append)
        follower.look()
        assert follower.is_available
        release.halt("a test", actor="ann")
        follower.look()
        assert follower.state.alarm.monitor == "halt"
        release.resume("over", actor="ann")
        follower.look()  # a resumption ends the step, without any key
        assert (follower.state.alarm, follower.state.step.number) == (None, 2)
        with monkeypatch.context() as patch:

            def fail():
                raise StoreError("no route")

            patch.setattr(release, "state", fail)
            follower.look()
            follower.look()
            assert not follower.is_available
        follower.look()
    assert [None if each is None else each.step.number for each in seen] == [1, 1, 2, None, None, 2]
    said = [each.getMessage() for each in caplog.records if each.name == "tether.service"]
    assert said == [
        "the store is available",
        "the present step",
        "an alarm stands",
        "a step has begun",
        "the alarm is cleared",
        "the store is unavailable: no route",
        "the store is available",
    ]


def test_the_thread_goes_on_after_an_error(caplog):
    with ServedRelease("sqlite://", {"complaint": 0.02}, old=LOG) as release:
        calls = []

        def notice(state):
            calls.append(state)
            if len(calls) == 2:
                raise ValueError("a bug")

        follower = Follower(release, notice, every=0.001)
        follower.start()
        for _ in tries():
            if len(calls) >= 4:
                break
        follower.stop()
    assert "ValueError: a bug" in caplog.text


def test_the_end_does_not_wait_for_a_step_that_is_computed(monkeypatch):
    monkeypatch.setattr(follower_module, "STOP_SECONDS", 0.01)
    begun, ended = Event(), Event()
    with ServedRelease("sqlite://", {"complaint": 0.02}, old=LOG) as release:
        follower = Follower(release, lambda state: None, every=0.001)
        follower.start()

        def compute():
            begun.set()
            ended.wait(60)

        monkeypatch.setattr(release, "begin_due_step", compute)
        assert begun.wait(60)
        asked = follower.refresh()
        follower.stop()
        assert not asked.done()
        ended.set()
        follower._thread.join(60)
