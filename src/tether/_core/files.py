"""The one way in which the package writes files: all of a file or nothing, and never over a store.

A file is written under a temporary name in its folder, flushed to the disk, and only then given its
name. A failure at any point leaves an older file as it was and nothing else behind. New files can
be read by their owner alone (mode 0600). An existing file is replaced only if this is asked for,
and a database never.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

DATABASE_HEADER = b"SQLite format 3\0"
"""The first bytes of every SQLite database."""
DATABASE_COMPANIONS = ("-wal", "-shm", "-journal", "-queue", ".spool")
"""What is appended to the name of a database for the files that belong to it."""
TEMPORARY_PREFIX = ".tether-"
"""How the names of files begin that are not yet complete."""


def as_path(name: str, value: str | Path) -> Path:
    """A path that a file system can take; an error names the argument."""
    if not isinstance(value, (str, Path)):
        raise TypeError(f"{name} must be a path, got {value!r}")
    if not str(value) or not is_encodable(str(value)):
        raise ValueError(
            f"{name} must be a path, not empty and without NUL or lone surrogates, got {value!r}"
        )
    return Path(value)


def is_encodable(text: str) -> bool:
    """Whether a file system can take a text as a name: no NUL, no lone surrogates.

    Surrogates that stand for bytes of existing names (PEP 383) are accepted.
    """
    try:
        return b"\0" not in os.fsencode(text)
    except UnicodeEncodeError:
        return False


def write_bytes(path: str | Path, content: bytes, *, overwrite: bool = False) -> None:
    """Write a whole file, or nothing."""
    with replacing(path, overwrite=overwrite) as temporary:
        temporary.write_bytes(content)


def write_text(path: str | Path, text: str, *, overwrite: bool = False) -> None:
    """Write a whole file of UTF-8 text, or nothing."""
    write_bytes(path, text.encode("utf-8"), overwrite=overwrite)


@contextmanager
def replacing(path: str | Path, *, overwrite: bool = False) -> Iterator[Path]:
    """A temporary file to write into, which becomes `path` where nothing fails.

    Writers that take a name rather than bytes are given that of the temporary file, which exists
    already, empty and with its mode.
    """
    target = as_path("path", path)
    require_target(target, overwrite=overwrite)
    temporary: Path | None = None
    try:
        handle, name = tempfile.mkstemp(prefix=TEMPORARY_PREFIX, dir=target.parent)
        temporary = Path(name)
        os.close(handle)
        yield temporary
        _flush(temporary)
        require_target(target, overwrite=overwrite)
        _give_name(temporary, target, overwrite=overwrite)
    except OSError as error:
        if error.errno is None or isinstance(error, (FileExistsError, IsADirectoryError)):
            raise
        reason = f"{os.strerror(error.errno)}; nothing was written"
        raise OSError(error.errno, reason, str(target)) from error
    finally:
        if temporary is not None:
            temporary.unlink(missing_ok=True)
    _flush(target.parent)


@contextmanager
def replacing_folder(path: str | Path) -> Iterator[Path]:
    """A temporary folder to write into, which becomes `path` where nothing fails.

    The path must be new, or an empty folder. Files in it are flushed by whoever writes them.
    """
    target = as_path("folder", path)
    _require_empty(target)
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(prefix=TEMPORARY_PREFIX, dir=target.parent))
    try:
        yield temporary
        _flush(temporary)
        _require_empty(target)
        if target.exists():
            target.rmdir()
        temporary.rename(target)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise
    _flush(target.parent)


def _require_empty(target: Path) -> None:
    if target.is_symlink():
        raise FileExistsError(f"folder must be empty or new, got {str(target)!r}, which is a link")
    if target.exists() and not target.is_dir():
        raise FileExistsError(f"folder must be empty or new, got {str(target)!r}, which is a file")
    if target.exists() and any(target.iterdir()):
        raise FileExistsError(f"folder must be empty or new, got {str(target)!r} with files in it")


def require_target(path: str | Path, *, overwrite: bool = False) -> None:
    """Raise unless a file may be written at this path.

    Commands call it before they compute anything, and `replacing` before it writes.
    """
    target = as_path("path", path)
    _refuse_databases(target)
    if target.is_symlink():
        raise FileExistsError(
            f"{target} is a symbolic link to {os.readlink(target)}: name the file itself"
        )
    if target.is_dir():
        raise IsADirectoryError(f"{target} is a folder: name a file in it")
    if not target.parent.is_dir():
        raise FileNotFoundError(f"there is no folder {target.parent} to write {target.name} into")
    if not os.access(target.parent, os.W_OK | os.X_OK):
        raise PermissionError(f"the folder {target.parent} cannot be written to")
    if not os.path.lexists(target):
        return
    if not stat.S_ISREG(target.stat().st_mode):
        raise FileExistsError(f"{target} is not an ordinary file")
    if not overwrite:
        raise FileExistsError(
            f"{target} exists and is not replaced unless this is asked for: overwrite=True in "
            f"Python, --force on the command line"
        )


def require_other_file(path: str | Path, *inputs: str | Path | None) -> None:
    """Raise if a file to be written is one of the files that are read."""
    for read in inputs:
        if read is None:
            continue
        with contextlib.suppress(OSError):
            if os.path.samefile(path, read):
                raise ValueError(f"{path} is read by this command: write to another file")


def is_database(path: str | Path) -> bool:
    """Whether a file is a SQLite database, a new one without content included."""
    if not os.path.isfile(path):
        return False
    with open(path, "rb") as file:  # a file that cannot be read is not taken for another kind
        start = file.read(len(DATABASE_HEADER))
    return start == DATABASE_HEADER or (not start and bool(_companions(path)))


def _refuse_databases(target: Path) -> None:
    """Refuse a database, whatever was asked for, and the names of files that belong to one."""
    if is_database(target):
        raise FileExistsError(f"{target} is a database, which is never overwritten: name another")
    for ending in DATABASE_COMPANIONS:
        owner = target.name.removesuffix(ending)
        if owner not in (target.name, "") and is_database(target.with_name(owner)):
            raise FileExistsError(
                f"{target} belongs to the database {owner}, which is never overwritten: name "
                f"another file"
            )


def _companions(path: str | Path) -> list[str]:
    return [f"{path}{each}" for each in DATABASE_COMPANIONS if os.path.exists(f"{path}{each}")]


def _give_name(temporary: Path, target: Path, *, overwrite: bool) -> None:
    """Rename; without `overwrite`, fail if the name was taken in the meantime."""
    if not overwrite:
        try:
            os.link(temporary, target)
        except FileExistsError:
            raise FileExistsError(f"{target} was written by someone else meanwhile") from None
        except OSError as error:  # a file system without hard links
            if error.errno not in (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS):
                raise
        else:
            return
    os.replace(temporary, target)


def _flush(path: Path) -> None:
    """Wait until a file, or the names in a folder, are on the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
