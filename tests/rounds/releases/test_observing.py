"""Losses of keys whose system is named, and of keys that were answered without a row."""

from __future__ import annotations

import numpy as np
import pytest

import tether

KEYS = [f"key {k}" for k in range(40)]


def open_release(**changed):
    given = {"guardrails": {"harm": 0.45}, "old": {"harm": np.zeros(500)}, "salt": b"a"}
    return tether.Release("sqlite://", **given | changed)


def losses_of(release):
    step = release.history().steps[0]
    return step.old.losses["harm"], step.new.losses["harm"]


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


def test_a_row_that_was_stored_although_its_write_was_given_up_is_not_the_old_systems():
    """The old system answered; the row of the new one waits for the key to come back."""
    release = open_release(fallback="old")
    stored = dict(zip(KEYS, release.assign(KEYS), strict=True))
    key = next(each for each in KEYS if stored[each] == "new")
    said = rf'1 key was skipped: .* although key \'{key}\' was assigned "new" in step 1\. That is'
    with pytest.warns(tether.AssumptionWarning, match=said):
        assert release.observe(key, 0.0, system="old") == 0
    assert "harm" not in release.history().steps[0].new.losses
