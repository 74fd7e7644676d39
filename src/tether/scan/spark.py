"""Kernels inside the Python workers of Spark, by `mapInArrow`: only summaries leave them."""

from __future__ import annotations

import pickle
import re
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from tether._core.kernels import Kernel, merge_all, needs_whole_parts
from tether.scan.arrow_columns import joined, to_arrays


class _OnPartition:
    """What a worker does with one partition: one row, with the pickled summary."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        parts = joined(batches) if needs_whole_parts(self.kernel) else batches
        total = merge_all(
            self.kernel.partial(to_arrays(batch)) for batch in parts if batch.num_rows
        )
        if total is not None:
            yield pa.RecordBatch.from_pydict({"summary": [pickle.dumps(total)]})


def reduce_spark(frame: Any, kernel: Kernel) -> Any:
    """The merged summaries of a kernel on all partitions of a Spark data frame.

    Where the rows of an item must be together, the frame is partitioned by item first.
    """
    from pyspark.errors import PythonException

    chosen = frame.select(*(f"`{name}`" for name in kernel.columns))
    if needs_whole_parts(kernel):
        chosen = chosen.repartition(f"`{kernel.names.items}`")  # type: ignore[attr-defined]
    try:
        rows = chosen.mapInArrow(_OnPartition(kernel), "summary binary").collect()
    except PythonException as error:
        raise _own_error(error) from error
    return merge_all(pickle.loads(row.summary) for row in rows)


def _own_error(error: Exception) -> Exception:
    """The error that a kernel raised in a worker, out of the traceback that Spark passes on."""
    found = re.findall(r"^(ValueError|TypeError): (.*)$", str(error), flags=re.MULTILINE)
    if not found:
        return error
    kind, message = found[-1]
    return {"ValueError": ValueError, "TypeError": TypeError}[kind](message)
