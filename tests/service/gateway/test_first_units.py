"""Who reports the losses of a row: the request that it was made for, and no other."""

from tests.service.running import settings
from tether.rounds.releases.served_release import ServedRelease
from tether.service.gateway.first_units import FirstUnits


def test_a_row_is_claimed_once():
    units = FirstUnits()
    units.made([(b"a", "old"), (b"b", "new")])
    assert not units.claim(b"a", "new")
    assert [units.claim(b"a", "old") for _ in range(3)] == [True, False, False]
    assert units.claim(b"b", "new")


def test_the_oldest_rows_are_forgotten():
    units = FirstUnits(most=2)
    units.made([(b"%d" % number, "old") for number in range(4)])
    assert [units.claim(b"%d" % number, "old") for number in range(4)] == [False, False, True, True]


def test_a_release_tells_which_rows_it_has_made(tmp_path):
    given = settings(tmp_path / "release.db", release={"guardrails": {"complaint": 0.5}})
    made = []
    keys = [b"%d" % number for number in range(100)]
    with (
        ServedRelease(given.store, **given.release) as one,
        ServedRelease(given.store) as other,
    ):
        first = one.assign_stored([*keys[:60], keys[0]], made.extend)
        assert sorted(made) == sorted(zip(keys[:60], first[:60], strict=True))
        made.clear()
        systems = other.assign_stored(keys, made.extend)
        assert sorted(made) == sorted(zip(keys[60:], systems[60:], strict=True))
        made.clear()
        assert one.assign_stored(keys, made.extend) == systems
        assert {"old", "new"} == set(systems)
        assert not made
        one.halt("a test", actor="ann")
        one.assign_stored(keys, made.extend)
        moved = [key for key, system in zip(keys, systems, strict=True) if system == "new"]
        assert sorted(made) == sorted((key, "old") for key in moved)
