"""A release behind a service."""

import numpy as np
import pytest

from tether.release import ArmCounts
from tether.release.assignment import is_new, positions
from tether.rounds import verify_store
from tether.rounds.releases import assigning
from tether.rounds.releases.served_release import ServedRelease

LOG = {"complaint": ArmCounts(2000, 20.0)}


def make(store, **options):
    return ServedRelease(store, {"complaint": 0.02}, old=LOG, salt=b"x", **options)


@pytest.mark.parametrize("asked", [0, 1, 2])
def test_what_nobody_waits_for_any_more_is_not_stored(tmp_path, asked):
    """It is asked for before the store is looked at, and again when it is written."""
    store = str(tmp_path / "release.db")
    times = iter(range(10))
    with make(store) as release:
        made = []
        found = release.assign_stored(["ann"], made.extend, lambda: next(times) < asked)
        assert found == ([None] if asked < 2 else ["old"])
        assert len(made) == asked // 2
        observed = release.observe_counted(["ann"], {"complaint": [0.0]}, ["old"])
        assert observed[:2] == (asked // 2, 1 - asked // 2)
        assert observed.counts == ({("old", "complaint"): 1} if asked == 2 else {})
        assert release.assign_stored(["ann"]) == ["old"]
    assert verify_store(store).ok


def test_answers_are_those_of_the_share_in_force_whatever_was_expected(store_url, monkeypatch):
    """Two services whose keys are new, come back, and meet halts, resumptions and steps."""
    monkeypatch.setattr(assigning, "NEW_CALLS_IN_A_ROW", 2)
    rng, rows, expected = np.random.default_rng(0), set(), 0
    options = {"guardrails": {"complaint": 0.5}, "old": LOG, "keys_per_step": 40}
    options |= {"max_silence": None, "salt": b"x"}
    with ServedRelease(store_url, **options) as one, ServedRelease(store_url, **options) as other:
        for turn in range(120):
            release = one if rng.random() < 0.5 else other
            state = release.state()
            if turn % 30 == 20:
                (one if rng.random() < 0.5 else other).halt("a test", actor="ann")
            elif turn % 30 == 25:
                (one if rng.random() < 0.5 else other).resume("over", actor="ann")
            elif release.due.is_set() and rng.random() < 0.5:
                release.begin_due_step()
            state = release.state()
            keys = [f"user {turn} {number}" for number in range(rng.integers(1, 5))]
            if turn % 10 == 9:
                keys += [f"user {turn - 3} 0"]  # comes back
            expected += release._assigner._expected() is not None
            found = release.assign_stored(keys)
            places = positions([key.encode() for key in keys], b"x")
            assert found == np.where(is_new(places, state.share), "new", "old").tolist()
            rows |= set(zip(keys, found, strict=True))
        history = one.history()
    assert expected > 20  # otherwise this test shows nothing
    assert len(history.steps) > 3
    assert sum(each.old.rows + each.new.rows for each in history.steps) == len(rows)
    assert verify_store(store_url).ok
