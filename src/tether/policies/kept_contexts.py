"""Contexts, actions and candidates as columns of numbers and text, and back, exactly.

Runs store them in their events; calibrations keep a few as probes, and decisions all of theirs. A
`Format`, which JSON can hold, says what else it takes to read the columns.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tether._core.arrays import plain_array
from tether._core.contexts import column_values, length

Format = dict[str, Any]
Columns = dict[str, NDArray[Any]]
NOTHING, NUMBERS, VALUES, FRAME = "nothing", "numbers", "values", "frame"
"""The kinds of formats; values are text, lists, mappings, missing values: what JSON holds exactly.
"""
WIDE = {"f": "<f8", "i": "<i8", "u": "<u8"}
"""Actions are stored with 64 bits: safe and optimized policies may differ in precision."""
MAX_PROBED_VALUES = 1 << 16
"""How many numbers and texts the contexts of probes may have in all."""


def format_of(name: str, rows: Any, *, wide: bool = False) -> Format:
    """The format of contexts, candidates or actions; a TypeError if they cannot be stored."""
    if isinstance(rows, int):
        return {"kind": NOTHING}
    if hasattr(rows, "columns") and len(rows.shape) == 2:
        names = list(rows.columns)
        named = all(isinstance(each, (str, int)) for each in names)
        if not named or len(set(map(str, names))) < len(names):
            raise TypeError(f"{name} must have columns with distinct names, got {names}")
        columns = [[key, _column_format(f"{name}[{key!r}]", rows[key])] for key in names]
        library = "pandas" if hasattr(rows, "iloc") else "polars"
        return {"kind": FRAME, "library": library, "columns": columns}
    array = _as_array(rows)
    shape = list(array.shape[1:])
    if array.dtype.kind in "biufmM":
        dtype = array.dtype.newbyteorder("<").str
        dtype = WIDE.get(array.dtype.kind, dtype) if wide else dtype
        return {"kind": NUMBERS, "dtype": dtype, "shape": shape}
    if array.dtype.kind in "UTO":
        return {"kind": VALUES, "shape": shape}
    raise TypeError(
        f"{name} must be numbers, times, text, lists or a frame of these to be stored, got dtype "
        f"{array.dtype} (first value {next(iter(array.flat), None)!r:.80})"
    )


def _as_array(rows: Any) -> NDArray[Any]:
    """Rows as an array: of numbers or text where all values are of the same type."""
    array = np.asarray(rows)
    alike = array.dtype == object and len(set(map(type, array.flat))) == 1
    return plain_array(array) if alike else array


def _column_format(name: str, column: Any) -> Format:
    """The format of a frame's column, with its categories or pandas' own type for it.

    A type that may have gaps has the same format with and without them.
    """
    if hasattr(column, "iloc") and hasattr(column, "cat"):
        listed = list(column.cat.categories)
        if not all(isinstance(each, (str, int, float)) for each in listed):
            raise TypeError(f"{name} must have texts or numbers as categories, got {listed!r:.80}")
        own = {"categories": listed, "ordered": bool(column.cat.ordered)}
        return {"kind": VALUES, "shape": [], **own}
    never = isinstance(column.dtype, np.dtype) and column.dtype != object
    if never or not hasattr(column, "iloc"):
        return format_of(name, column_values(column))
    return {"kind": VALUES, "shape": [], "pandas": str(column.dtype)}


def encode(name: str, rows: Any, format_: Format) -> Columns:
    """Rows as columns whose names begin with `name`."""
    kind = format_["kind"]
    if kind == NOTHING:
        return {}
    if kind == FRAME:
        columns = Columns()
        for key, held in format_["columns"]:
            columns |= encode(f"{name}/{key}", column_values(rows[key]), held)
        return columns
    array = _as_array(rows)
    if kind == VALUES:
        return {name: _each(array, _to_json)}
    values = array.astype(format_["dtype"])
    return {name: values.view(np.int64) if values.dtype.kind in "mM" else values}


def decode(name: str, columns: Columns, format_: Format, count: int) -> Any:
    """Undo `encode`, also where JSON has made lists of the columns and texts of infinities."""
    kind = format_["kind"]
    if kind == NOTHING:
        return count
    if kind == FRAME:
        held = [
            (key, each, decode(f"{name}/{key}", columns, each, count))
            for key, each in format_["columns"]
        ]
        if format_["library"] == "pandas":
            return _pandas(held)
        import polars as pl

        return pl.DataFrame(
            {key: each.tolist() if each.dtype == object else each for key, _, each in held}
        )
    if kind == NUMBERS:
        dtype = np.dtype(format_["dtype"]).newbyteorder("=")
        return np.array(columns[name], np.int64 if dtype.kind in "mM" else dtype).astype(dtype)
    return _as_array(_each(np.asarray(columns[name]), json.loads))


def _pandas(held: list[tuple[Any, Format, NDArray[Any]]]) -> Any:
    import pandas as pd

    frame = []
    for _, each, values in held:
        dtype: Any = each.get("pandas")
        if "categories" in each:
            dtype = pd.CategoricalDtype(each["categories"], each["ordered"])
        frame.append(pd.Series(values, dtype=dtype))
    table = pd.concat(frame, axis=1)
    table.columns = pd.Index([key for key, _, _ in held])
    return table


def _each(array: NDArray[Any], change: Callable[[Any], Any]) -> NDArray[Any]:
    """An array of objects, one for each value."""
    return np.fromiter(map(change, array.flat), object, array.size).reshape(array.shape)


def _to_json(value: Any) -> str:
    """JSON that reads back unchanged; pandas' missing value becomes None."""
    value = value.item() if isinstance(value, np.generic) else value
    value = None if type(value).__name__ == "NAType" else value
    try:
        text = json.dumps(value)
        if not isinstance(value, str) and repr(json.loads(text)) != repr(value):
            raise TypeError("it would not read back unchanged")
        return text
    except (TypeError, ValueError) as error:
        raise TypeError(
            f"{value!r:.80} in contexts or actions cannot be stored ({error}): use lists, string "
            f"keys and plain numbers"
        ) from None


