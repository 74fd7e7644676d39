"""What is said while the store is unavailable."""

from tether.rounds.releases.served_release import ServedRelease
from tether.service.outage import outage_of


def test_a_release_says_who_answers_and_what_held():
    with ServedRelease("sqlite://", {"complaint": 0.02}) as release:
        found = outage_of(release.state(), release.settings)
        never = outage_of(None, release.settings)
    assert found.told.startswith(
        "the store is unavailable: the old system answers all keys; when it last answered: "
        "collecting rows of the old system"
    )
    assert found.page["details"].startswith("When it last answered: collecting rows")
    assert never.told == "the store is unavailable: the old system answers all keys"
    assert never.page["details"] == ""
