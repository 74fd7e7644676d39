"""Watching a release: each look has what the history read anew has, on any course of events."""

from concurrent.futures import ThreadPoolExecutor

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


@settings(max_examples=10)
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


def test_rows_that_several_threads_write_are_all_seen(store_url):
    """On PostgreSQL they write in several lanes."""
    keys = [[f"{thread} {each}" for each in range(40)] for thread in range(4)]
    with ServedRelease(store_url, GUARDRAILS, old=LOG, salt=b"s", deadline=30) as release:
        watch = release.watch()
        first = [f"first {each}" for each in range(100)]
        zeros = {name: [0.0] * len(first) for name in GUARDRAILS}
        release.observe(first, zeros, system=release.assign(first))
        release.advance()

        def write(mine):
            for begin in range(0, len(mine), 5):
                some = mine[begin : begin + 5]
                losses = {"complaint": [0.1] * 5, "delay": [0.0] * 5}
                release.observe(some, losses, system=release.assign(some))

        with ThreadPoolExecutor(len(keys)) as threads:
            written = [threads.submit(write, mine) for mine in keys]
            while not all(each.done() for each in written):
                watch.look()
            assert [each.result() for each in written] == [None] * len(keys)
        view = watch.look()
        assert view.history == release.history()
        assert view.rows == len(first) + sum(map(len, keys))
        assert {row.key for row in view.recent} <= {key for mine in keys for key in mine}
        assert {row.losses["complaint"] for row in view.recent} == {0.1}
        assert view.monitors["complaint"][-1].seen == view.history.steps[-1].new.rows > 0
