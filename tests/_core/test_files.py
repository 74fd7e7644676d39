"""Files are written completely or not at all, never over a store, and for their owner alone."""

import errno
import os
import sqlite3
import stat

import pytest

from tether._core import files


def left_behind(folder):
    return [each.name for each in folder.iterdir() if each.name.startswith(".tether-")]


def write_while(path, act, what, *, overwrite=True):
    """Write a file while something else happens."""
    with files.replacing(path, overwrite=overwrite) as temporary:
        temporary.write_text("mine")
        act(what)


def fail(error):
    raise error


def make_database(path):
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE kept (number INTEGER)")
    connection.commit()
    connection.close()
    return path.read_bytes()


def test_a_new_file_has_its_content_and_is_for_its_owner(tmp_path):
    before = os.umask(0)
    try:
        files.write_bytes(tmp_path / "new.txt", "é\n".encode())
    finally:
        os.umask(before)
    assert (tmp_path / "new.txt").read_bytes() == "é\n".encode()
    assert stat.S_IMODE((tmp_path / "new.txt").stat().st_mode) == 0o600
    assert left_behind(tmp_path) == []


def test_an_existing_file_is_replaced_only_if_asked_for(tmp_path):
    path = tmp_path / "old.txt"
    path.write_text("old")
    with pytest.raises(FileExistsError, match=r"old.txt exists .*overwrite=True .*--force"):
        files.write_bytes(path, b"new")
    assert path.read_text() == "old"
    files.write_bytes(path, b"new", overwrite=True)
    assert path.read_text() == "new"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_database_is_never_replaced(tmp_path, overwrite):
    content = make_database(tmp_path / "clinic.db")
    with pytest.raises(FileExistsError, match=r"database.*never overwritten"):
        files.write_bytes(tmp_path / "clinic.db", b"<html>", overwrite=overwrite)
    assert (tmp_path / "clinic.db").read_bytes() == content


@pytest.mark.parametrize("existing", [False, True])
def test_a_failure_leaves_everything_as_it_was(tmp_path, existing, monkeypatch):
    path = tmp_path / "kept.txt"
    if existing:
        path.write_text("old")

    def unchanged():
        assert left_behind(tmp_path) == []
        assert path.exists() == existing
        assert not existing or path.read_text() == "old"

    def full(self, content):
        with self.open("wb") as file:
            file.write(content[:3])
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(type(path), "write_bytes", full)
        with pytest.raises(OSError, match=r"No space left.*nothing was written.*kept.txt") as info:
            files.write_bytes(path, b"a longer text", overwrite=True)
        assert info.value.errno == errno.ENOSPC
    unchanged()
    for error in (KeyboardInterrupt, RuntimeError):
        with pytest.raises(error):
            write_while(path, fail, error)
        unchanged()
    for name in ("fsync", "replace"):
        with monkeypatch.context() as patch:
            patch.setattr(files.os, name, lambda *_: fail(OSError(errno.EIO, "broken")))
            with pytest.raises(OSError, match="nothing was written"):
                files.write_bytes(path, b"new", overwrite=True)
        unchanged()


def test_a_file_that_appears_meanwhile_is_not_replaced(tmp_path):
    with pytest.raises(FileExistsError, match="exists"):
        write_while(tmp_path / "y.txt", (tmp_path / "y.txt").write_text, "theirs", overwrite=False)
    assert (tmp_path / "y.txt").read_text() == "theirs"
    make_database(tmp_path / "clinic.db")
    with pytest.raises(FileExistsError, match="database"):
        write_while(tmp_path / "z.db", (tmp_path / "clinic.db").rename, tmp_path / "z.db")
    assert files.is_database(tmp_path / "z.db")
    assert left_behind(tmp_path) == []


@pytest.mark.parametrize(
    "path",
    [
        *("", "math", "math:", ":floor", "math.floor", "../x:y", "a b:c", "math:floor()"),
        *("x:__class__", "a:" + "b" * 2_000, "math:floor:ceil", "x:a.__b", "1a:b", "a..b:c"),
        *(None, 3, b"math:floor", "os:path"),
    ],
)
def test_what_is_no_import_path_is_refused(path):
    with pytest.raises(ValueError, match="import path"):
        files.import_path(path)


def test_the_path_of_a_function():
    def local():
        pass

    assert files.import_path_of(files.import_path) == "tether._core.files:import_path"
    assert files.import_path_of(local) is None
    local.__qualname__ = "import_path"
    for module in ("tether._core.files", "__main__"):  # an impostor
        local.__module__ = module
        assert files.import_path_of(local) is None
