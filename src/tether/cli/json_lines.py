"""JSON lines as Arrow batches: every line is an object."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from tether.cli.table_file import CSV_BLOCK_BYTES, ROWS_PER_BATCH

JSON_LINES_SUFFIXES = (".jsonl", ".ndjson")
MAX_LINE_CHARACTERS = CSV_BLOCK_BYTES
"""No line of a JSON lines file may be longer."""


def read_json_lines(
    path: Path, texts: Collection[str], numbers: Collection[str]
) -> Iterator[pa.RecordBatch]:
    """Read these columns a batch at a time; null, or no such name, is a value that is not known."""
    rows: list[dict[str, Any]] = []
    for number, line in enumerate(_lines(path), start=1):
        if line.strip():
            rows.append(_row(f"{path}, line {number}", line, texts, numbers))
        if len(rows) == ROWS_PER_BATCH:
            yield _batch(rows, texts, numbers)
            rows = []
    if rows:
        yield _batch(rows, texts, numbers)


def _lines(path: Path) -> Iterator[str]:
    with path.open(encoding="utf-8") as file:
        while line := file.readline(MAX_LINE_CHARACTERS + 1):
            if len(line) > MAX_LINE_CHARACTERS:
                raise ValueError(f"{path} has a line of more than {MAX_LINE_CHARACTERS:,} letters")
            yield line


def _row(place: str, line: str, texts: Collection[str], numbers: Collection[str]) -> dict[str, Any]:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{place}: not JSON: {error}") from None
    if not isinstance(row, dict):
        raise ValueError(f'{place}: must be an object such as {{"key": …}}, got {line!r:.80}')
    found: dict[str, Any] = {}
    for name in row.keys() & set(texts):
        value = row[name]
        is_text = value is None or (isinstance(value, str | int) and not isinstance(value, bool))
        if not is_text:
            raise ValueError(f"{place}: {name!r} must be text or an integer, got {value!r:.80}")
        found[name] = None if value is None else str(value)
    for name in row.keys() & set(numbers):
        value = row[name]
        if not (value is None or isinstance(value, int | float)):
            raise ValueError(f"{place}: {name!r} must be a number, got {value!r:.80}")
        try:
            found[name] = None if value is None else float(value)
        except OverflowError:
            raise ValueError(f"{place}: {name!r} is too large: {value!r:.80}") from None
    return found


def _batch(
    rows: list[dict[str, Any]], texts: Collection[str], numbers: Collection[str]
) -> pa.RecordBatch:
    kinds = {name: pa.string() for name in texts} | {name: pa.float64() for name in numbers}
    present = [name for name in kinds if any(name in row for row in rows)]
    columns = {name: pa.array([row.get(name) for row in rows], kinds[name]) for name in present}
    return pa.RecordBatch.from_pydict(columns)
