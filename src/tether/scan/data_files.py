"""Data files by a path, a folder, a glob or a list of these, on this machine or in object storage.

An address such as `s3://bucket/log/` is read by the file systems of Arrow: Amazon S3 and what has
its protocol, Google Cloud Storage, Azure and HDFS. Credentials come from the environment of the
process, or from the address, of which only the names of files are shown.
"""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

import pyarrow as pa
from pyarrow import fs, parquet

PARQUET_SUFFIXES = (".parquet", ".parq", ".pq")
"""The names of files that are read from a folder end with one of these."""
ADDRESS = re.compile(
    r"(?P<scheme>[a-zA-Z][a-zA-Z0-9+.-]+)://"
    r"(?P<credentials>[^/?@]*@|[^/?@:]*:(?!\d{1,5}/)[^?@]*@)?(?P<path>[^?]*)(?P<options>\?.*)?"
)
"""A file system, a path in it, and options such as ?region=eu-west-1.

Keys of Amazon and Azure may contain slashes; after the port of a server, one begins the path.
"""
MAGIC = re.compile(r"[*?[]")
"""What a glob contains, and a path does not."""
ENCODED = re.compile(r"(?:%[0-9a-fA-F]{2})+")
"""Characters of an address that are written as numbers."""
LONE_PERCENT = re.compile(r"%(?![0-9a-fA-F]{2})")
"""A % that stands for itself."""


@dataclass(frozen=True)
class DataFile:
    """A file, and the file system that has it; its name is what errors and warnings show."""

    path: str
    name: str
    size: int
    filesystem: fs.FileSystem = field(default_factory=fs.LocalFileSystem)

    @property
    def is_local(self) -> bool:
        """Whether the file is on this machine."""
        return isinstance(self.filesystem, fs.LocalFileSystem)

    def __str__(self) -> str:
        return self.name

    def state(self) -> tuple[Any, ...] | None:
        """What changes when the file is written again; None where there is no file any more.

        The size and the time of the last change. Object storage counts whole seconds, but most
        of it has a tag of the content.
        """
        try:
            if not self.is_local and (tag := self._tag()):
                return tag
            found = self.filesystem.get_file_info(self.path)
        except FileNotFoundError:
            return None
        except (pa.ArrowException, OSError) as error:
            raise ValueError(f"{self}: cannot be read: {one_line(error)}") from error
        return (found.size, found.mtime_ns) if found.is_file else None

    def _tag(self) -> tuple[bytes, ...]:
        with self.stream() as stream:
            said = stream.metadata() or {}
        return tuple(value for name, value in said.items() if name.lower() == "etag")

    def open(self, metadata: parquet.FileMetaData | None = None) -> parquet.ParquetFile:
        """The file as Parquet; a ValueError names it where it is none.

        Pages are compared with their checksums, in files that have them. With its metadata, the
        end of the file is not read again. In object storage, the columns of a group of rows are
        fetched with few requests at the same time.
        """
        try:
            return parquet.ParquetFile(
                self.path,
                metadata=metadata,
                pre_buffer=not self.is_local,
                page_checksum_verification=True,
                filesystem=None if self.is_local else self.filesystem,
            )
        except (pa.ArrowException, OSError) as error:
            raise ValueError(
                f"{self}: cannot be read as a Parquet file, it may be truncated or corrupt: "
                f"{one_line(error)}"
            ) from error

    def stream(self) -> pa.NativeFile:
        """The bytes of the file."""
        return self.filesystem.open_input_file(self.path)


def find_files(source: Any) -> list[DataFile]:
    """The Parquet files that a path, a folder, a glob or a list of these names, sorted."""
    found: list[DataFile] = []
    for each in source if isinstance(source, (list, tuple)) else [source]:
        if isinstance(each, DataFile):
            found.append(each)
            continue
        text = os.fspath(each)
        address = ADDRESS.fullmatch(text)
        files = _local_files(text) if address is None else _stored_files(address)
        if not files:
            raise FileNotFoundError(f"source: there are no Parquet files at {_shown(text)!r}")
        found += files
    seen: set[str] = set()
    for file in found:  # whatever way it is spelled or linked to
        real = os.path.realpath(file.path) if file.is_local else file.name
        if real in seen:
            raise ValueError(
                f"source: {file.name!r} is named twice, and its rows would count twice"
            )
        seen.add(real)
    return found


