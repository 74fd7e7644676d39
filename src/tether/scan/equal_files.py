"""Files with the same content under several names, whose rows would count several times.

Files of one size are compared by their last bytes, where Parquet keeps the statistics of all
columns, and only those that agree there by a digest of all their bytes.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any

import pyarrow as pa

from tether.scan.data_files import DataFile

LAST_BYTES = 1 << 16
"""How much of the end of a file is compared first."""
BYTES_AT_ONCE = 1 << 22
"""How much of a file is read at a time for its digest."""
MAX_PAIRS_NAMED = 3
"""How many pairs of files a warning names."""


def equal_files_warning(files: Iterable[DataFile]) -> str | None:
    """Say which files have the same content; None where all differ, or one cannot be read."""
    try:
        groups = _grouped([list(files)], lambda file: file.size)
        groups = _grouped(_grouped(groups, _end_of), _digest)
    except (pa.ArrowException, OSError):  # reading its rows says what is wrong
        return None
    pairs = [(copy, group[0]) for group in groups if _has_rows(group[0]) for copy in group[1:]]
    if not pairs:
        return None
    named = ", ".join(
        f"{copy.name!r} equals {first.name!r}" for copy, first in pairs[:MAX_PAIRS_NAMED]
    )
    more = len(pairs) - MAX_PAIRS_NAMED
    return (
        f"{len(pairs)} file(s) have the same bytes as another one, and their rows count twice: "
        f"{named}{f' and {more} more' if more > 0 else ''}. A promise takes every row for a new "
        f"observation: remove the copies"
    )


def _grouped(
    groups: Iterable[list[DataFile]], key: Callable[[DataFile], Any]
) -> list[list[DataFile]]:
    """The files of each group that share a key with another one of it, by key."""
    found: list[list[DataFile]] = []
    for group in groups:
        by_key: dict[Any, list[DataFile]] = defaultdict(list)
        for file in group:
            by_key[key(file)].append(file)
        found += [each for each in by_key.values() if len(each) > 1]
    return found


def _has_rows(file: DataFile) -> bool:
    """Whether a file has rows: partitions without any are often the same."""
    try:
        return bool(file.open().metadata.num_rows)
    except ValueError:  # reading its rows says what is wrong
        return False


def _end_of(file: DataFile) -> bytes:
    with file.stream() as stream:
        stream.seek(max(stream.size() - LAST_BYTES, 0))
        return bytes(stream.read())


def _digest(file: DataFile) -> bytes:
    digest = hashlib.sha256()
    with file.stream() as stream:
        while block := stream.read(BYTES_AT_ONCE):
            digest.update(block)
    return digest.digest()
