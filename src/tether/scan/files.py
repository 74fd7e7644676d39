"""Parquet files by a path, a folder, a glob or a list of these, here or in object storage.

An address such as `s3://bucket/log/` is read by the file systems of Arrow: Amazon S3 and its like,
Google Cloud Storage, Azure and HDFS. Credentials come from the environment of the process, or from
the address, of which only the path is shown. On a Ray cluster kernels run in tasks, one per file.
"""

from __future__ import annotations

import copy
import os
import re
from collections import Counter, deque
from collections.abc import Callable, Iterator
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.dataset as pa_dataset
from pyarrow import fs

from tether.scan.arrow import ArrowRows, Placed, Reading, Visit, Visited, kind_of

PARQUET_SUFFIXES = (".parquet", ".parq", ".pq")  # of the files that are read from a folder
ADDRESS = re.compile(r"([a-zA-Z][a-zA-Z0-9+.-]+://)(?:[^/?]*@)?([^?]*)(\?.*)?")
"""A file system, perhaps credentials, a path, and options such as ?region=eu-west-1."""
ROWS_PER_BATCH, ROWS_OF_LISTS = 1 << 16, 1 << 12
"""How many rows are decoded at once: fewer where rows have lists."""
WIDE = {"numbers": pa.float64(), "lists of numbers": pa.large_list(pa.float64())}
CHECKED = pa_dataset.ParquetFragmentScanOptions(page_checksum_verification=True)
FORMAT = pa_dataset.ParquetFileFormat(default_fragment_scan_options=CHECKED)
"""Pages are compared with their checksums, in files that have them."""


