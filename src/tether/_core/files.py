"""Files, written completely or not at all; paths to import; messages without passwords."""

from __future__ import annotations

import os
import pkgutil
import re
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

_HOSTS = r"(?:\[[0-9A-Fa-f:.]+\]|[\w.-]+)?(?::[0-9]{1,5})?"
URL = re.compile(
    rf"[A-Za-z][A-Za-z0-9+.-]*://([^@/?#]*@)?{_HOSTS}(,{_HOSTS})*(/[^@?#]*)?(\?[^@#]*)?", re.ASCII
)
"""A URL of which every part is beyond doubt: in parts, `@ : / ? #` must be percent-encoded."""
_LOGIN_IN_TEXT = re.compile(r"([A-Za-z][A-Za-z0-9+.-]{0,30}:/{1,3})(?!/|[\w.-]*:\*\*\*@)\S*@")


def redact_text(message: str) -> str:
    """A message in which the user and the password of every URL are hidden.

    >>> redact_text("there is no file postgresql://ann:secret@localhost/clinic")
    'there is no file postgresql://***@localhost/clinic'
    """
    return _LOGIN_IN_TEXT.sub(r"\1***@", message)


def import_path(path: Any, accept: Callable[[Any], bool] = lambda found: True) -> Any:
    """Import what a path names, which executes the module; every object on the way is accepted."""
    module, colon, names = path.partition(":") if isinstance(path, str) else ("", "", "")
    if not module or not colon or not names or "__" in names or len(path) > 1_000:
        raise ValueError(f"an import path is text like 'package.module:function', got {path!r:.80}")
    parts = names.split(".")
    for count in range(1, len(parts) + 1):
        try:
            found = pkgutil.resolve_name(f"{module}:{'.'.join(parts[:count])}")
        except (ImportError, AttributeError, ValueError) as error:
            raise ValueError(f"import path {path!r}: {error}") from error
        if isinstance(found, ModuleType) or not accept(found):
            raise ValueError(f"import path {path!r} leads to {found!r}, which is not allowed")
    return found


def import_path_of(value: Any) -> str | None:
    """The path under which a function or class is found again; None if there is no such path."""
    module = getattr(value, "__module__", None)
    path = f"{module}:{getattr(value, '__qualname__', None)}"
    if module in (None, "__main__") or "<" in path:
        return None
    try:
        found = import_path(path)
    except ValueError:
        return None
    return path if found is value or found == value else None


def write_bytes(path: str | Path, content: bytes, *, overwrite: bool = False) -> None:
    """Write a whole file, or nothing."""
    with replacing(path, overwrite=overwrite) as temporary:
        temporary.write_bytes(content)


@contextmanager
def replacing(path: str | Path, *, overwrite: bool = False) -> Iterator[Path]:
    """An empty temporary file, for its owner alone, which becomes `path` where nothing fails."""
    target = Path(path)
    require_target(target, overwrite=overwrite)
    try:
        with tempfile.TemporaryDirectory(prefix=".tether-", dir=target.parent) as folder:
            temporary = Path(folder) / target.name
            temporary.touch(0o600)
            yield temporary
            _flush(temporary)
            require_target(target, overwrite=overwrite)
            os.replace(temporary, target)
    except OSError as error:
        if error.errno is None or isinstance(error, FileExistsError):
            raise
        reason = f"{os.strerror(error.errno)}; nothing was written"
        raise OSError(error.errno, reason, str(target)) from error
    _flush(target.parent)


def require_target(path: str | Path, *inputs: str | Path | None, overwrite: bool = False) -> None:
    """Raise unless a file may be written at this path, which must not be an input.

    Commands call it before they compute anything, and `replacing` before it writes.
    """
    target = Path(path)
    if is_database(target):
        raise FileExistsError(f"{target} is a database, which is never overwritten")
    if target.is_symlink() or (target.exists() and not target.is_file()):
        raise FileExistsError(f"{target} is a folder, a link or a device: name a file")
    if not target.parent.is_dir():
        raise FileNotFoundError(f"there is no folder {target.parent} to write {target.name} into")
    if not target.exists():
        return
    if any(each is not None and os.path.exists(each) and target.samefile(each) for each in inputs):
        raise ValueError(f"{path} is read by this command: write to another file")
    if not overwrite:
        raise FileExistsError(f"{target} exists and is kept: pass overwrite=True or --force")


def is_database(path: str | Path) -> bool:
    """Whether a file is a SQLite database."""
    if not os.path.isfile(path):
        return False
    with open(path, "rb") as file:  # a file that cannot be read is not taken for another kind
        return file.read(16) == b"SQLite format 3\0"


def _flush(path: Path) -> None:
    """Wait until a file, or the names in a folder, are on the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
