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
SHOWN_QUERY_KEYS = frozenset(
    {"application_name", "connect_timeout", "dbname", "host", "mode", "port", "sslmode", "uri"}
)
"""The parameters of a URL whose values are shown; the value of any other may be a secret."""

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://", re.ASCII)
_HOSTS = r"(?:\[[0-9A-Fa-f:.]+\]|[\w.-]+)?(?::[0-9]{1,5})?"
_NETWORK_URL = re.compile(
    rf"""(?:(?P<user>[^:@/?\#]*)(?P<password>:[^@/?\#]*)?@)?
    (?P<hosts>{_HOSTS}(?:,{_HOSTS})*)
    (?P<database>/[^@?\#]*)?
    (?P<query>\?[^@\#]*)?""",
    re.VERBOSE | re.ASCII,
)
_FILE_URL = re.compile(r"(?P<path>/[^?]*|)(?P<query>\?.*)?", re.DOTALL)
_PLAIN_TEXT = re.compile(r"[\w.,/+ -]*", re.ASCII)
_PLAIN_VALUE = re.compile(r"[\w.,:/\[\]-]*", re.ASCII)
_SECRET_ASSIGNMENT = re.compile(r"((?:pass|pwd|secret|token)[a-z_]{0,20})\s{0,9}=", re.I)
_URL_IN_TEXT = re.compile(r"([A-Za-z][A-Za-z0-9+.-]{0,30}:/{1,3})(\S*)@")
_REDACTED_USER = re.compile(r"[\w.-]*:\*\*\*", re.ASCII)


def redact_url(text: str) -> str:
    """The name of a store, a URL or a path, without a password.

    >>> redact_url("postgresql://ann:secret@db.example.org:5432/clinic?sslmode=require")
    'postgresql://ann:***@db.example.org:5432/clinic?sslmode=require'
    >>> redact_url("postgresql://ann:sec@ret@db.example.org/clinic")
    'postgresql://***'
    >>> redact_url("runs/clinic.db")
    'runs/clinic.db'
    """
    scheme = _SCHEME.match(text)
    if scheme is None:
        return _redact_path(text)
    parts, rest = _parts(text)
    start = scheme[0]
    if parts is None:
        return f"{start}{HIDDEN}"
    query = _redact_query(parts["query"])
    if "path" in parts:
        return f"{start}{_redact_path(rest[: len(parts['path'] or '')])}{query}"
    user = "" if parts["user"] is None else f"{_plain(parts['user'])}"
    if parts["password"] is not None:
        user += f":{HIDDEN}"
    at = "" if parts["user"] is None else "@"
    database = "" if parts["database"] is None else f"/{_plain(parts['database'][1:])}"
    return f"{start}{user}{at}{parts['hosts']}{database}{query}"


def is_well_formed(text: str) -> bool:
    """Whether a text is a path, or a URL of which every part is beyond doubt.

    In a URL, the characters `@ : / ? #` of a user, password or database must be percent-encoded.

    >>> is_well_formed("postgresql://ann:sec%40ret@localhost/clinic")
    True
    >>> is_well_formed("postgresql://ann:sec@ret@localhost/clinic")
    False
    """
    return _SCHEME.match(text) is None or _parts(text)[0] is not None


def redact_message(message: str, url: str) -> str:
    """A message without the URL and without the password that the URL contains.

    >>> redact_message("no route for 'secret'", "postgresql://ann:secret@localhost/clinic")
    "no route for '***'"
    """
    hidden = {url: redact_url(url)}
    parts, _ = _parts(url)
    secrets = _query_secrets(parts["query"]) if parts is not None else []
    if parts is not None and parts.get("password"):
        secrets.append(str(parts["password"])[1:])
    for secret in secrets:
        for form in (secret, unquote(secret), unquote_plus(secret)):
            hidden.setdefault(form, HIDDEN)
            hidden.setdefault(repr(form)[1:-1], HIDDEN)
    hidden.setdefault(repr(url)[1:-1], hidden[url])
    for part in sorted(filter(None, hidden), key=len, reverse=True):
        message = message.replace(part, hidden[part])
    return message


def redact_text(message: str) -> str:
    """A message in which the user and the password of every URL are hidden.

    A URL in a message has no known end, so this is for messages about other things than a store,
    in which a URL may still stand: that of an argument in the wrong place.

    >>> redact_text("there is no file postgresql://ann:secret@localhost/clinic")
    'there is no file postgresql://***@localhost/clinic'
    """
    return _URL_IN_TEXT.sub(
        lambda url: url[0] if _REDACTED_USER.fullmatch(url[2]) else f"{url[1]}{HIDDEN}@", message
    )


def _parts(text: str) -> tuple[dict[str, str | None] | None, str]:
    """The parts of a URL, or None if it is not well formed; and what follows its scheme."""
    scheme = _SCHEME.match(text)
    if scheme is None:
        return None, text
    rest = text[scheme.end() :]
    is_file = scheme[1].lower().partition("+")[0] in ("sqlite", "file")
    found = (_FILE_URL if is_file else _NETWORK_URL).fullmatch(rest)
    return (None if found is None else found.groupdict()), rest


def _redact_path(path: str) -> str:
    """A path, in which a password can only be if it is a misspelled URL or a list of settings."""
    if assignment := _SECRET_ASSIGNMENT.search(path):
        path = f"{path[: assignment.end(1)]}={HIDDEN}"
    colon, at = path.find(":"), path.rfind("@")
    return f"{path[:colon]}:{HIDDEN}{path[at:]}" if 0 <= colon < at else path


def _redact_query(query: str | None) -> str:
    if query is None:
        return ""
    shown = []
    for entry in query[1:].split("&"):
        key, separator, value = entry.partition("=")
        known = separator and key in SHOWN_QUERY_KEYS and _PLAIN_VALUE.fullmatch(value)
        shown.append(entry if known else f"{key}={HIDDEN}" if _is_name(key) else HIDDEN)
    return "?" + "&".join(shown)


def _query_secrets(query: str | None) -> list[str]:
    """The values of a query that are not shown."""
    entries = [] if query is None else [entry.partition("=") for entry in query[1:].split("&")]
    return [value for key, _, value in entries if key not in SHOWN_QUERY_KEYS]


def _is_name(key: str) -> bool:
    """Whether a key of a query is the name of a parameter that holds a secret, and not one."""
    return key in SHOWN_QUERY_KEYS or key in ("password", "sslpassword", "passfile", "options")


def _plain(text: str) -> str:
    return text if _PLAIN_TEXT.fullmatch(text) else HIDDEN


IMPORT_PATH = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*(\.[^\W\d]\w*)*")
"""What an import path looks like: dotted names on both sides of a colon."""
MAX_IMPORT_PATH_LENGTH = 1_000
"""Characters of the longest import path."""


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
    if (
        not isinstance(path, str)
        or len(path) > MAX_IMPORT_PATH_LENGTH
        or not IMPORT_PATH.fullmatch(path)
    ):
        shown = repr(path) if len(repr(path)) < MAX_IMPORT_PATH_LENGTH else f"{repr(path)[:80]}…"
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
