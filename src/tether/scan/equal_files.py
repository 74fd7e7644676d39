"""Files with the same content under several names, whose rows would count several times.

Files of one size are compared by their last bytes, where Parquet keeps the statistics of all
columns, and only those that agree there by a digest of all their bytes.
"""

from __future__ import annotations

import hashlib
import os
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any

import pyarrow as pa
from pyarrow import parquet

LAST_BYTES = 1 << 16
"""How much of the end of a file is compared first."""
MAX_PAIRS_NAMED = 3
"""How many pairs of files a warning names."""


def equal_files_warning(files: Iterable[str]) -> str | None:
    """Say which files have the same content; None where all differ, or one cannot be read."""
    try:
        groups = _grouped([list(files)], os.path.getsize)
        groups = _grouped(_grouped(groups, _end_of), _digest)
    except OSError:  # reading its rows says what is wrong
        return None
    pairs = [(copy, group[0]) for group in groups if _has_rows(group[0]) for copy in group[1:]]
    if not pairs:
        return None
    named = ", ".join(f"{copy!r} equals {first!r}" for copy, first in pairs[:MAX_PAIRS_NAMED])
    more = len(pairs) - MAX_PAIRS_NAMED
    return (
        f"{len(pairs)} file(s) have the same bytes as another one, and their rows count twice: "
        f"{named}{f' and {more} more' if more > 0 else ''}. A promise takes every row for a new "
        f"observation: remove the copies"
    )


def _grouped(groups: Iterable[list[str]], key: Callable[[str], Any]) -> list[list[str]]:
    """The files of each group that share a key with another one of it, by key."""
    found: list[list[str]] = []
    for group in groups:
        by_key: dict[Any, list[str]] = defaultdict(list)
        for file in group:
            by_key[key(file)].append(file)
        found += [each for each in by_key.values() if len(each) > 1]
    return found


def _has_rows(file: str) -> bool:
    """Whether a file has rows: partitions without any are often the same."""
    try:
        return bool(parquet.read_metadata(file).num_rows)
    except (pa.ArrowException, OSError):  # reading its rows says what is wrong
        return False


def _end_of(file: str) -> bytes:
    with open(file, "rb") as stream:
        stream.seek(-min(LAST_BYTES, os.path.getsize(file)), os.SEEK_END)
        return stream.read()


def _digest(file: str) -> bytes:
    with open(file, "rb") as stream:
        return hashlib.file_digest(stream, "sha256").digest()
