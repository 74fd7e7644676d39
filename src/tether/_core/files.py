"""Files, written completely or not at all; paths to import; addresses without their secrets."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any
from urllib.parse import unquote, unquote_plus

HIDDEN = "***"
"""What stands in the place of a password."""

_HOSTS = r"(?:\[[0-9A-Fa-f:.]+\]|[\w.-]+)?(?::[0-9]{1,5})?"
_URL = re.compile(
    rf"""(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*://)
    (?:(?P<user>[^:@/?\#]*)(?P<password>:[^@/?\#]*)?@)?
    (?P<place>/[^?\#]*|{_HOSTS}(?:,{_HOSTS})*(?:/[^@?\#]*)?)
    (?P<query>\?[^@\#]*)?""",
    re.VERBOSE | re.ASCII,
)
_PLAIN = re.compile(r"[\w.,:/+\[\] -]*", re.ASCII)
_PLAIN_QUERY = re.compile(
    r"\?(?:(?:application_name|connect_timeout|dbname|host|mode|port|sslmode|uri)=[\w.,:/-]*&?)*"
)
_LOGIN_IN_TEXT = re.compile(r"([A-Za-z][A-Za-z0-9+.-]{0,30}:/{1,3})(?![\w.-]*:\*\*\*@)\S*@")
_SECRET_IN_PATH = re.compile(r":.*@|(?:pass|pwd|secret|token)\w*\s*=", re.I | re.S)


def redact_url(text: str) -> str:
    """The name of a store, a URL or a path; of a URL only what is certainly not secret.

    >>> redact_url("postgresql://ann:secret@db.example.org:5432/clinic?sslmode=require")
    'postgresql://ann:***@db.example.org:5432/clinic?sslmode=require'
    >>> redact_url("postgresql://ann:sec@ret@db.example.org/clinic"), redact_url("clinic.db")
    ('postgresql://***', 'clinic.db')
    """
    parts = _URL.fullmatch(text)
    if parts is None:
        scheme, separator, _ = text.partition("://")
        if separator and scheme.isalnum():
            return f"{scheme}://{HIDDEN}"
        return HIDDEN if separator or _SECRET_IN_PATH.search(text) else text
    user, query = parts["user"], parts["query"] or ""
    login = "" if user is None else _shown(user) + (f":{HIDDEN}" if parts["password"] else "") + "@"
    query = query if _PLAIN_QUERY.fullmatch(query) or not query else f"?{HIDDEN}"
    return f"{parts['scheme']}{login}{_shown(parts['place'])}{query}"


def _shown(text: str) -> str:
    return text if _PLAIN.fullmatch(text) else HIDDEN


def is_well_formed(text: str) -> bool:
    """Whether a text is a path, or a URL of which every part is beyond doubt.

    In a URL, the characters `@ : / ? #` of a user, password or database must be percent-encoded.

    >>> is_well_formed("postgresql://ann:sec%40ret@localhost/clinic")
    True
    >>> is_well_formed("postgresql://ann:sec@ret@localhost/clinic")
    False
    """
    return "://" not in text or _URL.fullmatch(text) is not None


def redact_message(message: str, url: str) -> str:
    """A message without the URL and without the secrets that the URL contains.

    >>> redact_message("no route for 'secret'", "postgresql://ann:secret@localhost/clinic")
    "no route for '***'"
    """
    hidden = {url: redact_url(url), repr(url)[1:-1]: redact_url(url)}
    if (parts := _URL.fullmatch(url)) is not None:
        values = [each.partition("=")[2] for each in (parts["query"] or "").split("&")]
        known = _PLAIN_QUERY.fullmatch(parts["query"] or "?")
        for secret in ((parts["password"] or "")[1:], *([] if known else values)):
            for form in filter(None, (secret, unquote(secret), unquote_plus(secret))):
                hidden |= {form: HIDDEN, repr(form)[1:-1]: HIDDEN}
    for part in sorted(hidden, key=len, reverse=True):
        message = message.replace(part, hidden[part])
    return message


def redact_text(message: str) -> str:
    """A message in which the user and the password of every URL are hidden.

    >>> redact_text("there is no file postgresql://ann:secret@localhost/clinic")
    'there is no file postgresql://***@localhost/clinic'
    """
    return _LOGIN_IN_TEXT.sub(rf"\1{HIDDEN}@", message)


IMPORT_PATH = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*(\.[^\W\d]\w*)*")
"""What an import path looks like: dotted names on both sides of a colon."""


def import_path(path: Any, accept: Callable[[str, Any], bool] | None = None) -> Any:
    """Import what a path names; this executes the module.

    With `accept`, every object on the way must be accepted by it, given the path and the object.
    """
    module_name, names = split_import_path(path)
    try:
        found: Any = import_module(module_name)
    except ImportError as error:
        raise ValueError(f"import path {path!r}: cannot import {module_name}: {error}") from error
    for name in names:
        if not hasattr(found, name):
            raise ValueError(f"import path {path!r}: there is no {name!r} in {module_name}")
        found = getattr(found, name)
        if isinstance(found, ModuleType):
            raise ValueError(f"import path {path!r} leads through the module {found.__name__!r}")
        if accept is not None and not accept(path, found):
            origin = getattr(found, "__module__", None)
            raise ValueError(
                f"import path {path!r} leads to {found!r}, which is defined in {origin!r} and not "
                f"allowed"
            )
    return found


def split_import_path(path: Any) -> tuple[str, list[str]]:
    """The name of the module, and the names that lead from it to the object."""
    if not isinstance(path, str) or len(path) > 1_000 or not IMPORT_PATH.fullmatch(path):
        shown = f"{path!r:.80}"
        raise ValueError(f"an import path is text like 'package.module:function', got {shown}")
    module_name, _, names = path.partition(":")
    if "__" in names:
        raise ValueError(f"import path {path!r} has a name with two underscores")
    return module_name, names.split(".")


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


TEMPORARY_PREFIX = ".tether-"
"""How the names of files begin that are not yet complete."""


def as_path(name: str, value: str | Path) -> Path:
    """A path that a file system can take; an error names the argument."""
    if not isinstance(value, (str, Path)):
        raise TypeError(f"{name} must be a path, got {value!r}")
    try:
        usable = str(value) != "" and b"\0" not in os.fsencode(value)
    except UnicodeEncodeError:
        usable = False
    if not usable:
        raise ValueError(f"{name} must be a path without NUL or lone surrogates, got {value!r}")
    return Path(value)


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
    kind = "a link" if target.is_symlink() else "a file" if target.is_file() else ""
    if kind or (target.exists() and any(target.iterdir())):
        raise FileExistsError(
            f"folder must be empty or new, got {str(target)!r}, which is {kind or 'not empty'}"
        )


def require_target(path: str | Path, *, overwrite: bool = False) -> None:
    """Raise unless a file may be written at this path.

    Commands call it before they compute anything, and `replacing` before it writes.
    """
    target = as_path("path", path)
    if is_database(target):
        raise FileExistsError(f"{target} is a database, which is never overwritten: name another")
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
    """Whether a file is a SQLite database."""
    if not os.path.isfile(path):
        return False
    with open(path, "rb") as file:  # a file that cannot be read is not taken for another kind
        return file.read(16) == b"SQLite format 3\0"


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
