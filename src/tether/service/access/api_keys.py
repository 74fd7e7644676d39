"""API keys: a file of names, roles and hashes; the keys themselves are shown once and not stored.

A key has 256 random bits, so one round of SHA-256 is enough: there is nothing to guess.
"""

from __future__ import annotations

import hmac
import json
import os
import re
import secrets
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from tether._core import files

ROLES = ("decide", "report", "operate", "read")
"""What a key may do: ask for decisions, report outcomes, halt and resume, read the status."""
API_KEY_PREFIX = "tether_"
"""How every key begins, so that scanners of secrets recognize it."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9 ._@-]{0,99}")
_DIGEST = re.compile(r"[0-9a-f]{64}")
_SECRET_BYTES = 32


@dataclass(frozen=True)
class ApiKey:
    """One key, without its secret.

    Parameters
    ----------
    name : str
        Who has it: the name of acts in the audit trail.
    roles : frozenset of str
        What it may do.
    digest : str
        The SHA-256 of the key, in hexadecimal.
    """

    name: str
    roles: frozenset[str]
    digest: str


class ApiKeys:
    """The keys that a service accepts.

    Parameters
    ----------
    keys : sequence of ApiKey
        The keys; names and digests are unique.
    """

    def __init__(self, keys: Sequence[ApiKey]) -> None:
        if len({key.name for key in keys}) < len(keys):
            raise ValueError("two API keys have the same name")
        if len({key.digest for key in keys}) < len(keys):
            raise ValueError("two API keys have the same sha256")
        self.keys = tuple(keys)

    def __repr__(self) -> str:
        return f"ApiKeys({len(self.keys)} keys)"

    def find(self, secret: str) -> ApiKey | None:
        """Find the key of a secret, in a time that does not depend on either.

        Parameters
        ----------
        secret : str
            What a client sent.

        Returns
        -------
        ApiKey or None
            The key; None if there is none.
        """
        digest = sha256(secret.encode("utf-8", "surrogateescape")).hexdigest()
        found = None
        for key in self.keys:
            if hmac.compare_digest(key.digest, digest):
                found = key
        return found

    @classmethod
    def read(cls, path: str | Path) -> ApiKeys:
        """Read a file of keys.

        Parameters
        ----------
        path : str or pathlib.Path
            A file that `add_key` wrote.

        Returns
        -------
        ApiKeys
            Its keys, at least one.

        Raises
        ------
        ValueError
            If the file is no file of keys.
        OSError
            If it cannot be read.
        """
        return cls.from_json(Path(path).read_bytes(), str(path))

    @classmethod
    def from_json(cls, content: bytes, name: str = "the file") -> ApiKeys:
        """Convert from the content of a file.

        Parameters
        ----------
        content : bytes
            JSON, as `to_json` makes it.
        name : str
            What errors call the file.

        Returns
        -------
        ApiKeys
            Its keys, at least one.

        Raises
        ------
        ValueError
            If it is no file of keys.
        """
        try:
            made = cls([_key(each) for each in json.loads(content.decode())["keys"]])
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise ValueError(f"{name} is not a file of API keys: {error}") from None
        if not made.keys:
            raise ValueError(f"{name} has no API keys")
        return made

    def to_json(self) -> str:
        """Convert to the content of a file.

        Returns
        -------
        str
            JSON.
        """
        keys = [
            {"name": key.name, "roles": sorted(key.roles), "sha256": key.digest}
            for key in self.keys
        ]
        return json.dumps({"keys": keys}, indent=2) + "\n"


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
        If the name is taken or invalid, or a role is none.
    OSError
        If the file cannot be written.
    """
    target = files.as_path("path", path)
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise ValueError(
            f"name must begin with a letter or digit and have at most 100 letters, digits, spaces "
            f"or . _ @ -, got {name!r:.120}"
        )
    if isinstance(roles, str) or not roles:
        raise ValueError(f"roles must be some of {', '.join(ROLES)}, got {roles!r}")
    for role in roles:
        if role not in ROLES:
            raise ValueError(f"roles must be some of {', '.join(ROLES)}, got {role!r:.80}")
    known = ApiKeys.read(target).keys if target.exists() else ()
    if any(key.name == name for key in known):
        raise ValueError(f"name must be a new one, got {name!r}, which {target} has already")
    secret = API_KEY_PREFIX + secrets.token_urlsafe(_SECRET_BYTES)
    made = ApiKey(name, frozenset(roles), sha256(secret.encode()).hexdigest())
    _write(target, ApiKeys([*known, made]))
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
    target = files.as_path("path", path)
    known = ApiKeys.read(target).keys
    kept = [key for key in known if key.name != name]
    if len(kept) == len(known):
        names = ", ".join(repr(key.name) for key in known)
        raise ValueError(f"name must be one of {names}, got {name!r:.120}")
    if not kept:
        raise ValueError(f"{target} would have no keys without {name!r}: add another one first")
    _write(target, ApiKeys(kept))


def _write(target: Path, keys: ApiKeys) -> None:
    """Replace a file of keys by one that the same users may read.

    If its service could not read it any more, a key that is revoked would still be accepted.
    """
    before = target.stat() if target.exists() else None
    with files.replacing(target, overwrite=True) as temporary:
        temporary.write_text(keys.to_json(), encoding="utf-8")
        if before is not None:
            made = temporary.stat()
            if (made.st_uid, made.st_gid) != (before.st_uid, before.st_gid):
                os.chown(temporary, before.st_uid, before.st_gid)
            temporary.chmod(stat.S_IMODE(before.st_mode))


def _key(entry: dict[str, object]) -> ApiKey:
    name, roles, digest = entry["name"], entry["roles"], entry["sha256"]
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise ValueError(f"name {name!r:.80} is invalid")
    if not isinstance(roles, list) or not roles or not set(roles) <= set(ROLES):
        raise ValueError(f"roles of {name!r} must be some of {', '.join(ROLES)}, got {roles!r:.80}")
    if not isinstance(digest, str) or not _DIGEST.fullmatch(digest):
        raise ValueError(f"sha256 of {name!r} must have 64 hexadecimal digits")
    return ApiKey(name, frozenset(roles), digest)
