"""API keys: a file of names, roles and hashes; the keys themselves are shown once and not stored.

A key has 256 random bits, so one round of SHA-256 is enough: there is nothing to guess.
"""

from __future__ import annotations

import logging
import os
import secrets
import stat
import time
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Literal, get_args

import msgspec
from msgspec import Meta, Struct

from tether._core import files

Role = Literal["decide", "report", "operate", "read"]
ROLES: tuple[str, ...] = get_args(Role)
"""What a key may do: ask for decisions, report outcomes, halt and resume, read the status."""
API_KEY_PREFIX = "tether_"
"""How every key begins, so that scanners of secrets recognize it."""
KEY_FILE_SECONDS = 1.0
"""How old what is known of the file may be when a request arrives."""

log = logging.getLogger("tether.service")


class ApiKey(Struct, frozen=True, forbid_unknown_fields=True):
    """One key, without its secret: who has it, what it may do, and the SHA-256 of it."""

    name: Annotated[str, Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9 ._@-]{0,99}$")]
    roles: Annotated[frozenset[Role], Meta(min_length=1)]
    sha256: Annotated[str, Meta(pattern=r"^[0-9a-f]{64}$")]


class _File(Struct, frozen=True, forbid_unknown_fields=True):
    keys: Annotated[tuple[ApiKey, ...], Meta(min_length=1)]


class KeyFile:
    """The keys of a file, read again when a request comes and a second has passed.

    A file that cannot be read, or is not a key file, leaves the keys as they were and is logged.
    """

    def __init__(self, path: str | Path) -> None:
        self._path, self._read_at, self._problem = Path(path), time.monotonic(), ""
        try:
            self._known = {key.sha256: key for key in _read(self._path)}
        except OSError as error:
            made = f"must be a file that `tether serve-key` made, got {str(path)!r}"
            raise ValueError(f"access.keys {made}: {error.strerror}") from None

    @property
    def keys(self) -> dict[str, ApiKey]:
        """The keys that are accepted now, by their hashes."""
        now = time.monotonic()
        if now - self._read_at < KEY_FILE_SECONDS:
            return self._known
        self._read_at, before = now, self._known
        try:
            self._known, self._problem = {key.sha256: key for key in _read(self._path)}, ""
        except (OSError, ValueError) as error:
            if str(error) != self._problem:
                self._problem = str(error)
                log.error("the API keys stay as they were: %s", error)
        if before != self._known:
            names = {"keys": sorted(key.name for key in self._known.values())}
            log.info("the API keys have changed", extra={"fields": names})
        return self._known

    def find(self, secret: str) -> ApiKey | None:
        """The key of a secret; which hash is looked up says nothing about the others."""
        return self.keys.get(sha256(secret.encode("utf-8", "surrogateescape")).hexdigest())


def add_key(path: str | Path, name: str, roles: Sequence[str]) -> str:
    """Make a key and add its hash to a file of keys, which is created if there is none.

    Parameters
    ----------
    path : str or pathlib.Path
        The file.
    name : str
        Who has the key; not the name of another one in the file.
    roles : sequence of str
        What it may do: "decide", "report", "operate" or "read", at least one.

    Returns
    -------
    str
        The key: the only time that it can be seen.

    Raises
    ------
    ValueError
        If the name is taken or invalid, or a role is unknown.
    OSError
        If the file cannot be written.
    """
    target = Path(path)
    secret = API_KEY_PREFIX + secrets.token_urlsafe(32)
    given = {"name": name, "sha256": sha256(secret.encode()).hexdigest()}
    given["roles"] = roles if isinstance(roles, str) else list(roles)  # type: ignore[assignment]
    try:
        made = msgspec.convert(given, ApiKey)
    except msgspec.ValidationError as error:
        raise ValueError(
            f"name must begin with a letter or digit and have at most 100 characters, and roles be "
            f"some of {', '.join(ROLES)}, got {name!r:.120} and {roles!r:.80} ({error})"
        ) from None
    known = _read(target) if target.exists() else ()
    if any(key.name == name for key in known):
        raise ValueError(f"name must be a new one, got {name!r}, which {target} has already")
    _write(target, (*known, made))
    return secret


def remove_key(path: str | Path, name: str) -> None:
    """Remove a key from a file of keys: services that read it refuse it within two seconds.

    Parameters
    ----------
    path : str or pathlib.Path
        The file.
    name : str
        Who has the key.

    Raises
    ------
    ValueError
        If the file has no key of that name, or no other one: a service needs at least one.
    OSError
        If the file cannot be read or written.
    """
    target = Path(path)
    known = _read(target)
    kept = tuple(key for key in known if key.name != name)
    if len(kept) == len(known):
        names = ", ".join(repr(key.name) for key in known)
        raise ValueError(f"name must be one of {names}, got {name!r:.120}")
    if not kept:
        raise ValueError(f"{target} would have no keys without {name!r}: add another one first")
    _write(target, kept)


def _read(path: Path) -> tuple[ApiKey, ...]:
    try:
        keys = msgspec.json.decode(path.read_bytes(), type=_File).keys
    except msgspec.DecodeError as error:
        raise ValueError(f"{path} is not a file of API keys: {error}") from None
    for what in ("name", "sha256"):
        if len({getattr(key, what) for key in keys}) < len(keys):
            raise ValueError(f"{path} is not a file of API keys: two have the same {what}")
    return keys


def _write(target: Path, keys: tuple[ApiKey, ...]) -> None:
    """Replace a file of keys by one that the same users may read.

    If its service could not read it any more, a key that is revoked would still be accepted.
    """
    before = target.stat() if target.exists() else None
    with files.replacing(target, overwrite=True) as temporary:
        temporary.write_bytes(msgspec.json.format(msgspec.json.encode(_File(keys))) + b"\n")
        if before is not None:
            made = temporary.stat()
            if (made.st_uid, made.st_gid) != (before.st_uid, before.st_gid):
                os.chown(temporary, before.st_uid, before.st_gid)
            temporary.chmod(stat.S_IMODE(before.st_mode))
