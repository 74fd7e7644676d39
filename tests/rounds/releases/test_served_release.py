"""A release behind a service."""

import pytest

from tether.release import ArmCounts
from tether.rounds import Release, StoreError, read_release, verify_store
from tether.rounds.releases.beginning import StepOverError
from tether.rounds.releases.served_release import ServedRelease

LOG = {"complaint": ArmCounts(2000, 20.0)}


def make(store, **options):
    return ServedRelease(store, {"complaint": 0.02}, old=LOG, salt=b"x", **options)


def test_it_says_which_answers_are_stored(tmp_path, monkeypatch):
    store = str(tmp_path / "release.db")
    keys = [f"user {number}" for number in range(5)]
    with make(store) as release, Release(store) as plain:
        assert release.assign_stored(keys) == plain.assign(keys)

        def fail(*_, **__):
            raise StoreError("no route")

        with monkeypatch.context() as patch:
            patch.setattr(release._assigner, "_look", fail)
            assert release.assign_stored(["new key"]) == [None]
            assert release.assign("new key") == "old"
        assert release.assign_stored(["new key"]) == plain.assign(["new key"])
    assert verify_store(store).ok


def test_the_state_is_what_the_history_says(store_url):
    with make(store_url) as release:
        for act in ("nothing", "halt", "resume", "begin"):
            if act == "halt":
                release.halt("a test", actor="ann")
            elif act == "resume":
                release.resume("over", actor="bob")
            elif act == "begin":
                assert release.begin_due_step()
            else:
                assert not release.begin_due_step()
            state, history = release.state(), release.history()
            assert state.share == history.share == release.share
            assert state.alarm == history.alarm
            assert state.step == release.step
            assert (state.share > 0) == (act in ("nothing", "begin"))
        assert release.step.number == 2
    assert verify_store(store_url).ok


def test_a_step_is_ended_once_and_by_whom(tmp_path):
    store = str(tmp_path / "release.db")
    with make(store) as release:
        assert release.end_step(1, "every night", actor="ann").number == 2
        with pytest.raises(StepOverError, match="step must be the present one, 2, got 1"):
            release.end_step(1, "every night", actor="ann")
        with pytest.raises(ValueError, match="reason must say why the step ends, got ' '"):
            release.end_step(2, " ", actor="ann")
        assert release.advance().number == 3
    (act,) = read_release(store).audit
    assert (act.act, act.actor, act.reason, act.subject) == ("advance", "ann", "every night", 2)
    assert verify_store(store).ok