def _local_files(text: str) -> list[DataFile]:
    if Path(text).is_dir():
        inside = [file for file in Path(text).rglob("*") if file.is_file()]
        names = [str(file) for file in inside if _is_data(file.relative_to(text).parts)]
    elif Path(text).is_file():
        names = [text]
    else:
        names = [file for file in glob.glob(text, recursive=True) if Path(file).is_file()]
    return [DataFile(name, name, os.path.getsize(name)) for name in sorted(names)]


def _stored_files(address: re.Match[str]) -> list[DataFile]:
    """The files of an address: of a folder if it ends in none, or of those that fit a glob."""
    scheme, path = address["scheme"].lower(), address["path"].rstrip("/")
    credentials = address["credentials"] or ""
    secret = f"{_quoted(credentials[:-1], safe='')}@" if credentials else ""
    magic = MAGIC.search(path)
    above = path if magic is None else path[: magic.start()].rpartition("/")[0]
    try:
        filesystem, root = fs.FileSystem.from_uri(
            f"{scheme}://{secret}{_quoted(above)}{address['options'] or ''}"
        )
        if above and magic is not None:  # which may be a name, as on a disk
            named = root + unquote(path[len(above) :])
            if filesystem.get_file_info(named).type is not fs.FileType.NotFound:
                root, magic = named, None
        found = filesystem.get_file_info(root)
        single = found.is_file and magic is None
        inside = [found] if single else []
        if found.type is fs.FileType.Directory:
            selected = filesystem.get_file_info(fs.FileSelector(root, recursive=True))
            inside = [each for each in selected if each.is_file]
    except (pa.ArrowException, OSError) as error:
        reason = one_line(error)
        if credentials:
            reason = reason.replace(secret, "").replace(credentials, "")
        raise ValueError(f"source: {_shown(address[0])!r} cannot be read: {reason}") from (
            None if credentials else error
        )
    if magic is not None:
        below = address["path"][len(above) :].lstrip("/")
        pattern = ENCODED.sub(lambda found: glob.escape(unquote(found[0])), below).split("/")
        inside = [each for each in inside if _fits(_below(each.path, root), pattern)]
    elif not single:
        inside = [each for each in inside if _is_data(_below(each.path, root))]
    before = "" if isinstance(filesystem, fs.LocalFileSystem) else f"{scheme}://"
    return [
        DataFile(each.path, before + each.path, each.size, filesystem)
        for each in sorted(inside, key=lambda each: each.path)
    ]


def _quoted(text: str, safe: str = "/") -> str:
    """A part of an address with its special characters as numbers, which some may be already."""
    return quote(LONE_PERCENT.sub("%25", text), safe=f"{safe}%:")


def _below(path: str, root: str) -> tuple[str, ...]:
    """The folders and the name of a file below a root."""
    return tuple(path.removeprefix(root).strip("/").split("/"))


def _fits(parts: Sequence[str], pattern: Sequence[str]) -> bool:
    """Whether a path fits a glob; ** stands for any number of folders.

    What is hidden is found, as on a disk, only by a pattern that begins with a dot too.
    """
    if not pattern or not parts:
        return not pattern and not parts
    hidden = parts[0].startswith(".")
    if pattern[0] == "**":
        if len(pattern) == 1:
            return not any(part.startswith(".") for part in parts)
        return _fits(parts, pattern[1:]) or (not hidden and _fits(parts[1:], pattern))
    if hidden and not pattern[0].startswith("."):
        return False
    return fnmatchcase(parts[0], pattern[0]) and _fits(parts[1:], pattern[1:])


def _is_data(parts: Sequence[str]) -> bool:
    """Whether a file in a folder is one of its data files: not hidden, with a known ending."""
    hidden = any(part.startswith((".", "_")) for part in parts)
    return not hidden and parts[-1].endswith(PARQUET_SUFFIXES)


def _shown(text: str) -> str:
    """A path or address without its options and credentials."""
    address = ADDRESS.fullmatch(text)
    if address is None:
        return text
    return f"{address['scheme']}://{address['path']}"


def one_line(error: Exception) -> str:
    """What an error of Arrow says, in one line."""
    return " ".join(str(error).split())
