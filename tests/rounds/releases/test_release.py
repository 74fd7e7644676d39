"""What a user of a release sees: assignments, losses, steps, alarms."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import numpy as np
import pytest

import tether
from tether.release import ArmCounts, Guardrail, is_new, positions
from tether.rounds.releases import step as step_module

LOG = {"complaint": ArmCounts(2000, 20.0)}
GUARDRAILS = {"complaint": 0.02}
USERS = [f"user {k}" for k in range(3000)]


def release_in_memory(**changed):
    return tether.Release("sqlite://", **{"guardrails": GUARDRAILS, "old": LOG} | changed)


def play_step(release, keys, loss=0.0):
    """Assign keys, and observe the same loss for each."""
    systems = release.assign(keys)
    release.observe(keys, [loss] * len(keys))
    return systems


def test_the_first_share_is_what_even_the_worst_system_could_not_hurt():
    release = release_in_memory()
    bound = 21 / 2001
    assert release.share == release.step.share == pytest.approx((0.02 - bound) / (1 - bound))
    assert release.step.ramp_share.promises["complaint"] == pytest.approx(0.02, rel=0.02)


def test_keys_stay_where_they_are_and_move_to_new_alone_while_the_share_grows():
    release, before = release_in_memory(), None
    for _ in range(4):
        systems = np.array(play_step(release, USERS)) if before is None else None
        systems = np.array(release.assign(USERS)) if systems is None else systems
        release.observe(
            [key for key, each in zip(USERS, systems, strict=True) if each == "new"],
            {"complaint": [0.0] * int((systems == "new").sum())},
        )
        if before is not None:
            assert not ((before == "new") & (systems == "old")).any()
        expected = is_new(positions(USERS, release.settings.salt_bytes), release.share)
        assert ((systems == "new") == expected).all()
        share, before = release.share, systems
        assert release.advance().share >= share
    assert release.share == 1.0


def test_losses_come_late_in_any_order_and_twice():
    release = release_in_memory(
        guardrails={"complaint": 0.02, "delay": (0.5, 2.0)},
        old={**LOG, "delay": ArmCounts(2000, 100.0)},
    )
    release.assign(["ann", "bob"])
    assert release.observe(["bob", "ann"], {"delay": [2.0, 0.5]}) == 2
    assert release.observe("ann", {"complaint": 0.0, "delay": 0.5}) == 1
    assert release.observe("ann", {"complaint": 0.0, "delay": 0.5}) == 0
    with pytest.raises(ValueError, match=r"another loss .* skip them with keep_first"):
        release.observe("ann", {"complaint": 1.0})
    assert release.observe("ann", {"complaint": 1.0}, keep_first=True) == 0
    assert release.observe(["ann", "bob"], {"complaint": [1.0, 0.0]}, keep_first=True) == 1
    with pytest.raises(ValueError, match=r"key 'eve' was never assigned \(1 of 2\)"):
        release.observe(["ann", "eve"], {"complaint": [0.0, 0.0]})
    with pytest.raises(ValueError, match="each key once"):
        release.observe(["ann", "ann"], {"complaint": [0.0, 0.0]})
    with pytest.raises(ValueError, match="each key once for a system"):
        release.observe(["ann", "ann"], {"complaint": [0.0, 0.0]}, system="old")
    with pytest.raises(ValueError, match="at most bound = 2"):
        release.observe("bob", {"delay": 3.0})
    with pytest.raises(TypeError, match="mapping"):
        release.observe("bob", 0.0)


def test_a_late_loss_of_a_key_that_moved_belongs_to_the_system_that_is_named():
    release = release_in_memory()
    systems = dict(zip(USERS, release.assign(USERS), strict=True))
    release.observe(
        [key for key in USERS if systems[key] == "new"], [0.0] * list(systems.values()).count("new")
    )
    release.advance()
    moved = next(key for key in USERS if release.assign(key) == "new" and systems[key] == "old")
    release.observe(moved, 1.0, system="old")
    release.observe(moved, 0.0)
    first, second = release.history().steps
    assert first.old.losses["complaint"].mean == 1.0
    assert second.new.losses["complaint"].mean == 0.0
    with pytest.raises(ValueError, match="never assigned to the new system"):
        release.observe(
            next(key for key in USERS if release.assign(key) == "old"), 0.0, system="new"
        )


def test_unknown_losses_count_as_the_bound():
    release = release_in_memory()
    systems = release.assign(USERS)
    release.observe(
        [key for key, each in zip(USERS, systems, strict=True) if each == "old"],
        [0.0] * systems.count("old"),
    )
    counts = release.advance().ramp_share.guardrails["complaint"]
    assert counts.new.pending == counts.new.rows == systems.count("new") > 0
    assert counts.new_bound == 1.0


def test_steps_end_after_a_time(monkeypatch):
    release = release_in_memory(step_duration=timedelta(hours=1))
    play_step(release, USERS)
    release.assign("another")
    assert release.step.number == 1
    later = step_module.moment() + timedelta(minutes=61)
    monkeypatch.setattr("tether.rounds.releases.beginning.moment", lambda: later)
    release.assign("one more")
    assert release.step.number == 2


def test_with_a_confidence_all_rows_count():
    release = release_in_memory(confidence=0.9, guardrails={"complaint": 0.1})
    for begin in (0, 1000, 2000):
        play_step(release, USERS[begin : begin + 1000])
        release.advance()
    counts = release.step.ramp_share.guardrails["complaint"]
    steps = release.history().steps
    assert counts.new.rows == sum(step.new.rows for step in steps)
    assert counts.old.rows == 2000 + sum(step.old.rows for step in steps)
    assert release.share > 0.5


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"guardrails": {}}, "guardrails must name"),
        ({"guardrails": 0.02}, "guardrails must map"),
        ({"guardrails": {"complaint": 1.5}}, r"guardrails\['complaint'\]: alpha"),
        ({"guardrails": {"complaint": (0.1, 2.0, 3.0)}}, "a tolerance and the largest loss"),
        ({"guardrails": {"a": Guardrail(0.1), "b": Guardrail(promise=0.1)}, "old": None}, "both"),
        ({"old": {"other": [0.0]}}, "old must have losses for"),
        ({"old": {"complaint": [2.0]}}, r"one loss in \[0, 1\] per key"),
        ({"old": [0.0]}, "old must map"),
        ({"keys_per_step": 5, "step_duration": 3.0}, "not both"),
        ({"keys_per_step": 0}, "keys_per_step"),
        ({"step_duration": -1.0}, "step_duration"),
        ({"wait": -1}, "wait"),
        ({"promise": True, "confidence": 0.9}, "leave out promise"),
        ({"alarm_risk": {"other": 0.1}}, "alarm_risk must name"),
        ({"alarm_risk": {"complaint": 0.01}}, "alarm_risk"),
        ({"guardrails": None}, "old is given without guardrails"),
        ({"guardrails": None, "old": None, "wait": 2}, "wait is given without guardrails"),
        ({"salt": "text"}, "salt must be bytes"),
        ({"salt": b""}, "salt must have 1 to 64 bytes"),
    ],
)
def test_bad_arguments_are_named(changed, message):
    with pytest.raises((TypeError, ValueError), match=message):
        release_in_memory(**changed)


def test_threads_that_assign_the_same_keys_agree_and_add_each_row_once(tmp_path):
    release = tether.Release(tmp_path / "release.db", GUARDRAILS, old={"complaint": np.zeros(100)})
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: [release.assign(key) for key in USERS[:40]], range(8)))
    assert all(each == answers[0] for each in answers)
    step = release.history().steps[0]
    assert step.old.rows + step.new.rows == 40
    release.close()
