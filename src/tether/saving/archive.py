"""One file for many members: a zip archive whose manifest has the size and digest of each.

Members are stored without compression, in a fixed order and with a fixed date. So the same members
give the same bytes, and nothing is larger in memory than on the disk.
"""

from __future__ import annotations

import io
import json
import re
import zipfile
from hashlib import blake2b
from typing import Any

from tether._version import __version__

SAVED_FORMAT = 1
"""The version of the format; a reader refuses a newer one."""
MANIFEST = "manifest.json"
"""The member that lists the others."""
MEMBER_NAME = re.compile(r"[a-z]+(/\d+)?\.[a-z]+")
"""What members are called; there are no other folders, and no way out of them."""
MAX_MEMBERS = 100_000
"""How many members a file may have."""
ZIP_EPOCH = (1980, 1, 1, 0, 0, 0)
"""The date that every member has."""


def digest(content: bytes) -> str:
    """The digest of bytes: BLAKE2b with 32 bytes, in hexadecimal digits."""
    return blake2b(content, digest_size=32).hexdigest()


def canonical_json(value: Any) -> bytes:
    """JSON that is the same for the same value: sorted keys, no spaces, ASCII."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return text.encode("ascii")


def read_json(name: str, content: bytes) -> Any:
    """Parse JSON strictly: no NaN, and no key twice."""
    try:
        return json.loads(
            content.decode("utf-8"), object_pairs_hook=_distinct, parse_constant=_refuse_constant
        )
    except RecursionError:
        raise ValueError(f"{name} is nested too deeply") from None
    except ValueError as error:
        raise ValueError(f"{name} is not valid JSON: {error}") from error


def manifest_of(members: dict[str, bytes]) -> dict[str, Any]:
    """Format, members with their sizes and digests, and the digest of all this."""
    listed = {
        name: {"bytes": len(content), "blake2b": digest(content)}
        for name, content in members.items()
    }
    content = {"format": SAVED_FORMAT, "members": listed}
    return {**content, "digest": digest(canonical_json(content)), "tether": __version__}


def pack(members: dict[str, bytes]) -> bytes:
    """The bytes of a file with these members and their manifest."""
    return stored_zip({MANIFEST: canonical_json(manifest_of(members)), **members})


def stored_zip(members: dict[str, bytes]) -> bytes:
    """A zip archive without compression: the manifest or schema first, as the members are given."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for name, content in members.items():
            entry = zipfile.ZipInfo(name, ZIP_EPOCH)
            entry.create_system, entry.external_attr = 3, 0o600 << 16
            archive.writestr(entry, content)
    return buffer.getvalue()


def unpack(data: bytes, max_bytes: int) -> dict[str, bytes]:
    """The members of a file, after everything that the manifest says of them was checked."""
    if len(data) > max_bytes:
        raise ValueError(
            f"the file has {len(data):,} bytes, more than max_bytes = {max_bytes:,}: pass a larger "
            f"max_bytes if this is expected"
        )
    members = unzip(data, "the file")
    manifest = _checked_manifest(members.pop(MANIFEST, None))
    listed = manifest["members"]
    for name in sorted(set(listed) | set(members)):
        if name not in listed:
            raise ValueError(f"the file has a member {name!r} that its manifest does not list")
        if name not in members:
            raise ValueError(f"the file lacks the member {name!r} that its manifest lists")
        expected, content = listed[name], members[name]
        if expected != {"bytes": len(content), "blake2b": digest(content)}:
            raise ValueError(
                f"member {name!r} of the file is damaged: it has {len(content):,} bytes and digest "
                f"{digest(content)[:16]}…, but the manifest says {str(expected)[:120]}"
            )
    return members


def unzip(data: bytes, what: str) -> dict[str, bytes]:
    """The members of an archive without compression; sizes are checked before anything is read."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            entries = archive.infolist()
            _check_entries(entries, len(data), what)
            return {entry.filename: archive.read(entry) for entry in entries}
    except (zipfile.BadZipFile, EOFError, NotImplementedError, OSError, RuntimeError) as error:
        raise ValueError(f"{what} is not a complete zip archive: {error}") from error
    except ValueError as error:
        if str(error).startswith(what):
            raise
        raise ValueError(f"{what} is not a readable zip archive: {error}") from error


def _check_entries(entries: list[zipfile.ZipInfo], size: int, what: str) -> None:
    if len(entries) > MAX_MEMBERS:
        raise ValueError(f"{what} has {len(entries):,} members, at most {MAX_MEMBERS:,}")
    seen: set[str] = set()
    total = 0
    for entry in entries:
        name = entry.filename
        if not MEMBER_NAME.fullmatch(name):
            raise ValueError(f"{what} has a member with the name {name[:80]!r}, which is no name")
        if name in seen:
            raise ValueError(f"{what} has two members with the name {name!r}")
        seen.add(name)
        if entry.compress_type != zipfile.ZIP_STORED or entry.flag_bits & 1:
            raise ValueError(f"{what} has a compressed or encrypted member {name!r}")
        total += entry.file_size
        if entry.file_size != entry.compress_size or total > size:
            raise ValueError(
                f"{what} has {size:,} bytes, but its member {name!r} claims {entry.file_size:,}"
            )


def _checked_manifest(content: bytes | None) -> dict[str, Any]:
    if content is None:
        raise ValueError(f"the file has no {MANIFEST}: it is not a policy saved by tether")
    manifest = read_json(MANIFEST, content)
    version = manifest.get("format") if isinstance(manifest, dict) else None
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise ValueError(f"{MANIFEST} has no version of the format, got {str(version)[:80]}")
    if version > SAVED_FORMAT:
        raise ValueError(
            f"the file has format {str(version)[:80]}, and this version of tether "
            f"({__version__}) reads formats up to {SAVED_FORMAT}: use a newer tether"
        )
    if set(manifest) != {"format", "members", "digest", "tether"}:
        raise ValueError(
            f"{MANIFEST} has other entries than expected: {str(sorted(manifest))[:200]}"
        )
    stated = {"format": version, "members": manifest["members"]}
    if manifest["digest"] != digest(canonical_json(stated)):
        raise ValueError(f"{MANIFEST} was changed: its content does not have the digest it states")
    if not isinstance(manifest["members"], dict):
        raise ValueError(f"{MANIFEST} has no list of members")
    return dict(manifest)


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key occurs twice")
    return found


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not allowed")
