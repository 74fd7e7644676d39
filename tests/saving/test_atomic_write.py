"""A file is written whole or not at all."""

import os

import pytest

from tether.saving.atomic_write import write_bytes


def test_a_failure_leaves_the_older_file_and_nothing_else(tmp_path, monkeypatch):
    path = tmp_path / "a"
    write_bytes(path, b"old")

    def full(*args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        write_bytes(path, b"new", overwrite=True)
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]
