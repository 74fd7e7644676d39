"""Whether the rows of a file fit into memory, with what the calculation on them needs."""

from __future__ import annotations

import os
from collections.abc import Collection
from functools import cache
from pathlib import Path

from tether.cli.column_arrays import ColumnArray

WORKING_FACTOR = 13.0
"""Peak memory over the size of the columns: `python -m benchmarks.large_files` measures it."""
MEMORY_SHARE = 0.75
"""The share of the machine's memory that a calculation may take."""
UNKNOWN_MEMORY = 8 * 2**30
"""What is assumed where the size of the memory is not known."""
CONTAINER_LIMITS = (
    Path("/sys/fs/cgroup/memory.max"),
    Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"),
)
"""The files in which Linux states the memory limit of a container."""


@cache
def physical_memory() -> int:
    """The bytes of memory of this machine, or of the container if that is less."""
    try:
        sizes = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    except (AttributeError, ValueError, OSError):
        sizes = [UNKNOWN_MEMORY]
    for file in CONTAINER_LIMITS:
        try:
            sizes.append(int(file.read_text(encoding="ascii")))
        except (OSError, ValueError):  # no container, or "max"
            continue
    return min(size for size in sizes if size > 0)


class TooManyRowsError(ValueError):
    """The rows of a file do not fit into memory."""


def check_memory(
    path: Path, rows: int, columns: Collection[ColumnArray], max_rows: int | None
) -> None:
    """Refuse more than `max_rows` rows; by default, more than fit into memory."""
    if max_rows is not None:
        if rows > max_rows:
            raise ValueError(f"{path} has {rows:,} rows, and --max-rows is {max_rows:,}")
        return
    bytes_per_row = sum(column.bytes_per_row for column in columns)
    needed = WORKING_FACTOR * rows * bytes_per_row + sum(column.fixed_bytes for column in columns)
    allowed = MEMORY_SHARE * physical_memory()
    if needed > allowed:
        most = int(allowed / (WORKING_FACTOR * max(bytes_per_row, 1)))
        raise TooManyRowsError(
            f"{path} has {rows:,} rows of {bytes_per_row:,.0f} bytes in {len(columns)} columns, "
            f"which would take about {_gigabytes(needed)} of memory, and this machine has "
            f"{_gigabytes(physical_memory())}: about {most:,} rows are possible. A Parquet file "
            f"is read in parts instead; --max-rows {rows} reads all rows at once all the same"
        )


def _gigabytes(size: float) -> str:
    return f"{size / 1e9:,.1f} GB"
