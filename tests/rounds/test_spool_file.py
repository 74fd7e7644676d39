"""A file of records: one owner, whole records only, and nothing lost by a full disk."""

from __future__ import annotations

import errno
import os
import stat
import subprocess
import sys

import pytest

from tests.rounds.frozen_processes import PATIENCE_SECONDS
from tether.rounds import StoreError
from tether.rounds import spool_records as records
from tether.rounds.spool_file import SpoolFile


def record(number, content=b"content"):
    return records.write_record(
        records.Head(records.ROWS, number, number, 1, len(content)), content
    )


def numbers(file):
    return [head.number for head, _ in file.scan(0)]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "rows.spool"


@pytest.fixture
def three(path):
    """A file with three records, closed."""
    file = SpoolFile(path, create=True)
    for number in (1, 2, 3):
        file.append(record(number))
    file.close()
    return path


def reopened(path):
    file = SpoolFile(path, create=False)
    try:
        return numbers(file)
    finally:
        file.close()


def test_a_new_file_is_readable_by_its_owner_only(path):
    SpoolFile(path, create=True).close()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_missing_file_or_folder_is_a_readable_error(path):
    with pytest.raises(StoreError, match=r"could not open the spool .*rows\.spool: No such file"):
        SpoolFile(path, create=False)
    with pytest.raises(StoreError, match="No such file"):
        SpoolFile(path / "x", create=True)


def test_a_link_is_not_followed(path, tmp_path):
    path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StoreError, match="could not open"):
        SpoolFile(path, create=True)
    assert not (tmp_path / "elsewhere").exists()


def test_it_has_one_owner_at_a_time(path):
    first = SpoolFile(path, create=True)
    with pytest.raises(StoreError, match="in use by another process"):
        SpoolFile(path, create=True)
    first.close()
    first.close()
    SpoolFile(path, create=False).close()
    with pytest.raises(StoreError, match="is closed in this process"):
        first.append(record(1))


def test_a_torn_record_at_the_end_is_cut_off_wherever_it_is_torn(three):
    content, size = three.read_bytes(), len(record(3))
    for missing in range(1, size + 1):
        three.write_bytes(content[: len(content) - missing])
        assert reopened(three) == [1, 2]
        assert three.read_bytes() == content[: 2 * size]


@pytest.mark.parametrize("tail", [b"\0" * 500, b"x", b"\x89tether\n" * 9])
def test_garbage_at_the_end_is_cut_off(three, tail):
    content = three.read_bytes()
    three.write_bytes(content + tail)
    assert reopened(three) == [1, 2, 3]
    assert three.read_bytes() == content


def test_damage_before_other_records_is_an_error_and_nothing_is_cut(three):
    content, size = three.read_bytes(), len(record(1))
    for place in range(0, 2 * size):
        changed = bytearray(content)
        changed[place] ^= 4
        three.write_bytes(bytes(changed))
        with pytest.raises(StoreError, match=f"damaged at byte {place // size * size}, and rec"):
            reopened(three)
        assert three.read_bytes() == bytes(changed)


def test_damage_of_the_last_two_records_is_an_error(three):
    changed = bytearray(three.read_bytes())
    changed[-1] ^= 1
    changed[len(changed) * 2 // 3 - 1] ^= 1
    three.write_bytes(bytes(changed))
    with pytest.raises(StoreError, match="damaged"):
        reopened(three)


@pytest.mark.parametrize("function", ["pwrite", "fsync"])
def test_a_full_disk_is_a_readable_error_and_the_file_is_as_before(three, monkeypatch, function):
    file, before = SpoolFile(three, create=False), three.read_bytes()
    real_write = os.pwrite

    def partly(*given):
        if function == "pwrite" and len(given[1]) > 20:
            return real_write(given[0], given[1][:20], given[2])
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, function, partly)
        with pytest.raises(StoreError, match=r"could not write to the spool .*: No space left"):
            file.append(record(4, b"x" * 100))
    assert three.read_bytes() == before
    file.append(record(4))
    file.close()
    assert reopened(three) == [1, 2, 3, 4]


def test_a_record_that_can_neither_be_written_nor_removed_makes_the_file_unusable(
    three, monkeypatch
):
    file = SpoolFile(three, create=False)

    def fail(*_):
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fail)
        patch.setattr(os, "ftruncate", fail)
        with pytest.raises(StoreError, match="Input/output error"):
            file.append(record(4))
    with pytest.raises(StoreError, match="must be opened again: a record could not be removed"):
        file.append(record(4))
    file.close()
    assert reopened(three) == [1, 2, 3, 4]  # it was written, although nobody was told so


def test_an_interrupted_write_leaves_nothing(three, monkeypatch):
    file, before = SpoolFile(three, create=False), three.read_bytes()

    def interrupt(_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", interrupt)
        with pytest.raises(KeyboardInterrupt):
            file.append(record(4))
    assert three.read_bytes() == before
    file.close()


def test_a_file_is_replaced_in_one_step_and_stays_owned(three):
    file = SpoolFile(three, create=False)
    (three.parent / "rows.spool-new").write_bytes(b"left by a crash")
    file.replace(record(9))
    with pytest.raises(StoreError, match="in use"):
        SpoolFile(three, create=False)
    file.append(record(10))
    file.close()
    assert reopened(three) == [9, 10]
    assert stat.S_IMODE(three.stat().st_mode) == 0o600
    assert list(three.parent.iterdir()) == [three]


def test_a_replacement_that_fails_leaves_the_file_as_it_was(three, monkeypatch):
    file = SpoolFile(three, create=False)

    def fail(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", fail)
        with pytest.raises(OSError, match="No space"):
            file.replace(record(9))
    assert list(three.parent.iterdir()) == [three]
    file.append(record(4))
    file.close()
    assert reopened(three) == [1, 2, 3, 4]


def test_a_folder_that_cannot_be_written_makes_the_file_unusable(three, monkeypatch):
    file = SpoolFile(three, create=False)
    real = os.fsync

    def fail(descriptor):
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise OSError(errno.EIO, "Input/output error")
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="Input/output"):
        file.replace(record(9))
    with pytest.raises(StoreError, match="its folder could not be written"):
        file.append(record(10))
    file.close()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes do not fork here")
def test_a_child_process_does_not_keep_the_file(path):
    script = (
        "import os, sys, time\n"
        "from pathlib import Path\n"
        "from tether.rounds import StoreError\n"
        "from tether.rounds.spool_file import SpoolFile\n"
        "path = Path(sys.argv[1])\n"
        "file = SpoolFile(path, create=True)\n"
        "ready, said = os.pipe()\n"
        "pid = os.fork()\n"
        "if pid == 0:\n"
        "    try:\n"
        "        file.append(b'x')\n"
        "    except StoreError:\n"
        "        os.write(said, b'closed')\n"
        "    os.close(said)\n"
        "    time.sleep(60)\n"
        "    os._exit(0)\n"
        "os.close(said)\n"
        "try:\n"
        "    assert os.read(ready, 9) == b'closed'\n"
        "    file.append(b'x')\n"
        "    os.close(file._file)  # as kill -9 would\n"
        "    SpoolFile(path, create=False).close()\n"
        "finally:\n"
        "    os.kill(pid, 9)\n"
        "    os.waitpid(pid, 0)\n"
    )
    command = [sys.executable, "-c", script, str(path)]
    done = subprocess.run(command, timeout=PATIENCE_SECONDS, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
