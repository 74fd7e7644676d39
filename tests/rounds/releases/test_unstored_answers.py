"""Answers that were given without the store: kept, listed once, and counted nowhere."""

import pytest

from tether.rounds import read_release, verify_store
from tether.rounds.errors import StoreError
from tether.rounds.releases.served_release import ServedRelease
from tether.rounds.releases.unstored_answers import read_unstored
from tether.rounds.store import schema


def make(store, folder):
    return ServedRelease(
        store, {"complaint": 0.5}, salt=b"x", spool=folder, keys_per_step=4, max_silence=10
    )


def listed(release):
    with release._store.reading() as connection:
        return read_unstored(connection)


def test_answers_are_listed_once_and_count_nowhere(store_url, tmp_path):
    keys = [f"user {number}\n" for number in range(30)]
    with make(store_url, tmp_path) as release:
        release.assign(["a", "b", "c"])
        for key in keys:
            release.unstored.append([key.encode(), b"again"])
        assert release.unstored.waiting == 60
        assert release.list_unstored() == 60
        assert (release.unstored.waiting, release.unstored.delivered) == (0, 60)
        assert release.list_unstored() == 0
        assert listed(release) == [each for key in keys for each in (key, "again")]
        assert not release.begin_due_step()  # they are no keys of the step
        assert release.state().alarm is None  # and no silence
        assert release.observe(keys[0], {"complaint": 1.0}, system="old") == 0
        assert release.assign_stored(["d"]) == ["old"]
        assert release.begin_due_step()
    history = read_release(store_url)
    assert history.unstored == 60
    assert [step.old.rows + step.new.rows for step in history.steps] == [4, 0]
    assert verify_store(store_url).ok


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


def test_what_was_listed_before_a_crash_is_not_listed_again(tmp_path, monkeypatch):
    store = tmp_path / "release.db"
    with make(store, tmp_path) as release:
        release.unstored.append([b"a"])

        def crash(upto):
            raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr(release.unstored._spool, "mark_delivered", crash)
            with pytest.raises(KeyboardInterrupt):
                release.list_unstored()
        release.unstored.append([b"b"])
        release.list_unstored()
        assert listed(release) == ["a", "b"]
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


def test_a_folder_that_cannot_be_written_is_an_error_that_says_what_to_do(tmp_path):
    with pytest.raises(StoreError, match=r"could not open .*can be written \(spool\.folder\)"):
        make(tmp_path / "release.db", tmp_path / "missing")


def test_releases_share_a_folder_but_no_spool(tmp_path):
    with make(tmp_path / "one.db", tmp_path) as one, make(tmp_path / "two.db", tmp_path) as two:
        one.unstored.append([b"a"])
        assert two.unstored.waiting == 0
    with make(tmp_path / "two.db", tmp_path) as two:
        two.list_unstored()
        assert listed(two) == []


@pytest.mark.parametrize(
    ("change", "finding"),
    [
        ({}, None),
        ({"count": 3}, "does not have the 3 keys that it says"),
        ({"keys": "[1, 2]"}, "does not have the 2 keys"),
        ({"keys": "[", "count": 1}, "cannot be read"),
        ({"keys": '["a", ""]'}, "a key must have 1 to 500 bytes"),
        ({"record": 1}, "answers that were listed before"),
    ],
)
def test_verify_finds_lists_that_are_wrong_although_the_chain_has_them(tmp_path, change, finding):
    store = tmp_path / "release.db"
    row = {"spool": 7, "record": 2, "count": 2, "keys": '["a", "b"]', "first": "x", "last": "x"}
    with make(store, tmp_path) as release, release._store.writing(exclusive=True) as writer:
        writer.record(schema.unstored, {"number": 1, **row, "record": 1})
        writer.record(schema.unstored, {"number": 2, **row, **change})
    found = verify_store(store)
    assert found.ok == (finding is None)
    assert finding is None or finding in str(found)
