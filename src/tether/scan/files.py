"""Parquet files by a path, a folder, a glob or a list of these, here or in object storage.

An address such as `s3://bucket/log/` is read by the file systems of Arrow: Amazon S3 and its like,
Google Cloud Storage, Azure and HDFS. Credentials come from the environment of the
process, or from the address, of which only the path is shown.
"""

from __future__ import annotations

import copy
import glob
import os
import re
from collections.abc import Callable, Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Self

import pyarrow as pa
import pyarrow.dataset as pa_dataset
from pyarrow import fs

from tether.scan.arrow import ArrowRows, Placed, Reading, kind_of

PARQUET_SUFFIXES = (".parquet", ".parq", ".pq")
"""The names of files that are read from a folder end with one of these."""
ADDRESS = re.compile(r"([a-zA-Z][a-zA-Z0-9+.-]+://)(?:[^/?]*@)?([^?]*)(\?.*)?")
"""A file system, perhaps credentials, a path, and options such as ?region=eu-west-1."""
MAGIC = re.compile(r"[*?[]")
"""What a glob contains, and a path does not."""
VALUES_PER_BATCH = 1 << 18
"""About how many values are decoded at once, so that memory does not grow with the columns."""
ASSUMED_LIST_LENGTH = 16
"""How many values a list counts for, before it is read."""
FORMAT = pa_dataset.ParquetFileFormat(
    default_fragment_scan_options=pa_dataset.ParquetFragmentScanOptions(
        page_checksum_verification=True
    )
)
"""Pages are compared with their checksums, in files that have them."""


