"""Alarms of a release: by harm, by silence and by hand."""

from __future__ import annotations

import re

import numpy as np
import pytest

import tether
from tests.rounds.releases.test_release import (
    GUARDRAILS,
    USERS,
    play_step,
    release_in_memory,
)
from tether.rounds import StoreError, halt, resume


def test_a_halt_is_share_0_at_once_and_resuming_begins_at_the_start():
    release = release_in_memory()
    start = release.share
    play_step(release, USERS[:1000])
    release.advance()
    play_step(release, USERS[1000:2000])
    grown = release.advance().share
    assert grown > 5 * start
    release.halt("a bad feeling", actor="ann")
    assert release.share == 0
    assert set(release.assign(USERS)) == {"old"}
    assert release.advance().share == 0
    assert release.step.ramp_share.reason == "alarm 1 stood when the step began"
    release.resume("it was nothing", actor="bob")
    assert release.share == 0  # until the next step, which the next key begins
    release.assign("another")
    assert (release.share, release.step.ramp, release.step.window) == (start, 5, 0)
    history = release.history()
    assert [each.act for each in history.audit] == ["halt", "resume"]
    assert history.alarms[0].actor == "bob"


def test_harm_raises_an_alarm_in_every_process(tmp_path):
    path = tmp_path / "release.db"
    release = tether.Release(path, GUARDRAILS, old={"complaint": np.zeros(2000)})
    other = tether.Release(path, GUARDRAILS)
    play_step(release, USERS[:1000])
    release.advance()
    assert other.share == release.share > 0
    other.assign(USERS)
    other.observe(USERS[1000:1200], [1.0] * 200)
    assert release.share == other.share == 0
    assert release.history().alarm.monitor == "risk"
    said = release.history().alarm.message
    share = release.step.share
    assert re.fullmatch(
        r"complaint: ALARM at loss \d+: .* The mean of all \d+ losses, .* is 1", said
    )
    level = f"alarm level 0.03, which is {0.03 / share:.4g} for a share of {share:.3g}"
    assert f": too high for {level} (p " in said
    assert set(release.assign(USERS[2000:])) == {"old"}
    resume(path, "the cause is found", "ann")
    assert release.assign("another") in ("old", "new")
    assert release.step.ramp == release.step.number == 3
    release.close()
    other.close()


def test_a_harmful_system_within_its_share_raises_no_alarm():
    """The monitor judges what is served, not the new system: its few keys may all be harmed."""
    release = release_in_memory(old={"complaint": np.zeros(2000)})
    for begin in (0, 1000, 2000):
        keys = USERS[begin : begin + 1000]
        systems = release.assign(keys)
        assert "new" in systems
        release.observe(keys, [float(each == "new") for each in systems])
        release.advance()
    assert release.history().alarms == ()
    assert release.share == pytest.approx(0.02, rel=0.1)


def test_keys_that_only_move_and_the_order_of_losses_do_not_mislead_the_monitor():
    """All rows of later steps are of keys that move, and losses arrive by system."""
    rng = np.random.default_rng(1)
    release = release_in_memory(
        guardrails={"complaint": (0.1, 1.0)}, old={"complaint": np.zeros(2000)}
    )
    harmed = dict(zip(USERS, rng.random(len(USERS)) < 0.25, strict=True))
    for _ in range(8):
        systems = release.assign(USERS)
        new = [key for key, each in zip(USERS, systems, strict=True) if each == "new"]
        release.observe(new, [float(harmed[key]) for key in new], system="new")
        old = [key for key, each in zip(USERS, systems, strict=True) if each == "old"]
        release.observe(old, [0.0] * len(old), system="old")
        release.advance()
    assert release.share > 0.2
    assert release.history().alarms == ()


def test_silence_is_an_alarm():
    release = release_in_memory(max_silence=100)
    release.assign(USERS[:150])
    assert release.assign("another") == "old"
    assert release.history().alarm.monitor == "silence"


def test_a_halt_through_the_store_stops_an_open_release(tmp_path):
    path = tmp_path / "release.db"
    with tether.Release(path, GUARDRAILS, old={"complaint": np.zeros(2000)}) as release:
        assert release.share > 0
        halt(path, "by hand", "ann")
        assert release.share == 0
        assert set(release.assign(USERS[:100])) == {"old"}
    with pytest.raises(StoreError, match="closed"):
        release.assign("ann")
