"""Scores of two policies for many rows: each Parquet file is read in batches and written again.

The new file has the columns that are kept and, beside them, `log_safe` and `log_optimized`. It is
written completely or not at all, and remembers which file it was made from. So scoring that was
interrupted goes on where it stopped: files that are there already are not scored again.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import parquet

from tether._core import files, policy_calls
from tether.scan.arrow_columns import to_array
from tether.scan.data_files import DataFile, find_files

SCORE_COLUMNS = ("log_safe", "log_optimized")
"""The columns that are added."""
MADE_FROM = b"tether.made_from"
"""Where a written file says what it was made from."""
ROWS_PER_SCORED_BATCH = 1 << 14
"""How many rows are scored at once, by default."""

MakePolicies = Callable[[], tuple[Any, Any]]
"""Makes the safe and the optimized policy; it is called once in each process that scores."""


@dataclass(frozen=True)
class Scoring:
    """What is scored: the columns of actions and contexts, and what is kept of the rows.

    Parameters
    ----------
    make_policies : callable
        Makes the safe and the optimized policy, once in each process.
    action : str or sequence of str
        The column of actions, or several feature columns.
    context : str or sequence of str, optional
        The column of contexts, or several feature columns; None where neither policy has any.
    keep : sequence of str, optional
        The columns to write beside the scores; all of them by default.
    rows_per_batch : int, optional
        How many rows are scored at once.
    """

    make_policies: MakePolicies
    action: str | Sequence[str]
    context: str | Sequence[str] | None = None
    keep: Sequence[str] | None = None
    rows_per_batch: int = ROWS_PER_SCORED_BATCH

    def score_file(self, source: DataFile, target: str, policies: tuple[Any, Any]) -> int:
        """Score the rows of one file and write the new one; how many rows there were."""
        with source.open() as file:
            kept = list(file.schema_arrow.names) if self.keep is None else list(self.keep)
            kept = [name for name in kept if name not in SCORE_COLUMNS]
            schema = pa.schema(
                [file.schema_arrow.field(name) for name in kept]
                + [pa.field(name, pa.float64()) for name in SCORE_COLUMNS],
                metadata={MADE_FROM: made_from(source)},
            )
            wanted = list(dict.fromkeys([*kept, *_names(self.action), *_names(self.context)]))
            with (
                files.replacing(target, overwrite=True) as temporary,
                parquet.ParquetWriter(temporary, schema) as writer,
            ):
                for batch in file.iter_batches(self.rows_per_batch, columns=wanted):
                    writer.write_batch(self._scored(batch, kept, schema, policies, source))
            return int(file.metadata.num_rows)

    def _scored(
        self,
        batch: pa.RecordBatch,
        kept: list[str],
        schema: pa.Schema,
        policies: tuple[Any, Any],
        source: DataFile,
    ) -> pa.RecordBatch:
        actions = _stacked(batch, self.action)
        contexts: Any = batch.num_rows if self.context is None else _stacked(batch, self.context)
        try:
            scores = policy_calls.score_both(*policies, contexts, actions)
        except (TypeError, ValueError) as error:
            raise type(error)(f"{source}: {error}") from error
        columns = [batch.column(name) for name in kept]
        return pa.RecordBatch.from_arrays(
            [*columns, *(pa.array(np.asarray(each, dtype=np.float64)) for each in scores)],
            schema=schema,
        )


def made_from(file: DataFile) -> bytes:
    """What tells whether a written file was made from this one: its name, size and rows."""
    rows = file.open().metadata.num_rows
    found = {"name": Path(file.path).name, "bytes": file.size, "rows": rows}
    return json.dumps(found, sort_keys=True).encode()


def unscored(source: Any, out: str | Path) -> Iterator[tuple[DataFile, str]]:
    """The files that have not been scored yet, each with the name of the file to write.

    Files keep their names. One that is there, but was made from another file, is an error.
    """
    folder = Path(out)
    folder.mkdir(parents=True, exist_ok=True)
    named: dict[str, DataFile] = {}
    for file in find_files(source):
        target = folder / Path(file.path).name
        if target.name in named:
            raise ValueError(
                f"{file} and {named[target.name]} have the same name, and would be written to the "
                "same file: score their folders one by one"
            )
        named[target.name] = file
        if target.exists():
            known = parquet.read_schema(target).metadata or {}
            if known.get(MADE_FROM) != made_from(file):
                raise ValueError(
                    f"{target} was not made from {file} as it is now: remove it, or write to "
                    "another folder"
                )
            continue
        yield file, str(target)


def _names(columns: str | Sequence[str] | None) -> list[str]:
    return [] if columns is None else [columns] if isinstance(columns, str) else list(columns)


def _stacked(batch: pa.RecordBatch, columns: str | Sequence[str]) -> NDArray[Any]:
    """One column as it is, or several side by side."""
    arrays = [to_array(name, batch.column(name)) for name in _names(columns)]
    return arrays[0] if isinstance(columns, str) else np.column_stack(arrays)
