"""A router in front of the new system of a release."""

from __future__ import annotations

import numpy as np
import pytest

from tests.rounds.releases.test_release import USERS, release_in_memory


def test_a_router_keeps_keys_of_the_new_system_at_the_old_one():
    with release_in_memory(salt=b"route") as release:
        release.halt("a test")
        release.resume("over")
        first = release.route(USERS, 1.0)
        assert first == release.assign(USERS)
        assert set(release.route(USERS, 0.0)) == {"old"}
        half = np.array(release.route(USERS, 0.5))
        assert set(half[np.array(first) == "old"]) <= {"old"}
        assert half.tolist() == release.route(USERS, np.full(len(USERS), 0.5))
        is_in_pair = np.array(first) == "new"
        assert 0.2 < (half[is_in_pair] == "new").mean() < 0.8
        chosen = USERS[int(np.flatnonzero(is_in_pair)[0])]
        assert (release.route(chosen, 1.0), release.route(chosen, 0.0)) == ("new", "old")
        assert release.observe(chosen, 1.0, system="new") == 1  # a row of the pair


def test_a_router_with_wrong_probabilities_stores_nothing():
    with release_in_memory() as release:
        with pytest.raises(ValueError, match="from 0 to 1, got 1"):
            release.route("ann", 1.5)
        with pytest.raises(ValueError, match="never assigned"):
            release.observe("ann", 0.0)
