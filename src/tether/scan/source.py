"""Sources: where rows are, and how a kernel reaches them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from tether._core.kernels import Kernel, merge_all
from tether._core.shown import shown
from tether._core.user_warnings import warn_user
from tether._core.warning_categories import AssumptionWarning
from tether.scan.equal_files import equal_files_warning
from tether.scan.same_rows import Visited, Visiting

if TYPE_CHECKING:
    from tether.scan.parquet import Parquet

FRAME_PACKAGES = ("duckdb", "_duckdb", "narwhals", "polars", "pyspark")
"""The packages whose frames are taken as a source."""


class Source(Protocol):
    """Rows in parts. An engine may run kernels where the rows are, or stream rows to them."""

    @property
    def names(self) -> list[str] | None:
        """The names of all columns; None where they are not known before the rows are read."""
        ...

    def reduce(self, kernel: Kernel) -> Any:
        """The merged summaries of the kernel on all parts that have rows; None if none has.

        Only the columns that the kernel names are read. An error in a part names the part.
        """
        ...


class FunctionSource:
    """Partitions that a function of the user's own visits: Ray, Dask, or anything else.

    The function takes a kernel and returns the summaries of `kernel.partial(columns)` for all
    partitions that have rows, in any order. `kernel.columns` names what it reads, and `columns` is
    a frame with these columns, or a dictionary of arrays. It must visit the same rows each time.
    """

    def __init__(self, function: Callable[[Any], Iterable[Any]]) -> None:
        self.function = function
        self.names: list[str] | None = None
        self._visited: Visited | None = None
        self._passes = 0

    def reduce(self, kernel: Kernel) -> Any:
        """Merge what the function returns; an error if it visits other rows than before."""
        self._passes += 1
        number = self._passes
        summaries = self.function(Visiting(kernel, number, paired=True))
        if not isinstance(summaries, Iterable):
            raise TypeError(
                f"{self!r} must return the summaries of kernel.partial(columns) for all "
                f"partitions, got {shown(summaries)}"
            )
        found = merge_all(self._checked(each, number) for each in summaries)
        found = found or Visited(None, 0, {})
        if self._visited is not None and (other := found.difference(self._visited)):
            raise ValueError(f"{self!r} visited other rows than in an earlier pass: {other}")
        self._visited = found.joined(self._visited or found)
        return found.summary

    def _checked(self, summary: Any, number: int) -> Visited | None:
        """One of the summaries, which must be of the kernel of this pass."""
        if summary is None:
            return None
        if not isinstance(summary, Visited):
            raise TypeError(
                f"{self!r} must return the summaries of kernel.partial(columns) for all "
                f"partitions, got {shown(summary)} among them"
            )
        if summary.number != number:
            raise ValueError(
                f"{self!r} returned a summary of an earlier pass: every pass has a kernel of its "
                f"own, so call kernel.partial(columns) anew each time, without a cache"
            )
        return summary

    def __repr__(self) -> str:
        return f"FunctionSource({getattr(self.function, '__name__', self.function)!s})"


def without_equal_files(files: Parquet) -> Parquet:
    """The files, after a warning if some of them have the same content."""
    if (copies := equal_files_warning(files.files)) is not None:
        warn_user(copies, AssumptionWarning)
    return files


def open_source(source: Any, *, where: Any = None) -> Source:
    """The source of what a user passed.

    Parameters
    ----------
    source : path, frame, callable or Source
        A Parquet file, a folder of them, a glob, or a list of these, also as addresses such as
        s3://bucket/folder; a DuckDB relation, a Polars
        lazy frame or a Spark data frame; a function from a kernel to summaries; or an object with
        `names` and `reduce`.
    where : pyarrow.compute.Expression, optional
        Which rows of Parquet files to read; columns in the names of folders, such as
        `day=2026-01-01`, may be used.

    Returns
    -------
    Source
        The source.

    Raises
    ------
    TypeError, ValueError, FileNotFoundError
        If it is none of these, or there are no such files.
    """
    if isinstance(source, (str, os.PathLike, Path)) or (
        isinstance(source, (list, tuple))
        and source
        and all(isinstance(each, (str, os.PathLike)) for each in source)
    ):
        from tether.scan.parquet import Parquet

        return without_equal_files(Parquet(source, where=where))
    if where is not None:
        raise TypeError(
            "where filters Parquet files only: filter the frame or the partitions themselves"
        )
    if type(source).__module__.partition(".")[0] in FRAME_PACKAGES:
        from tether.scan.engine_frames import FrameSource

        return FrameSource(source)
    if callable(getattr(source, "reduce", None)) and hasattr(source, "names"):
        found: Source = source
        return found
    if callable(source):
        return FunctionSource(source)
    raise TypeError(
        f"source must be a path, folder or glob of Parquet files, a DuckDB relation, a Polars lazy "
        f"frame, a Spark data frame, or a function that applies a kernel to partitions, got "
        f"{type(source).__name__}"
    )
