"""Columns that stand in the names of folders, as in `day=2026-01-01/part.parquet`.

They may be used in conditions on rows. A column of the file with the same name comes first.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import PurePath
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc

MISSING_FOLDER_VALUE = "__HIVE_DEFAULT_PARTITION__"
"""How Hive writes that there is no value."""


def folder_values(path: str) -> dict[str, str | None]:
    """The columns in the names of the folders of a file, as texts."""
    found: dict[str, str | None] = {}
    for part in PurePath(path).parts[:-1]:
        name, separator, value = part.partition("=")
        if separator and name:
            found[unquote(name)] = None if value == MISSING_FOLDER_VALUE else unquote(value)
    return found


def folder_types(paths: Iterable[str]) -> dict[str, pa.DataType]:
    """The type of each such column: integers if all its values are, else strings."""
    types: dict[str, pa.DataType] = {}
    for path in paths:
        for name, value in folder_values(path).items():
            types.setdefault(name, pa.int64())
            if value is not None and not _is_integer(value):
                types[name] = pa.string()
    return types


def with_folders(
    path: str, schema: pa.Schema, types: dict[str, pa.DataType]
) -> tuple[pa.Schema, pc.Expression | None]:
    """The schema of a file with the columns of its folders, and what holds for all its rows."""
    holds: Any = None
    for name, text in folder_values(path).items():
        if name in schema.names:
            continue
        schema = schema.append(pa.field(name, types[name]))
        field = pc.field(name)
        if text is None:
            one = field.is_null()
        else:
            one = field == pa.scalar(int(text) if pa.types.is_int64(types[name]) else text)
        holds = one if holds is None else holds & one
    return schema, holds


def _is_integer(text: str) -> bool:
    """Whether a text is an integer, and no other text stands for the same one: not 007."""
    return text.removeprefix("-").isdecimal() and str(int(text)) == text and len(text) < 19