def keep(rows: Any, most: float = MAX_PROBED_VALUES) -> dict[str, Any]:
    """Rows as one plain value; a TypeError where they are too large or have another form."""
    if hasattr(rows, "candidates"):  # a shortlist: a context is known with its candidates
        return {name: keep(getattr(rows, name), most) for name in ("contexts", "candidates")}
    if hasattr(rows, "tocsr"):
        table = rows.tocsr()
        parts = [keep(each, most) for each in (table.data, table.indices, table.indptr)]
        return {"sparse": type(table).__name__, "shape": list(table.shape), "parts": parts}
    if hasattr(rows, "iloc") and len(rows.shape) == 1:
        return {"series": rows.name, "frame": keep(rows.to_frame(""), most)}
    format_ = format_of("contexts", rows)
    columns = encode("", rows, format_)
    if (size := sum(each.size for each in columns.values())) > most:
        raise TypeError(f"contexts with {size:,} values in a few rows are too large to keep")
    plain = {key: each.tolist() if each.dtype == object else each for key, each in columns.items()}
    return {"format": format_, "rows": length(rows), "columns": plain}


def kept(held: dict[str, Any]) -> Any:
    """Undo `keep`."""
    if "candidates" in held:
        from tether.policies.shortlist import ShortlistRows

        return ShortlistRows(kept(held["contexts"]), kept(held["candidates"]))
    if "sparse" in held:
        import scipy.sparse

        parts = tuple(map(kept, held["parts"]))
        return getattr(scipy.sparse, held["sparse"])(parts, shape=tuple(held["shape"]))
    if "series" in held:
        return kept(held["frame"]).iloc[:, 0].rename(held["series"])
    return decode("", held["columns"], held["format"], held["rows"])