class ParquetRows(ArrowRows):
    """Parquet files whose schemas agree in the columns that are read."""

    fingerprinted = False

    def __init__(
        self, source: Any, read: Callable[[list[str]], Reading], where: Any = None
    ) -> None:
        if where is not None and not isinstance(where, pa_dataset.Expression):
            raise TypeError(f"where must be a pyarrow.dataset expression, got {where!r}")
        self.filesystem, self.paths = find_files(source)
        self.where, self.states = where, self._states()
        try:
            found = self._dataset(None)
            fragments = list(found.get_fragments())
            schemas = {each.path: each.physical_schema for each in fragments}
            rows = sum(each.count_rows() for each in fragments)
        except (pa.ArrowException, OSError) as error:
            raise self._named(error, []) from error
        described = f"{len(self.paths)} file(s), first {self.shown(self.paths[0])}"
        super().__init__(read(list(found.schema.names)), described)
        self._rows = rows if where is None else None
        self.metadata = dict(found.schema.metadata or {})
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
                    other = f"but in {self.shown(elsewhere)} it holds {first}"
                    raise TypeError(
                        f"{self.shown(path)}: the column {name!r} holds {kind}, {other}"
                    )
        for name, (kind, _) in kinds.items():
            stated = pa.field(name, WIDE.get(kind, schema.field(name).type))
            schema = schema.set(schema.get_field_index(name), stated)
        try:
            if self.where is not None:
                schema.empty_table().filter(self.where)
        except pa.ArrowException as error:
            problem = f"does not fit the columns {schema.names}: {one_line(error)}"
            raise ValueError(f"where, {self.where}, {problem}") from error
        return schema

    def batches(self) -> Iterator[Placed]:
        """All batches of all files, between two looks at whether a file has changed."""
        self.require_unchanged()
        start, path, needed = 0, "", self.reading.needed
        lists = any(self.dataset.schema.field(name).type.num_fields for name in needed)
        scanner = self.dataset.scanner(
            columns=needed,
            filter=self.where,
            batch_size=ROWS_OF_LISTS if lists else ROWS_PER_BATCH,
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
            raise self._named(error, needed) from error
        self.require_unchanged()

    def require_unchanged(self) -> None:
        """Raise if a file was written again, or removed, since the rows were opened."""
        for path, now in self._states().items():
            if now != self.states[path]:
                change = "was removed" if now is None else "has changed"
                problem = f"the file {change} since it was opened: scan it again"
                raise ValueError(f"{self.shown(path)}: {problem}")

    def _states(self) -> dict[str, tuple[int, int] | None]:
        """Size and time of every file; None where the file no longer exists."""
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
                why = f"it may be truncated or corrupt: {one_line(own)}"
                return ValueError(f"{self.shown(path)}: cannot be read as a Parquet file, {why}")
        return ValueError(f"{self.shown(self.paths[0])}: cannot be read: {one_line(error)}")


class OnRay(NamedTuple):
    """Parquet files that tasks of a Ray cluster read, as a source for `Log.scan`.

    Parameters
    ----------
    files : path or sequence of paths
        A file, a folder, a glob, or a list of these, which all machines of the cluster can read.
    """

    files: Any


class RayRows(ParquetRows):
    """Files whose rows are worked on by tasks; a task whose worker dies is run again."""

    def visits(self, visit: Visit) -> Iterator[Visited]:
        """The visits of all batches, file by file, with few tasks waiting at a time."""
        import ray

        task, shared = ray.remote(max_retries=3)(_visit_file), ray.put((self, visit))
        limit = 2 * max(int(ray.cluster_resources().get("CPU", 1)), 1)
        waiting: deque[Any] = deque()
        try:
            for path in self.paths:
                waiting.append(task.remote(shared, path))
                if len(waiting) >= limit:
                    yield from ray.get(waiting.popleft())
            while waiting:
                yield from ray.get(waiting.popleft())
        except ray.exceptions.RayTaskError as error:
            own = error.cause  # what was raised in the worker
            raise own if isinstance(own, (TypeError, ValueError)) else error from None
        finally:
            for each in waiting:
                ray.cancel(each)


def _visit_file(shared: tuple[RayRows, Visit], path: str) -> list[Visited]:
    """What a task does: the visits of all batches of one file."""
    one, visit = copy.copy(shared[0]), shared[1]
    one.paths = [path]
    one.dataset = one._dataset(one.dataset.schema)
    return [visit.of_batch(placed) for placed in one.batches()]


def find_files(source: Any) -> tuple[fs.FileSystem, list[str]]:
    """The Parquet files that a path, a folder, a glob or a list of these names, sorted."""
    found: list[tuple[fs.FileSystem, str]] = []
    for each in source if isinstance(source, (list, tuple)) else [source]:
        text = os.fspath(each)
        address = ADDRESS.fullmatch(text)
        shown = address[1] + address[2] if address else text
        try:
            files = _files_at(text, address)
        except (pa.ArrowException, OSError) as error:
            secret = text[address.end(1) : address.start(2)] if address else ""
            reason = one_line(error).replace(secret or "@", "")
            raise ValueError(f"source: {shown!r} cannot be read: {reason}") from None
        if not files:
            raise FileNotFoundError(f"source: there are no Parquet files at {shown!r}")
        found += files
    filesystem, paths = found[0][0], [path for _, path in found]
    if any(each != filesystem for each, _ in found):
        raise ValueError("source: all files must be in one file system")
    local = filesystem.type_name == "local"
    real = Counter(os.path.realpath(path) if local else path for path in paths)
    if twice := [path for path, times in real.items() if times > 1]:
        raise ValueError(f"source: {twice[0]!r} is named twice, and its rows would count twice")
    return filesystem, paths


def _files_at(text: str, address: re.Match[str] | None) -> list[tuple[fs.FileSystem, str]]:
    """The files of one path or address: itself, those of a folder, or those that fit a glob."""
    path = address[2] if address else text
    magic = re.search(r"[*?[]", path)
    above = path[: magic.start()].rpartition("/")[0] if magic and not os.path.isfile(path) else path
    filesystem, root = fs.LocalFileSystem(), above or ("/" if path.startswith("/") else ".")
    if address:
        uri = text[: address.start(2)] + above.rstrip("/") + (address[3] or "")
        filesystem, root = fs.FileSystem.from_uri(uri)
    if filesystem.get_file_info(root).is_file:
        return [(filesystem, root)]
    pattern = path.removeprefix(above).strip("/").split("/") if above != path else []
    selector = fs.FileSelector(root, recursive=len(pattern) != 1, allow_not_found=True)
    chosen = []
    for each in filesystem.get_file_info(selector):
        parts = each.path.removeprefix(root).strip("/").split("/")
        hidden = any(part.startswith((".", "_")) for part in parts)
        fits = _fits(parts, pattern) if pattern else parts[-1].endswith(PARQUET_SUFFIXES)
        if each.is_file and fits and not hidden:
            chosen.append((filesystem, each.path))
    return sorted(chosen, key=lambda pair: pair[1])


def _fits(parts: list[str], pattern: list[str]) -> bool:
    """Whether a path fits a glob, in which ** stands for any number of folders."""
    if not pattern or not parts:
        return not pattern and not parts
    if pattern[0] == "**":
        return _fits(parts, pattern[1:]) or _fits(parts[1:], pattern)
    return fnmatchcase(parts[0], pattern[0]) and _fits(parts[1:], pattern[1:])


def one_line(error: Exception) -> str:
    """What an error of Arrow says, in one line."""
    return " ".join(str(error).split())
