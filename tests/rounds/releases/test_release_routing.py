"""A router in front of the new system of a release."""

from __future__ import annotations

import numpy as np
import pytest

from tests.rounds.releases.test_release import USERS, release_in_memory


def test_a_router_is_sticky_and_keeps_to_its_probabilities():
    with release_in_memory(salt=b"route") as release:
        assert all(release.routes(USERS, 1.0))
        assert not any(release.routes(USERS, 0.0))
        half = release.routes(USERS, 0.5)
        assert half == release.routes(USERS, np.full(len(USERS), 0.5))
        assert 0.45 < np.mean(half) < 0.55
        assert [release.routes(user, 0.5) for user in USERS[:50]] == half[:50]
        more = release.routes(USERS, 0.6)
        assert all(later for before, later in zip(half, more, strict=True) if before)
        assert release.routes(17, 0.5) == release.routes("17", 0.5)


def test_a_row_of_new_is_one_of_the_pair():
    with release_in_memory(salt=b"route") as release:
        systems = np.array(release.assign(USERS))
        user = USERS[int(np.flatnonzero(systems == "new")[0])]
        assert release.routes(user, 0.0) is False  # the old system answers
        assert release.observe(user, 1.0, system="new") == 1


def test_wrong_probabilities_are_named():
    with release_in_memory() as release, pytest.raises(ValueError, match="from 0 to 1, got 2"):
        release.routes("ann", 2.0)
