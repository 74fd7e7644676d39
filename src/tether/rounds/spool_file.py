"""A file of records with one owner: appended whole or not at all, durable when the call returns.

A record that a crash tore at the end of the file was never confirmed, and is cut off when the file
is opened again. Damage anywhere else is an error.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterator
from pathlib import Path
from weakref import WeakSet

from tether.rounds import spool_records as records
from tether.rounds.errors import SpoolInUseError, StoreError

try:
    import fcntl
except ImportError:  # pragma: no cover (Windows)
    fcntl = None  # type: ignore[assignment]

_FLAGS = os.O_RDWR | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOFOLLOW", 0)


class SpoolFile:
    """The file, locked for as long as it is open; created with mode 0600 if `create` is true."""

    def __init__(self, path: Path, *, create: bool) -> None:
        if fcntl is None:  # pragma: no cover (Windows)
            raise StoreError("a spool needs a system with file locks (fcntl)")
        self._path = path
        self._unusable: str | None = None
        try:
            self._file: int | None = os.open(path, _FLAGS | (os.O_CREAT if create else 0), 0o600)
        except OSError as error:
            raise StoreError(f"could not open the spool {path}: {error.strerror}") from error
        try:
            self._take_ownership()
            self.end = os.fstat(self._file).st_size
        except BaseException:
            self.close()
            raise
        _open_files.add(self)

    def close(self) -> None:
        """Release the file, for other processes too."""
        if self._file is not None:
            fcntl.flock(self._file, fcntl.LOCK_UN)  # also if a child process still has the file
            self.forget()

    def forget(self) -> None:
        """Close the file, and leave the lock to the process that has forked this one."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def read(self, place: int, count: int) -> bytes:
        """Some bytes of the file; fewer at its end."""
        return os.pread(self._usable(), count, place)

    def append(self, record: bytes) -> int:
        """Add a record at the end; the place where it begins."""
        file, place, end = self._usable(), self.end, self.end
        try:
            rest = memoryview(record)
            while rest:
                written = os.pwrite(file, rest, end)
                rest, end = rest[written:], end + written
            os.fsync(file)
            self.end = end
        except BaseException as error:
            try:
                os.ftruncate(file, place)
            except OSError as second:
                self._unusable = f"a record could not be removed: {second.strerror}"
            if not isinstance(error, OSError):
                raise
            message = f"could not write to the spool {self._path}: {error.strerror}"
            raise StoreError(message) from error
        return place

    def scan(self, place: int) -> Iterator[tuple[records.Head, int]]:
        """The whole records from a place on; what a crash tore after the last one is cut off."""
        size = self.end
        while place < size:
            head = records.read_head(self.read(place, records.HEAD_BYTES))
            if head is None or place + head.total_bytes > size:
                break
            if not records.is_whole(self.read(place, head.total_bytes)):
                break
            yield head, place
            place += head.total_bytes
        if place < size:
            self._refuse_other_damage(place, size)
            self.cut(place)

    def cut(self, end: int) -> None:
        """Keep only the beginning of the file."""
        os.ftruncate(self._usable(), end)
        os.fsync(self._usable())
        self.end = end

    def replace(self, record: bytes) -> None:
        """Replace the file, in one step, by one that holds a single record."""
        new = self._path.with_name(self._path.name + "-new")
        new.unlink(missing_ok=True)
        file = os.open(new, _FLAGS | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.write(file, record)
            os.fsync(file)
            new.replace(self._path)
        except BaseException:
            os.close(file)
            new.unlink(missing_ok=True)
            raise
        old, self._file, self.end = self._usable(), file, len(record)
        os.close(old)
        self.make_name_durable()

    def make_name_durable(self) -> None:
        """Write the folder's entry of the file to the disk."""
        try:
            folder = os.open(self._path.parent, os.O_RDONLY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)
        except OSError as error:
            self._unusable = f"its folder could not be written: {error.strerror}"
            raise

    def _take_ownership(self) -> None:
        file = self._usable()
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.path.samestat(os.fstat(file), os.stat(self._path)):
                return
        except (BlockingIOError, FileNotFoundError):
            pass
        raise SpoolInUseError(f"the spool {self._path} is in use by another process")

    def _refuse_other_damage(self, place: int, size: int) -> None:
        """What a crash tears is the last record: nothing of another one follows it."""
        with mmap.mmap(self._usable(), size, prot=mmap.PROT_READ) as content:
            head = records.read_head(content[place : place + records.HEAD_BYTES])
            damaged = head is not None and place + head.total_bytes < size
            start = place
            while not damaged and (start := content.find(records.RECORD_MARKER, start + 1)) >= 0:
                head = records.read_head(content[start : start + records.HEAD_BYTES])
                damaged = bool(head and records.is_whole(content[start : start + head.total_bytes]))
        if damaged:
            raise StoreError(
                f"the spool {self._path} is damaged at byte {place}, and records follow: restore "
                f"the file, or move it away and lose what it holds"
            )

    def _usable(self) -> int:
        if self._file is None:
            raise StoreError(f"the spool {self._path} is closed in this process")
        if self._unusable is not None:
            raise StoreError(f"the spool {self._path} must be opened again: {self._unusable}")
        return self._file


_open_files: WeakSet[SpoolFile] = WeakSet()


def _leave_files_to_the_parent() -> None:
    for file in list(_open_files):
        file.forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leave_files_to_the_parent)
