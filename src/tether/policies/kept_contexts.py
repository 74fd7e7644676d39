"""Contexts of every kind as plain values, exactly as they were when they are read again.

Probes keep a few of them in a calibration, and a saved decision all of its rows. Numbers, times and
text stay arrays, which JSON holds as lists; other values are taken apart.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

MAX_PROBED_VALUES = 1 << 16
"""How many numbers and texts the contexts of probes may have in all."""


def encode_contexts(contexts: Any, most: float = MAX_PROBED_VALUES) -> dict[str, Any]:
    """Contexts as plain values; a TypeError where they have another form or a part is too large."""
    kind = type(contexts).__name__
    if hasattr(contexts, "candidates"):  # a shortlist: a context is known with its candidates
        own, data = contexts.contexts, encode_array(contexts.candidates, most)
        own = own if isinstance(own, int) else encode_contexts(own, most)
        return {"kind": "candidates", "contexts": own, "data": data}
    if hasattr(contexts, "iloc"):
        frame = contexts.to_frame() if len(contexts.shape) == 1 else contexts
        columns = [_encode_column(frame.iloc[:, k], most) for k in range(frame.shape[1])]
        return {"kind": kind, "names": _names(frame.columns), "data": columns}
    if hasattr(contexts, "get_columns"):
        columns = [encode_array(each.to_numpy(), most) for each in contexts.get_columns()]
        return {"kind": "polars", "names": _names(contexts.columns), "data": columns}
    if hasattr(contexts, "tocsr"):
        table = contexts.tocsr()
        parts = [encode_array(each, most) for each in (table.data, table.indices, table.indptr)]
        return {"kind": type(table).__name__, "shape": list(table.shape), "data": parts}
    if isinstance(contexts, np.ndarray):
        return {"kind": "array", "data": encode_array(contexts, most)}
    raise TypeError(f"contexts of type {kind} cannot be kept")


def decode_contexts(held: dict[str, Any]) -> Any:
    """Undo `encode_contexts`."""
    kind, data = held["kind"], held["data"]
    if kind == "candidates":
        from tether.policies.picker import ShortlistRows

        own = held["contexts"]
        own = own if isinstance(own, int) else decode_contexts(own)
        return ShortlistRows(own, decode_array(data))
    if kind == "array":
        return decode_array(data)
    if kind in ("Series", "DataFrame"):
        import pandas as pd

        frame = pd.concat([_decode_column(each) for each in data], axis=1)
        frame.columns = pd.Index(held["names"])
        return frame if kind == "DataFrame" else frame.iloc[:, 0]
    if kind == "polars":
        import polars as pl

        return pl.DataFrame(dict(zip(held["names"], map(decode_array, data), strict=True)))
    import scipy.sparse

    return getattr(scipy.sparse, kind)(tuple(map(decode_array, data)), shape=tuple(held["shape"]))


def encode_array(array: Any, most: float = MAX_PROBED_VALUES) -> dict[str, Any]:
    """An array of numbers, times, texts or plain values, with its type and shape."""
    array = np.asarray(array)
    if array.size > most:
        raise TypeError(f"contexts with {array.size:,} values in a few rows are too large to keep")
    if array.dtype.kind not in "biufUOmM":
        raise TypeError(f"values of dtype {array.dtype} cannot be kept")
    values: Any = array.ravel()
    if array.dtype.kind == "O":
        values = [_encode_value(each) for each in values.tolist()]
    elif array.dtype.kind in "mM":
        values = values.astype(np.int64)
    return {"dtype": array.dtype.str, "shape": list(array.shape), "values": values}


def decode_array(held: dict[str, Any]) -> NDArray[Any]:
    """Undo `encode_array`, also where JSON has made lists of arrays and texts of infinities."""
    dtype, values = np.dtype(held["dtype"]), held["values"]
    if dtype.kind == "O":
        array = np.empty(len(values), dtype=object)
        array[:] = [_decode_value(each) for each in values]
    else:
        array = np.array(values, dtype=np.int64 if dtype.kind in "mM" else dtype).astype(dtype)
    return array.reshape(held["shape"])


def _encode_value(value: Any) -> Any:
    """A plain value; floats that JSON lacks become a mapping, and pandas' missing value None."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not np.isfinite(value):
        return {"float": str(value)}
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if type(value).__name__ == "NAType":
        return None
    if isinstance(value, list):
        return [_encode_value(each) for each in value]
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        return {"dict": {key: _encode_value(each) for key, each in value.items()}}
    raise TypeError(f"values of type {type(value).__name__} cannot be kept")


def _decode_value(value: Any) -> Any:
    if isinstance(value, list):
        return [_decode_value(each) for each in value]
    if isinstance(value, dict):
        if "float" in value:
            return float(value["float"])
        return {key: _decode_value(each) for key, each in value["dict"].items()}
    return value


def _encode_column(column: Any, most: float) -> dict[str, Any]:
    """A pandas column with its type, and the categories of one that has them."""
    held: dict[str, Any] = {"pandas": str(column.dtype)}
    if hasattr(column, "cat"):
        held["categories"] = encode_array(column.cat.categories.to_numpy(), most)
        held["ordered"] = bool(column.cat.ordered)
    return held | encode_array(column.to_numpy(), most)


def _decode_column(held: dict[str, Any]) -> Any:
    import pandas as pd

    values = pd.Series(decode_array(held))
    if "categories" not in held:
        return values.astype(held["pandas"])
    return values.astype(pd.CategoricalDtype(decode_array(held["categories"]), held["ordered"]))


def _names(columns: Any) -> list[Any]:
    if not all(isinstance(each, (str, int)) for each in columns):
        raise TypeError("contexts whose columns are not named by texts or numbers cannot be kept")
    return list(columns)
