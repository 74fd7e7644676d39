"""The columns of a pandas or polars frame as plain values, and back to the same kind of frame.

The type of a column is its dtype for numbers, "str" for text, and for text with categories
"category:" and its categories as JSON. So a column with categories reads back as it was written,
and later rows must have the same categories.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from tether._core.arrays import plain_array

TEXT, CATEGORY = "str", "category:"


def is_polars(rows: Any) -> bool:
    """Whether rows are a polars frame."""
    return hasattr(rows, "get_columns") and not hasattr(rows, "iloc")


def column_type(name: str, column: Any) -> str:
    """The type of a column, as it is stored; an error if it cannot be."""
    values = plain_array(column.to_numpy())
    categories = _categories(column)
    if categories is not None:
        _check_text(name, column, plain_array(categories["names"]))
        if values.dtype.kind != "U":
            raise TypeError(
                f"{name}[{column.name!r}] must not have missing values to be stored, got "
                f"{int(sum(not isinstance(value, str) for value in values.flat))}"
            )
        return CATEGORY + json.dumps(categories)
    if values.dtype.kind in "biuf":
        return str(values.dtype)
    _check_text(name, column, values)
    return TEXT


def column_values(column: Any) -> list[Any]:
    """The values of a column as Python numbers or text."""
    return list(column.to_numpy().tolist())


def pandas_frame(columns: Mapping[str, str], values: Mapping[str, Any]) -> Any:
    """A pandas frame of columns with these types."""
    import pandas as pd

    frame = pd.DataFrame({name: values[name] for name in columns}, columns=list(columns))
    dtypes: dict[str, Any] = {}
    for name, kind in columns.items():
        if kind.startswith(CATEGORY):
            known = json.loads(kind.removeprefix(CATEGORY))
            dtypes[name] = pd.CategoricalDtype(known["names"], ordered=known["ordered"])
        elif kind != TEXT:
            dtypes[name] = kind
    return frame.astype(dtypes)


def polars_frame(columns: Mapping[str, str], values: Mapping[str, Any]) -> Any:
    """A polars frame of columns with these types."""
    import numpy as np
    import polars as pl

    series = []
    for name, kind in columns.items():
        if kind.startswith(CATEGORY):
            known = json.loads(kind.removeprefix(CATEGORY))
            dtype: Any = pl.Enum(known["names"]) if known["ordered"] else pl.Categorical
            series.append(pl.Series(name, list(values[name]), dtype=dtype))
        elif kind == TEXT:
            series.append(pl.Series(name, list(values[name]), dtype=pl.String))
        else:
            series.append(pl.Series(name, np.asarray(values[name], dtype=kind)))
    return pl.DataFrame(series)


def rows_of(frame: Any, names: Sequence[str]) -> list[list[Any]]:
    """One list of values per row of a frame."""
    return [list(row) for row in zip(*(column_values(frame[name]) for name in names), strict=True)]


def _categories(column: Any) -> dict[str, Any] | None:
    """The categories of a column; those of polars' Categorical are not fixed, and none are kept."""
    dtype = column.dtype
    if hasattr(column, "cat") and hasattr(dtype, "ordered"):  # pandas
        return {"names": list(dtype.categories), "ordered": bool(dtype.ordered)}
    if type(dtype).__name__ == "Enum":
        return {"names": list(dtype.categories), "ordered": True}
    if type(dtype).__name__ == "Categorical":
        return {"names": [], "ordered": False}
    return None


def _check_text(name: str, column: Any, values: Any) -> None:
    if values.size and values.dtype.kind != "U":
        raise TypeError(
            f"{name}[{column.name!r}] must hold numbers or text to be stored, got dtype "
            f"{column.dtype}"
        )
