"""What a store holds, and which alarm stands in it."""

import tether
from tether.rounds import halt
from tether.rounds.standing_alarm import read_standing


def test_the_first_alarm_that_stands_is_read_from_either_kind_of_store(tmp_path):
    run, release = str(tmp_path / "run.db"), str(tmp_path / "release.db")
    tether.Controller(tether.Gaussian(0.0), alpha=0.1, store=run).close()
    tether.Release(release, {"harm": 0.1}).close()
    assert read_standing(run) == (False, None)
    assert read_standing(release) == (True, None)
    for reason in ("first", "second"):
        halt(release, reason, "ann")
    found = read_standing(release)
    assert found.is_release
    assert (found.alarm.number, found.alarm.message) == (1, "halted by ann: first")
