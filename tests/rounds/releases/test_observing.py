"""Losses of keys whose system is named, and of keys that were answered without a row."""

from __future__ import annotations

import re

import numpy as np
import pytest

import tether
from tests.rounds.releases.test_release import play_step, release_in_memory

KEYS = [f"key {k}" for k in range(40)]


def open_release(**changed):
    given = {"guardrails": {"harm": 0.45}, "old": {"harm": np.zeros(500)}, "salt": b"a"}
    return tether.Release("sqlite://", **given | changed)


def losses_of(release):
    step = release.history().steps[0]
    return step.old.losses["harm"], step.new.losses["harm"]


def test_each_key_may_have_its_system_named():
    release = open_release()
    systems = release.assign(KEYS)
    losses = [float(system == "new") for system in systems]
    assert release.observe(KEYS, losses, system=systems) == 40
    old, new = losses_of(release)
    assert (old.mean, new.mean) == (0.0, 1.0)
    other = ["old" if each == "new" else "new" for each in systems]
    with pytest.raises(ValueError, match=r"'key 0', .* were never assigned to the \w+ system"):
        release.observe(KEYS, losses, system=other)
    with pytest.raises(ValueError, match="system has 39 rows but keys has 40"):
        release.observe(KEYS, losses, system=systems[1:])
    with pytest.raises(ValueError, match="system must be one of 'old', 'new', got 'both'"):
        release.observe(KEYS, losses, system=[*systems[1:], "both"])


def test_with_a_fallback_the_system_must_be_named():
    release = open_release(fallback="old")
    release.assign(KEYS)
    with pytest.raises(ValueError, match="system must be named in a release with fallback='old'"):
        release.observe(KEYS, np.zeros(40))


def test_with_a_fallback_keys_of_the_old_system_without_a_row_are_skipped():
    """The old system answered them while the store did not, so there is nothing to observe."""
    release = open_release(fallback="old")
    systems = release.assign(KEYS[:30]) + ["old"] * 10
    assert release.observe(KEYS[30:], np.ones(10), system="old") == 0
    assert release.observe(KEYS, np.arange(40) / 40, system=systems) == 30
    assert release.observe(KEYS, np.arange(40) / 40, system=systems, keep_first=True) == 0
    old, new = losses_of(release)
    assert old.count + new.count == 30
    with pytest.raises(ValueError, match="never assigned to the new system"):
        release.observe(KEYS[30], 1.0, system="new")
    with pytest.raises(ValueError, match="rows but keys has 40"):
        release.observe(KEYS, np.zeros(30), system=systems)


def test_the_system_that_a_key_was_assigned_instead_is_named():
    release = open_release()
    release.advance()
    stored = dict(zip(KEYS, release.assign(KEYS), strict=True))
    old, new = ([key for key in KEYS if stored[key] == by] for by in ("old", "new"))
    told = f"key '{old[0]}' was never assigned to the new system (1 of 1): nothing of this call was"
    with pytest.raises(ValueError, match=re.escape(told)) as refused:
        release.observe(old[0], 1.0, system="new")
    instead = (
        f"""But key '{old[0]}' was assigned "old" in step 2: name the system that was assigned"""
    )
    assert str(refused.value).endswith(instead)
    with pytest.raises(ValueError, match='were assigned "new", the first of them in step 2: name'):
        release.observe(new, np.ones(len(new)), system="old")
    both = [old[0], new[0]]
    with pytest.raises(ValueError, match=r'assigned "new" in step 2, and key .* "old" in step 2'):
        release.observe(both, np.ones(2), system=["new", "old"])
    with pytest.raises(ValueError, match=r"\(1 of 1\): nothing of this call was stored$"):
        release.observe("nobody", 1.0, system="old")


def test_a_key_that_has_moved_has_both_rows_and_nothing_is_told():
    release = open_release(fallback="old")
    release.halt("for a moment", actor="ann")
    release.assign(KEYS)
    release.resume("it is over", actor="ann")
    stored = dict(zip(KEYS, release.assign(KEYS), strict=True))
    key = next(each for each in KEYS if stored[each] == "new")
    assert release.observe(key, 0.0, system="old") == 1
    assert release.observe(key, 1.0, system="new") == 1


def test_a_row_that_was_stored_although_its_write_was_given_up_is_not_the_old_systems():
    """The old system answered; the row of the new one waits for the key to come back."""
    release = open_release(fallback="old")
    stored = dict(zip(KEYS, release.assign(KEYS), strict=True))
    key = next(each for each in KEYS if stored[each] == "new")
    said = rf'1 key was skipped: .* although key \'{key}\' was assigned "new" in step 1\. That is'
    with pytest.warns(tether.AssumptionWarning, match=said):
        assert release.observe(key, 0.0, system="old") == 0
    assert "harm" not in release.history().steps[0].new.losses


def test_another_loss_is_refused_by_the_name_of_its_key():
    with release_in_memory() as release:
        play_step(release, ["ann", "bob"])
        with pytest.raises(ValueError, match=r"key 'bob' was already observed .* \(1 of 2\)"):
            release.observe(["ann", "bob"], [0.0, 1.0])


def test_keeping_the_first_loss_stores_all_of_a_call_or_nothing():
    release = open_release(guardrails={"a": 0.4, "b": 0.4}, old=None)
    release.assign(KEYS)
    for wrong in ({"a": 0.0, "b": 7.0}, {"a": 0.0, "c": 0.0}, {"a": 0.0, "b": [0.0, 0.0]}):
        with pytest.raises(ValueError, match="losses"):
            release.observe("key 0", wrong, keep_first=True)
    assert release.observe("key 0", {"a": 1.0, "b": 0.0}) == 2
    assert release.observe(KEYS[:2], {"a": [0.0, 0.0], "b": [0.5, 0.5]}, keep_first=True) == 2
    old = release.history().steps[0].old.losses
    assert (old["a"].mean, old["b"].mean) == (0.5, 0.25)
    with pytest.raises(ValueError, match="at most bound"):
        release.observe("key 0", {"a": 7.0}, keep_first=True)


def test_masked_losses_are_refused():
    masked = np.ma.masked_array([0.0, 0.0], mask=[False, True])
    release = open_release()
    release.assign(KEYS)
    with pytest.raises(ValueError, match=r"losses has 1 masked"):
        release.observe(KEYS[:2], masked)
    with pytest.raises(ValueError, match=r"losses\['harm'\] has 1 masked"):
        release.observe(KEYS[:2], {"harm": masked})
    with pytest.raises(ValueError, match=r"old\['harm'\] has 1 masked"):
        open_release(old={"harm": masked})


def test_a_wrong_length_is_told_of_the_keys():
    release = open_release()
    release.assign(KEYS)
    with pytest.raises(ValueError, match=r"^losses has 1 rows but keys has 2$"):
        release.observe(KEYS[:2], [0.0])
    with pytest.raises(ValueError, match=r"^losses\['harm'\] has 3 rows but keys has 2$"):
        release.observe(KEYS[:2], {"harm": [0.0] * 3})


def test_a_loss_that_is_not_known_is_not_reported_yet():
    release = open_release()
    release.assign(KEYS)
    with pytest.raises(ValueError, match="do not report one yet that is not known") as caught:
        release.observe(KEYS[:2], [0.0, np.nan])
    assert "at random" not in str(caught.value)
