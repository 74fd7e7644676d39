"""Who may ask: API keys with roles, in a file that is read again when it changes.

The file has names, roles and hashes; a key itself is shown once and not stored. It has 256 random
bits, so one round of SHA-256 is enough: there is nothing to guess.
"""

from __future__ import annotations

import base64
import logging
import os
import re
import secrets
import shutil
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Literal, get_args

import msgspec
from msgspec import Meta, Struct
from starlette.requests import Request

from tether._core import files
from tether.service.api import ApiError
from tether.service.settings import ServiceSettings, is_loopback

Role = Literal["decide", "report", "operate", "read"]
ROLES: tuple[str, ...] = get_args(Role)
"""What a key may do: ask for decisions, report outcomes, halt and resume, read the status."""
API_KEY_PREFIX = "tether_"
"""How every key begins, so that scanners of secrets recognize it."""
KEY_FILE_SECONDS = 1.0
"""How old what is known of the file may be when a request arrives."""
WRONG_KEYS_PER_MINUTE = 20
"""How many wrong keys a client may send in a minute before it is told to wait."""
ANYONE = "anyone on this machine"
"""Who acts where there are no API keys."""

log = logging.getLogger("tether.service")


class ApiKey(Struct, frozen=True, forbid_unknown_fields=True):
    """One key, without its secret: who has it, what it may do, and the SHA-256 of it."""

    name: Annotated[str, Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9 ._@-]{0,99}$")]
    roles: Annotated[frozenset[Role], Meta(min_length=1)]
    sha256: Annotated[str, Meta(pattern=r"^[0-9a-f]{64}$")]


class _File(Struct, frozen=True, forbid_unknown_fields=True):
    keys: Annotated[tuple[ApiKey, ...], Meta(min_length=1)]


class Access:
    """Decides whether a request may be answered.

    The file of keys is read again when a request comes and a second has passed. One that cannot be
    read, or is not a key file, leaves the keys as they were and is logged.
    """

    def __init__(self, settings: ServiceSettings) -> None:
        self._minute, self._wrong = 0, Counter[str]()
        self._read_at, keys = time.monotonic(), settings.access.keys
        self._path = None if keys is None else Path(settings.folder, keys)
        known = () if self._path is None else _read(self._path)
        self._keys = {key.sha256: key for key in known}

    def admit(self, request: Request, role: str | None) -> None:
        """Note who asks; an error if they may not."""
        scope, headers = request.scope, request.headers
        client = "" if request.client is None else request.client.host
        if self._path is None:
            if client and not is_loopback(client):
                raise ApiError(403, "only this machine may connect: there are no API keys")
            host = re.sub(r":\d*$", "", headers.get("host", "")).strip("[]").lower()
            if not is_loopback(host):  # another name that leads here
                raise ApiError(403, "the host must be this machine: there are no API keys")
            scope["tether.name"], scope["tether.roles"] = ANYONE, frozenset(ROLES)
        elif role is not None:
            found = self._find(self._path, _secret(headers))
            if found is None:
                raise self._refuse(client)
            if role not in found.roles:
                raise ApiError(403, f"the API key {found.name!r} lacks the role {role!r}")
            scope["tether.name"], scope["tether.roles"] = found.name, found.roles

    def _find(self, path: Path, secret: str) -> ApiKey | None:
        """The key of a secret; which hash is looked up says nothing about the others."""
        if time.monotonic() - self._read_at >= KEY_FILE_SECONDS:
            self._read_at, before = time.monotonic(), self._keys
            try:
                self._keys = {key.sha256: key for key in _read(path)}
            except (OSError, ValueError) as error:
                log.error("the API keys stay as they were: %s", error)
            if before != self._keys:
                log.info("the API keys are now %s", [key.name for key in self._keys.values()])
        return self._keys.get(sha256(secret.encode("utf-8", "surrogateescape")).hexdigest())

    def _refuse(self, client: str) -> ApiError:
        """Count a wrong key, which is an error; too many of them are another one."""
        if (minute := int(time.monotonic() // 60)) != self._minute:
            self._minute, self._wrong = minute, Counter()
        self._wrong[client] += 1
        if self._wrong[client] > WRONG_KEYS_PER_MINUTE:
            return ApiError(429, "too many requests without a valid API key: wait for a minute")
        return ApiError(401, "a valid API key is needed, as the header `Authorization: Bearer …`")


def _secret(headers: Mapping[str, str]) -> str:
    """The API key that a request has; empty if it has none.

    Some programs can only send the user and password of a URL: the key is then the password.
    """
    scheme, _, token = headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer":
        return token.strip()
    if scheme.lower() == "basic":
        with suppress(ValueError):
            return base64.b64decode(token.strip(), validate=True).decode().partition(":")[2]
    return ""


def add_key(target: Path, name: str, roles: Sequence[str]) -> str:
    """Make a key, which can be seen only now, and add its hash to a file; it is made if needed."""
    secret = API_KEY_PREFIX + secrets.token_urlsafe(32)
    digest = sha256(secret.encode()).hexdigest()
    try:
        made = msgspec.convert({"name": name, "sha256": digest, "roles": [*roles]}, ApiKey)
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


def remove_key(target: Path, name: str) -> None:
    """Remove a key from a file of keys: services that read it refuse it within two seconds."""
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
        return msgspec.json.decode(path.read_bytes(), type=_File).keys
    except msgspec.DecodeError as error:
        raise ValueError(f"{path} is not a file of API keys: {error}") from None


def _write(target: Path, keys: tuple[ApiKey, ...]) -> None:
    """Replace a file of keys by one that the same users may read.

    If its service could not read it any more, a key that is revoked would still be accepted.
    """
    with files.replacing(target, overwrite=True) as temporary:
        temporary.write_bytes(msgspec.json.format(msgspec.json.encode(_File(keys))) + b"\n")
        if target.exists():
            shutil.copymode(target, temporary)
            os.chown(temporary, target.stat().st_uid, target.stat().st_gid)
