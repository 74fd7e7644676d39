"""Watching a release: each look has what the history read anew has, on any course of events."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tether.release import ArmCounts
from tether.rounds.errors import StoreError
from tether.rounds.releases.served_release import ServedRelease

LOG = {"complaint": ArmCounts(10_000, 0.0), "delay": ArmCounts(10_000, 100.0)}
GUARDRAILS = {"complaint": 0.5, "delay": (0.2, 2.0)}

EVENTS = st.one_of(
    st.tuples(st.just("assign"), st.integers(0, 40), st.integers(1, 15)),
    st.tuples(st.just("observe"), st.integers(0, 40), st.floats(0, 1)),
    st.tuples(st.sampled_from(["halt", "resume", "advance", "look"])),
)


@settings(max_examples=25)
@given(st.lists(EVENTS, max_size=20))
def test_a_look_has_what_is_read_anew(events):
    with ServedRelease("sqlite://", GUARDRAILS, old=LOG, salt=b"s") as release:
        watch, systems = release.watch(), {}
        for name, *values in events:
            if name == "assign":
                keys = [f"key {number}" for number in range(values[0], sum(values))]
                systems |= zip(keys, release.assign(keys), strict=True)
            elif name == "observe" and (key := f"key {values[0]}") in systems:
                losses = {"complaint": values[1], "delay": 2 * values[1]}
                release.observe(key, losses, system=systems[key], keep_first=True)
            elif name == "halt":
                release.halt("a test", actor="ann")
            elif name == "resume" and release.history().alarm is not None:
                release.resume("a test", actor="ann")
            elif name == "advance":
                release.advance()
            elif name == "look":
                watch.look()
        view = watch.look()
        assert view.history == release.history()
        assert view.step == release.step
        assert view.rows == sum(each.old.rows + each.new.rows for each in view.history.steps)
        assert len(view.recent) == min(20, view.rows)


def test_late_losses_of_any_step_are_seen():
    with ServedRelease("sqlite://", GUARDRAILS, old=LOG, salt=b"s") as release:
        watch, keys = release.watch(), [f"key {each}" for each in range(60)]
        systems = release.assign(keys)
        for number, key in enumerate(keys):
            if number == 30:
                release.advance()
            losses = {"complaint": number / 60, "delay": 0}
            release.observe(key, losses, system=systems[number])
            if number % 10 == 9:
                assert watch.look().history == release.history()


def test_a_look_after_an_error_reads_everything_again(monkeypatch):
    with ServedRelease("sqlite://", {"complaint": 0.5}, old={"complaint": LOG["complaint"]}) as it:
        watch = it.watch()
        it.assign(["ann", "bob"])
        with monkeypatch.context() as patch:

            def fail(*_):
                raise StoreError("no route")

            patch.setattr(watch._paths, "look", fail)
            with pytest.raises(StoreError):
                watch.look()
        it.assign(["cid"])
        assert watch.look().history == it.history()
        assert watch.look().rows == 3
