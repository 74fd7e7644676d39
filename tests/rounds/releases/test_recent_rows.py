"""The last rows, latest first, with the losses so far."""

from tether.release import ArmCounts
from tether.rounds.last_rows import RECENT_ROWS
from tether.rounds.releases.served_release import ServedRelease


def test_the_last_rows_are_followed():
    log = {"complaint": ArmCounts(10_000, 0.0)}
    with ServedRelease("sqlite://", {"complaint": 0.5}, old=log) as release:
        for number in range(30):
            release.assign(number)
        watch = release.watch()
        first = watch.look().recent
        assert [row.key for row in first] == [str(each) for each in range(29, 9, -1)]
        assert {row.seen for row in first} == {None}
        release.assign(["<b>", "ann"])
        release.observe("ann", {"complaint": 0.25}, system=release.assign("ann"))
        found = watch.look().recent
        assert len(found) == RECENT_ROWS
        assert {row.key for row in found[:2]} == {"<b>", "ann"}
        assert all(row.seen is not None for row in found[:2])
        assert found[2:] == first[:-2]
        ann = next(row for row in found if row.key == "ann")
        assert (ann.system, ann.step, ann.losses) == (release.assign("ann"), 1, {"complaint": 0.25})