class ParquetRows(ArrowRows):
    """Parquet files whose schemas agree in the columns that are read."""

    fingerprinted = False

    def __init__(
        self, source: Any, read: Callable[[list[str]], Reading], where: Any = None
    ) -> None:
        if where is not None and not isinstance(where, pa_dataset.Expression):
            raise TypeError(
                f"where must be a pyarrow expression, as pyarrow.dataset.field('day') > 3, got "
                f"{where!r}"
            )
        self.filesystem, self.paths = find_files(source)
        self.where, self.states = where, self._states()
        try:
            found = self._dataset(None)
            schemas = {each.path: each.physical_schema for each in found.get_fragments()}
            counts = [each.count_rows() for each in found.get_fragments()]
        except (pa.ArrowException, OSError) as error:
            raise self._named(error, []) from error
        described = f"{len(self.paths)} file(s), first {self.shown(self.paths[0])}"
        super().__init__(read(list(found.schema.names)), described)
        self._rows = sum(counts) if where is None else None
        self.dataset = self._dataset(self._widened(found.schema, schemas))

    def shown(self, path: str) -> str:
        """How a file is named in errors."""
        kind = self.filesystem.type_name
        return path if kind == "local" else f"{kind}://{path}"

    def _dataset(self, schema: pa.Schema | None) -> pa_dataset.Dataset:
        """The files, with the schema of the first one unless another is given."""
        return pa_dataset.dataset(
            self.paths, schema, FORMAT, filesystem=self.filesystem, partitioning="hive"
        )

    def _widened(self, schema: pa.Schema, schemas: dict[str, pa.Schema]) -> pa.Schema:
        """One schema for all files: numbers are floats, and lists are lists of floats."""
        kinds: dict[str, tuple[str, str]] = {}
        for path, own in schemas.items():
            self.reading.require(own.names, self.shown(path))
            for name in self.reading.needed:
                kind = kind_of(own.field(name).type)
                first, elsewhere = kinds.setdefault(name, (kind, path))
                if kind != first:
                    raise TypeError(
                        f"{self.shown(path)}: the column {name!r} holds {kind}, but in "
                        f"{self.shown(elsewhere)} it holds {first}"
                    )
        wide = {"numbers": pa.float64(), "lists of numbers": pa.large_list(pa.float64())}
        for name, (kind, _) in kinds.items():
            stated = pa.field(name, wide.get(kind, schema.field(name).type))
            schema = schema.set(schema.get_field_index(name), stated)
        try:
            schema.empty_table().filter(
                pa_dataset.scalar(True) if self.where is None else self.where
            )
        except pa.ArrowException as error:
            raise ValueError(
                f"where, {self.where}, does not fit the columns {schema.names}: {one_line(error)}"
            ) from error
        return schema

    def of_file(self, path: str) -> Self:
        """The rows of one of the files alone."""
        one = copy.copy(self)
        one.paths = [path]
        one.dataset = one._dataset(self.dataset.schema)
        return one

    def batches(self) -> Iterator[Placed]:
        """All batches of all files, between two looks at whether a file has changed."""
        self.require_unchanged()
        start, path = 0, ""
        kinds = [kind_of(self.dataset.schema.field(name).type) for name in self.reading.needed]
        values = sum(ASSUMED_LIST_LENGTH if each.startswith("lists") else 1 for each in kinds)
        scanner = self.dataset.scanner(
            columns=self.reading.needed,
            filter=self.where,
            batch_size=max(VALUES_PER_BATCH // values, 1),
            batch_readahead=2,
            fragment_readahead=1,
        )
        try:
            for tagged in scanner.scan_batches():
                if tagged.fragment.path != path:
                    start, path = 0, tagged.fragment.path
                yield self.shown(path), start, tagged.record_batch
                start += tagged.record_batch.num_rows
        except (pa.ArrowException, OSError) as error:
            self.require_unchanged()
            raise self._named(error, self.reading.needed) from error
        self.require_unchanged()

    def require_unchanged(self) -> None:
        """Raise if a file was written again, or removed, since the rows were opened."""
        for path, now in self._states().items():
            if now != self.states[path]:
                change = "was removed" if now is None else "has changed"
                raise ValueError(
                    f"{self.shown(path)}: the file {change} since it was opened, and what was "
                    f"computed from its rows no longer holds: scan it again"
                )

    def _states(self) -> dict[str, tuple[int, int] | None]:
        """Size and time of every file; None where there is no file any more."""
        found = self.filesystem.get_file_info(self.paths)
        return {each.path: (each.size, each.mtime_ns) if each.is_file else None for each in found}

    def _named(self, error: Exception, columns: list[str]) -> ValueError:
        """The error with the name of the file that cannot be read, which Arrow may not say."""
        for path in self.paths:
            try:
                one = FORMAT.make_fragment(path, filesystem=self.filesystem)
                for _ in one.scanner(columns=columns).to_batches():
                    pass
            except (pa.ArrowException, OSError) as own:
                return ValueError(
                    f"{self.shown(path)}: cannot be read as a Parquet file, it may be truncated or "
                    f"corrupt: {one_line(own)}"
                )
        return ValueError(f"{self.shown(self.paths[0])}: cannot be read: {one_line(error)}")


def find_files(source: Any) -> tuple[fs.FileSystem, list[str]]:
    """The Parquet files that a path, a folder, a glob or a list of these names, sorted."""
    filesystem, paths = fs.LocalFileSystem(), []
    given = list(source) if isinstance(source, (list, tuple)) else [source]
    for number, each in enumerate(given):
        text = os.fspath(each)
        address = ADDRESS.fullmatch(text)
        own, found = _stored_files(text, address) if address else (filesystem, _local_files(text))
        if not found:
            shown = "".join(address.groups()[:2]) if address else text
            raise FileNotFoundError(f"source: there are no Parquet files at {shown!r}")
        if number and own != filesystem:
            raise ValueError("source: all files must be in one file system")
        filesystem = own
        paths += found
    local = filesystem.type_name == "local"
    real = [os.path.realpath(path) if local else path for path in paths]
    if len(set(real)) < len(real):
        twice = next(path for path in real if real.count(path) > 1)
        raise ValueError(f"source: {twice!r} is named twice, and its rows would count twice")
    return filesystem, paths


def _local_files(text: str) -> list[str]:
    if Path(text).is_file():
        return [text]
    if Path(text).is_dir():
        inside = [str(file) for file in Path(text).rglob("*") if file.is_file()]
        return sorted(file for file in inside if _is_data(_below(file, text)))
    above, _ = _split(text)
    inside = [file for file in glob.glob(text, recursive=True) if Path(file).is_file()]
    return sorted(file for file in inside if not _is_hidden(_below(file, above)))


def _stored_files(text: str, address: re.Match[str]) -> tuple[fs.FileSystem, list[str]]:
    """The files of an address: one file, those of a folder, or those that fit a glob."""
    above, pattern = _split(address[2])
    try:
        filesystem, root = fs.FileSystem.from_uri(
            text[: address.start(2)] + above.rstrip("/") + (address[3] or "")
        )
        if filesystem.get_file_info(root).is_file:
            return filesystem, [root]
        inside = filesystem.get_file_info(
            fs.FileSelector(root, recursive=True, allow_not_found=True)
        )
    except (pa.ArrowException, OSError) as error:
        secret = text[address.end(1) : address.start(2)]
        reason = one_line(error).replace(secret or "@", "")
        raise ValueError(f"source: {address[1] + address[2]!r} cannot be read: {reason}") from None
    files = [(each.path, _below(each.path, root)) for each in inside if each.is_file]
    if pattern:
        fits = (path for path, parts in files if not _is_hidden(parts) and _fits(parts, pattern))
    else:
        fits = (path for path, parts in files if _is_data(parts))
    return filesystem, sorted(fits)


def _split(path: str) -> tuple[str, list[str]]:
    """The folder above the first part with a wildcard, and the parts from there on, if any."""
    magic = MAGIC.search(path)
    if magic is None:
        return path, []
    above = path[: magic.start()].rpartition("/")[0]
    return above, _below(path, above)


def _below(path: str, root: str) -> list[str]:
    """The folders and the name of a file below a root."""
    return path.removeprefix(root).strip("/").split("/")


def _fits(parts: list[str], pattern: list[str]) -> bool:
    """Whether a path fits a glob, in which ** stands for any number of folders."""
    if not pattern or not parts:
        return not pattern and not parts
    if pattern[0] == "**":
        return _fits(parts, pattern[1:]) or _fits(parts[1:], pattern)
    return fnmatchcase(parts[0], pattern[0]) and _fits(parts[1:], pattern[1:])


def _is_hidden(parts: list[str]) -> bool:
    return any(part.startswith((".", "_")) for part in parts)


def _is_data(parts: list[str]) -> bool:
    """Whether a file in a folder is one of its data files."""
    return not _is_hidden(parts) and parts[-1].endswith(PARQUET_SUFFIXES)


def one_line(error: Exception) -> str:
    """What an error of Arrow says, in one line."""
    return " ".join(str(error).split())
