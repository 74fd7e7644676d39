"""Parquet files that all machines of a Ray cluster can read: kernels run in tasks, one per file.

Only what kernels return travels, so an object store of a few megabytes is enough. A task whose
worker dies is run again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any, NamedTuple

from tether.scan.arrow import Visit, Visited
from tether.scan.files import ParquetRows

TASKS_PER_PROCESSOR = 2
"""How many tasks wait or run per processor of the cluster."""
RETRIES = 3
"""How often a task is begun again where its worker dies."""


class OnRay(NamedTuple):
    """Parquet files that tasks of a Ray cluster read, as a source for `Log.scan`.

    Parameters
    ----------
    files : path or sequence of paths
        A file, a folder, a glob, or a list of these, which all machines of the cluster can read.
    """

    files: Any


class RayRows(ParquetRows):
    """Parquet files whose rows are read, and worked on, by tasks of Ray."""

    def visits(self, visit: Visit) -> Iterator[Visited]:
        """The visits of all batches, file by file, with few tasks waiting at a time."""
        import ray

        self.require_unchanged()
        task = ray.remote(max_retries=RETRIES)(_visit_file)
        shared = ray.put((self, visit))
        limit = TASKS_PER_PROCESSOR * max(int(ray.cluster_resources().get("CPU", 1)), 1)
        waiting: deque[Any] = deque()
        try:
            for path in self.paths:
                waiting.append(task.remote(shared, path))
                if len(waiting) >= limit:
                    yield from ray.get(waiting.popleft())
            while waiting:
                yield from ray.get(waiting.popleft())
        except ray.exceptions.RayTaskError as error:
            raise _own_error(error) from error
        finally:
            for each in waiting:
                ray.cancel(each)
        self.require_unchanged()


def _visit_file(shared: tuple[RayRows, Visit], path: str) -> list[Visited]:
    """What a task does: the visits of all batches of one file."""
    rows, visit = shared
    return [visit.of_batch(placed) for placed in rows.of_file(path).batches()]


def _own_error(error: Any) -> Exception:
    """The error that was raised in a worker, rather than the one that Ray wraps it in."""
    cause: Any = getattr(error, "cause", None)
    while getattr(cause, "cause", None) is not None:
        cause = cause.cause
    return type(cause)(str(cause)) if isinstance(cause, (TypeError, ValueError)) else error
