"""Releases whose users come back, which gives them no rows."""

from __future__ import annotations

import numpy as np

import tether

USERS = [f"user {k}" for k in range(400)]


def opened(store="sqlite://", **given):
    """A release whose old system harms nobody."""
    return tether.Release(store, {"harm": 0.2}, old={"harm": np.zeros(500)}, salt=b"a", **given)


def play(release, users, loss=0.0):
    """A step in which these users come; returns their systems."""
    systems = release.assign(users)
    release.observe(users, [loss] * len(users), system=systems, keep_first=True)
    release.advance()
    return systems


def wait_in_vain(release):
    """A ramp that was resumed, in a step that waits for keys while only others come back."""
    for number in range(2):
        users = [f"{number} {user}" for user in USERS]
        release.observe(users, [0.3] * len(users), system=release.assign(users))
    release.halt("a test", actor="ann")
    release.resume("it was nothing", actor="ann")
    release.assign(USERS[:1])
    assert "new" in release.assign(users)  # they come back, and are no rows
    last = release.history().steps[-1]
    assert (last.ramp, last.new.rows) == (last.number, 0)
