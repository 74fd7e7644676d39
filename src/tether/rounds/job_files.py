"""The files of a calibration as a batch job: their names, and reading what was written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import blake2b
from io import BytesIO
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
import pyarrow as pa
from pyarrow import parquet

from tether._core import files
from tether._core.types import Floats
from tether.control.log import Log
from tether.control.proposals import SOURCES, Proposals

BLOCK_LOG, BLOCK_SCORES = "part-{:06d}.parquet", "_scores-{:06d}.npz"
PROPOSALS, JOB = "_proposals.parquet", "calibration.json"
"""The names of the files; a scan of the folder leaves out names that begin with an underscore."""
LOSS = "loss_{}"
"""The column of each of the run's losses, in order."""
BYTES_PER_READ = 1 << 20
"""How much of a file is read at once for its digest."""

NamedScores = Mapping[tuple[str, int], Floats]
"""Scores by the name of their column and the round of the policy."""


def write_table(path: Path, columns: Mapping[str, Any]) -> str:
    """Write a Parquet file; its digest."""
    with files.replacing(path) as temporary:
        parquet.write_table(pa.table(dict(columns)), temporary)
        return file_digest(temporary)


def write_scores(path: Path, scores: NamedScores) -> str:
    """Write scores of a block; the digest of the file."""
    with files.replacing(path) as temporary:
        with temporary.open("wb") as file:
            arrays: dict[str, Any] = {f"{name} {k}": each for (name, k), each in scores.items()}
            np.savez(file, **arrays)
        return file_digest(temporary)


def read_scores(folder: str, name: str, digest: str) -> dict[tuple[str, int], Floats]:
    """What `write_scores` wrote."""
    found = {}
    content = BytesIO(read_checked(folder, name, digest))
    try:
        with np.load(content, allow_pickle=False) as arrays:
            for key in arrays.files:
                column, number = key.rsplit(" ", 1)
                found[column, int(number)] = arrays[key]
    except (ValueError, EOFError, BadZipFile) as error:
        raise ValueError(f"{Path(folder) / name} is not a file of a job: {error}") from error
    return found


def read_table(
    folder: str, name: str, digest: str, columns: Sequence[str] | None = None
) -> pa.Table:
    """What `write_table` wrote, or some columns of it."""
    content = pa.BufferReader(read_checked(folder, name, digest))
    try:
        with parquet.ParquetFile(content) as file:
            wanted = file.schema_arrow.names if columns is None else list(columns)
            for column in wanted:
                if file.schema_arrow.names.count(column) != 1:
                    raise ValueError(f"it has the columns {file.schema_arrow.names}")
            return file.read(wanted, use_threads=False)
    except (pa.ArrowException, ValueError) as error:
        raise ValueError(f"{Path(folder) / name} is not a file of a job: {error}") from error


def read_checked(folder: str, name: str, digest: str) -> bytes:
    """The content of a file that must be the one that was written."""
    path = Path(folder) / name
    content = path.read_bytes() if path.is_file() else b""
    if blake2b(content, digest_size=32).hexdigest() != digest:
        raise _changed(path)
    return content


def check_file(folder: str, name: str, digest: str) -> None:
    """Refuse a file that is not the one that was written."""
    path = Path(folder) / name
    if not path.is_file() or file_digest(path) != digest:
        raise _changed(path)


def file_digest(path: Path) -> str:
    """The digest of a file."""
    found = blake2b(digest_size=32)
    with path.open("rb") as file:
        while content := file.read(BYTES_PER_READ):
            found.update(content)
    return found.hexdigest()


def log_columns(log: Log) -> dict[str, Any]:
    """The columns of a log; a table is one column of lists."""
    columns: dict[str, Any] = {LOSS.format(k): loss for k, loss in enumerate(log.loss.values())}
    for name in ("log_safe", "log_optimized", "log_mix"):
        if getattr(log, name) is not None:
            columns[name] = getattr(log, name)
        table = getattr(log, f"{name}_all")
        if table is not None:
            flat = pa.array(np.ascontiguousarray(table).ravel())
            offsets = np.arange(len(table) + 1, dtype=np.int32) * table.shape[1]
            columns[f"{name}_all"] = pa.ListArray.from_arrays(pa.array(offsets), flat)
    return columns


def proposal_columns(proposals: Proposals) -> dict[str, Any]:
    """The columns of proposals."""
    safe, optimized = SOURCES
    columns = {
        "log_safe": proposals.log_safe,
        "log_optimized": proposals.log_optimized,
        "source": np.where(proposals.from_safe, safe, optimized),
    }
    if proposals.log_mix is not None:
        columns["log_mix"] = proposals.log_mix
    return columns


def _changed(path: Path) -> ValueError:
    return ValueError(f"{path} is missing, or not the file that was exported")
