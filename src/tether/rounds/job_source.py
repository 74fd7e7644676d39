"""The files of a job as a source of rows, of which every pass sees only what was exported."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tether._core import progress
from tether._core.kernels import Kernel, merge_all
from tether.rounds.job_files import read_table

READING_THREADS = 2
"""How many files are read at the same time."""


class JobSource:
    """Parquet files in a folder, each with the digest that it must have whenever it is read.

    A file is read once in each pass, and the digest is that of the bytes that are used: a file that
    is exchanged between a check and a pass, or between two passes, is an error.
    """

    def __init__(self, folder: str, digests: Mapping[str, str]) -> None:
        if not digests:
            raise ValueError(f"the job in {folder} names no files of its log")
        self._folder, self._digests = folder, dict(digests)

    def __repr__(self) -> str:
        return f"JobSource({len(self._digests)} file(s) in {self._folder})"

    @cached_property
    def names(self) -> list[str]:
        """The names of the columns of the first file."""
        name = next(iter(self._digests))
        return list(read_table(self._folder, name, self._digests[name]).column_names)

    def reduce(self, kernel: Kernel) -> Any:
        """Read the columns of the kernel in all files, and merge its summaries."""
        with (
            progress.step(f"reading {len(self._digests)} file(s)", len(self._digests)) as step,
            ThreadPoolExecutor(READING_THREADS) as pool,
        ):

            def summary(name: str) -> Any:
                found = self._summary(kernel, name)
                step.advance()
                return found

            try:
                return merge_all(pool.map(summary, self._digests))
            except BaseException:
                pool.shutdown(cancel_futures=True)
                raise

    def _summary(self, kernel: Kernel, name: str) -> Any:
        table = read_table(self._folder, name, self._digests[name], kernel.columns)
        if not table.num_rows:
            return None
        try:
            return kernel.partial({each: as_array(table[each]) for each in kernel.columns})
        except (TypeError, ValueError) as error:
            raise type(error)(f"{self._folder}/{name}: {error}") from error


def as_array(column: pa.ChunkedArray) -> NDArray[Any]:
    """A column of numbers as they are, and one of lists of equal length as a table."""
    if not pa.types.is_list(column.type):
        return np.asarray(column.to_numpy())
    lists = column.combine_chunks()
    flat: NDArray[Any] = lists.flatten().to_numpy(zero_copy_only=False)
    return flat.reshape(len(lists), -1)
