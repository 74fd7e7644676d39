"""Answers that were given without the store: kept, listed once, and counted nowhere."""

from tether.rounds import verify_store
from tether.rounds.errors import StoreError
from tether.rounds.releases.served_release import ServedRelease
from tether.rounds.releases.unstored_answers import read_unstored


def make(store, folder):
    return ServedRelease(
        store, {"complaint": 0.5}, salt=b"x", spool=folder, keys_per_step=4, max_silence=10
    )


def listed(release):
    with release._store.reading() as connection:
        return read_unstored(connection)


def test_a_process_that_was_killed_leaves_its_answers_to_the_next(tmp_path):
    store = tmp_path / "release.db"
    with make(store, tmp_path) as first, make(store, tmp_path) as second:
        first.unstored.append([b"a"])
        second.unstored.append([b"b"])
        assert len(list(tmp_path.glob("*.spool"))) == 2
    with make(store, tmp_path) as release:  # has the first spool, and empties the second
        assert listed(release) == ["b"]
        assert (release.unstored.waiting, release.unstored.delivered) == (1, 1)
        release.list_unstored()
        assert listed(release) == ["b", "a"]
    with make(store, tmp_path) as release:
        assert release.unstored.waiting == 0
    assert verify_store(store).ok


def test_a_full_disk_does_not_make_the_store_unavailable(tmp_path, monkeypatch):
    store = tmp_path / "release.db"
    with make(store, tmp_path) as release:
        for key in (b"a", b"b"):
            release.unstored.append([key])

        def fail(record):
            raise StoreError("could not write to the spool: No space left on device")

        with monkeypatch.context() as patch:
            patch.setattr(release.unstored._spool._file, "append", fail)
            assert release.follow().step.number == 1
            assert release.follow().step.number == 1
            assert release.unstored.waiting == 0
            release.halt("a test", actor="ann")
            assert release.follow().alarm.monitor == "halt"
        assert listed(release) == ["a", "b"]
    with make(store, tmp_path) as release:  # its spool does not know, but the store does
        release.unstored.append([b"c"])
        release.list_unstored()
        assert listed(release) == ["a", "b", "c"]
    assert verify_store(store).ok
