"""Paths that are read in parts: folders, globs, rows that meet conditions, and too many rows.

A single file that fits is read into memory. A folder, a glob and a file that does not fit are
scanned, with the same answer; so is whatever `--where` selects from.
"""

from __future__ import annotations

import glob
import operator
import re
from collections.abc import Callable, Collection, Mapping
from datetime import datetime, time
from pathlib import Path
from typing import Annotated, Any

import typer

WhereOption = Annotated[
    list[str] | None,
    typer.Option(
        help="Only rows with e.g. 'split = test' or 'day < 2026-09-01'; several must all hold. "
        "Parquet files only."
    ),
]
ADDRESS_AS_PATH = re.compile(r"^([a-zA-Z][a-zA-Z0-9+.-]+):/")
"""How the address of files in object storage begins once it is a path."""
CONDITION = re.compile(r"^\s*(?P<name>.+?)\s*(?P<sign><=|>=|==|!=|=|<|>)\s*(?P<value>.*?)\s*$")
"""A column, a comparison and a value."""
COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "=": operator.eq,
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
TRUTH_WORDS = {"true": True, "false": False}


def location(path: Path) -> str:
    """A path as it was written: of an address such as s3://bucket/log, a `Path` keeps one slash."""
    text = str(path)
    return text if path.exists() else ADDRESS_AS_PATH.sub(r"\1://", text)


def is_in_storage(path: Path) -> bool:
    """Whether a path is the address of files in object storage."""
    return "://" in location(path)


def is_in_parts(path: Path | None, where: list[str] | None = None) -> bool:
    """Whether a path names several files, files in object storage, or some of the rows of one."""
    if path is None:
        return False
    if where or path.is_dir() or is_in_storage(path):
        return True
    return not path.exists() and glob.has_magic(str(path))


def column_types(path: Path) -> dict[str, Any]:
    """The types of the columns of the first Parquet file, and of those in names of folders."""
    from tether.scan.data_files import find_files
    from tether.scan.partition_folders import folder_types

    files = find_files(location(path))
    schema = files[0].open().schema_arrow
    folders = folder_types(each.path for each in files)
    return {**folders, **{field.name: field.type for field in schema}}


def row_condition(
    where: list[str] | None,
    measured: Collection[str] = (),
    types: Mapping[str, Any] | None = None,
) -> Any:
    """The conditions as one expression of Arrow; None without any.

    Rows may not be chosen by what is `measured` of them: future ones cannot be. `types` are those
    of the columns, by which values are read: a date of the form 2026-09-01 in a column of dates.
    """
    if not where:
        return None
    import pyarrow.compute as pc

    found = None
    for text in where:
        match = CONDITION.match(text)
        if match is None:
            raise ValueError(
                f"--where must be COLUMN, a comparison (= != < <= > >=) and a value, got {text!r}"
            )
        if match["name"] in measured:
            raise ValueError(
                f"--where chooses rows by {match['name']!r}, which the result is computed from: "
                "nothing that is promised for such rows holds for future ones"
            )
        compare = COMPARISONS[match["sign"]]
        value: Any = _value(match["value"])
        if types is not None:
            if match["name"] not in types:
                raise ValueError(
                    f"--where {text!r}: there is no column {match['name']!r}; there are "
                    f"{list(types)}"
                )
            value = value_of_type(text, match["value"], types[match["name"]])
        condition = compare(pc.field(match["name"]), value)
        found = condition if found is None else found & condition
    return found


def value_of_type(condition: str, text: str, kind: Any) -> Any:
    """The value of a condition, as the column holds it."""
    import pyarrow as pa

    value, plain = _value(text), text.strip("'\"")
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return plain
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        try:
            return _moment(plain, kind)
        except ValueError as error:
            raise ValueError(
                f"--where {condition!r}: the column holds {kind}, so the value must be a date or "
                f"a time such as 2026-09-01 or 2026-09-01T12:00, got {text!r}"
            ) from error
    is_number = pa.types.is_integer(kind) or pa.types.is_floating(kind)
    if isinstance(value, str) and (is_number or pa.types.is_boolean(kind)):
        raise ValueError(f"--where {condition!r}: the column holds {kind}, got {text!r}")
    return value


def _moment(text: str, kind: Any) -> Any:
    """A date or a time of ISO 8601; without a time zone it is in that of the column."""
    import pyarrow as pa

    moment = datetime.fromisoformat(text)
    if pa.types.is_date(kind):
        if moment.time() != time() or moment.tzinfo is not None:
            raise ValueError("a date has no time")
        return pa.scalar(moment.date(), pa.date32()).cast(kind)
    if (kind.tz is None) != (moment.tzinfo is None):
        if kind.tz is None:
            raise ValueError("the column has no time zone")
        moment = moment.replace(tzinfo=pa.lib.string_to_tzinfo(kind.tz))
    return pa.scalar(moment, pa.timestamp("us", kind.tz)).cast(kind)


def _value(text: str) -> bool | int | float | str:
    """A truth value, a number, or text, which may stand in quotes."""
    if len(text) >= 2 and text[0] == text[-1] and text[0] in "'\"":
        return text[1:-1]
    if text.lower() in TRUTH_WORDS:
        return TRUTH_WORDS[text.lower()]
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def require_parquet(*paths: Path | None) -> None:
    """Raise for a single file that is no Parquet file: only those are read in parts."""
    for path in paths:
        if path is not None and path.is_file() and path.suffix in (".csv", ".gz"):
            raise ValueError(
                f"{path} is no Parquet file: a folder, a glob, --where and files that do not fit "
                "into memory need Parquet files"
            )
