"""Paths that are read in parts: folders, globs, rows that meet conditions, and too many rows.

A single file that fits is read into memory. A folder, a glob and a file that does not fit are
scanned, with the same answer; so is whatever `--where` selects from.
"""

from __future__ import annotations

import glob
import operator
import re
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Annotated, Any

import typer

WhereOption = Annotated[
    list[str] | None,
    typer.Option(
        help="Only rows with e.g. 'split = test' or 'day >= 20260101'; several must all hold. "
        "Parquet files only."
    ),
]
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


def is_in_parts(path: Path | None, where: list[str] | None = None) -> bool:
    """Whether a path names several files, or some of the rows of one."""
    if path is None:
        return False
    return bool(where) or path.is_dir() or (not path.exists() and glob.has_magic(str(path)))


def row_condition(where: list[str] | None, measured: Collection[str] = ()) -> Any:
    """The conditions as one expression of Arrow; None without any.

    Rows may not be chosen by what is `measured` of them: future ones cannot be.
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
        condition = compare(pc.field(match["name"]), _value(match["value"]))
        found = condition if found is None else found & condition
    return found


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
