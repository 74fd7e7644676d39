"""Probes: a few contexts and actions with both log-probabilities, by which policies are recognized.

A beta says nothing of the policies that it was calibrated for. So a log, and the calibration made
of it, keep fingerprints of both policies, the list of actions, and probes in a form that JSON can
hold. Whatever serves the calibration scores the probes again and compares.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tether._core.arrays import Floats, Integers
from tether._core.contexts import length, take

MAX_VALUES = 1 << 16
"""How many numbers and texts the contexts of probes may have in all."""
MAX_LISTED_ACTIONS = 1000
"""Of longer lists of actions only a digest is kept."""


@dataclass(frozen=True, eq=False)
class Probes:
    """What is kept of the policies of a log.

    Parameters
    ----------
    fingerprints : dict of str to str
        A digest of each policy; None where a policy contains code and has none.
    actions : Any, optional
        All actions in the order of the tables, or a digest of a long list; None where there are
        infinitely many.
    contexts : Any, optional
        The contexts of the probes, encoded; None where there are no contexts, or no probes.
    probed : Any, optional
        The action of each probe, encoded; None where there are no probes.
    place : ndarray of int
        The row of `contexts` that each probe is in.
    log_safe, log_optimized : ndarray of float, optional
        The log-probability of each probe; None where a policy was not known.
    missing : str, optional
        Why there are no probes; None where there are.
    """

    fingerprints: dict[str, str | None]
    actions: Any = None
    contexts: Any = None
    probed: Any = None
    place: Integers = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    log_safe: Floats | None = None
    log_optimized: Floats | None = None
    missing: str | None = None

    @classmethod
    def of(
        cls,
        fingerprints: dict[str, str | None],
        contexts: Any,
        place: Integers,
        actions: NDArray[Any],
        log_safe: Floats | None,
        log_optimized: Floats | None,
        known: NDArray[Any] | None = None,
    ) -> Probes:
        """Encode probes; `contexts` is an int where there are none, `known` lists all actions."""
        listed = None if known is None else encode_actions(known)
        try:
            held = None if isinstance(contexts, int) else encode_contexts(contexts)
            probed = encode_array(actions)
        except TypeError as error:
            return cls(fingerprints, listed, missing=str(error))
        return cls(fingerprints, listed, held, probed, place, log_safe, log_optimized)

    def __len__(self) -> int:
        return len(self.place)

    def __repr__(self) -> str:
        return f"Probes({len(self)} probes)"


def encode_actions(actions: NDArray[Any]) -> Any:
    """A list of actions as JSON values, or a digest of a long one; the width does not matter."""
    listed = np.asarray(actions).tolist()
    if len(listed) <= MAX_LISTED_ACTIONS:
        return listed
    return blake2b(json.dumps(listed, default=str).encode(), digest_size=16).hexdigest()


def encode_contexts(contexts: Any) -> dict[str, Any]:
    """Contexts as JSON values; a TypeError where they have another form or are too large."""
    if hasattr(contexts, "candidates"):  # a shortlist: a context is known with its candidates
        own = contexts.contexts
        held = own if isinstance(own, int) else encode_contexts(own)
        return {"kind": "candidates", "contexts": held, "data": encode_array(contexts.candidates)}
    if hasattr(contexts, "iloc"):
        if len(contexts.shape) == 1:
            return {"kind": "series", "name": contexts.name, "data": _encode_column(contexts)}
        columns = [_encode_column(contexts.iloc[:, k]) for k in range(contexts.shape[1])]
        return {"kind": "pandas", "names": _names(contexts.columns), "data": columns}
    if hasattr(contexts, "get_columns"):
        columns = [encode_array(each.to_numpy()) for each in contexts.get_columns()]
        return {"kind": "polars", "names": _names(contexts.columns), "data": columns}
    if hasattr(contexts, "tocsr"):
        table = contexts.tocsr()
        parts = [encode_array(each) for each in (table.data, table.indices, table.indptr)]
        return {"kind": type(table).__name__, "shape": list(table.shape), "data": parts}
    if isinstance(contexts, np.ndarray):
        return {"kind": "array", "data": encode_array(contexts)}
    raise TypeError(f"contexts of type {type(contexts).__name__} cannot be kept")


def decode_contexts(held: dict[str, Any]) -> Any:
    """Undo `encode_contexts`; candidates become a pair of contexts and candidates."""
    kind, data = held["kind"], held["data"]
    if kind == "candidates":
        own = held["contexts"]
        return own if isinstance(own, int) else decode_contexts(own), decode_array(data)
    if kind == "array":
        return decode_array(data)
    if kind in ("series", "pandas"):
        import pandas as pd

        if kind == "series":
            return _decode_column(data).rename(held["name"])
        frame = pd.concat([_decode_column(each) for each in data], axis=1)
        frame.columns = pd.Index(held["names"])
        return frame
    if kind == "polars":
        import polars as pl

        return pl.DataFrame(dict(zip(held["names"], map(decode_array, data), strict=True)))
    import scipy.sparse

    return getattr(scipy.sparse, kind)(tuple(map(decode_array, data)), shape=tuple(held["shape"]))


def encode_array(array: NDArray[Any]) -> dict[str, Any]:
    """An array of numbers, times, texts or plain values as JSON values."""
    array = np.asarray(array)
    if array.size > MAX_VALUES:
        raise TypeError(f"contexts with {array.size:,} values in a few rows are too large to keep")
    if array.dtype.kind not in "biufUOmM":
        raise TypeError(f"values of dtype {array.dtype} cannot be kept")
    values = array.astype(np.int64) if array.dtype.kind in "mM" else array
    listed = [_encode_value(each) for each in values.ravel().tolist()]
    return {"dtype": array.dtype.str, "shape": list(array.shape), "values": listed}


def decode_array(held: dict[str, Any]) -> NDArray[Any]:
    """Undo `encode_array`."""
    dtype, values = np.dtype(held["dtype"]), [_decode_value(each) for each in held["values"]]
    if dtype.kind == "O":
        array = np.empty(len(values), dtype=object)
        array[:] = values
    else:
        array = np.array(values, dtype=np.int64 if dtype.kind in "mM" else dtype).astype(dtype)
    return array.reshape(held["shape"])


def probed_rows(contexts: Any, rows: int) -> Integers:
    """So many rows, evenly spread over the contexts; all of them if there are fewer."""
    count = length(contexts)
    return np.unique(np.linspace(0, count - 1, min(rows, count)).astype(np.int64))


def rows_of(contexts: Any, place: Integers) -> Any:
    """The contexts of probes, one row each."""
    return len(place) if isinstance(contexts, int) else take(contexts, place)


def _encode_value(value: Any) -> Any:
    """A plain value; floats that JSON lacks become a mapping."""
    if isinstance(value, float) and not np.isfinite(value):
        return {"float": str(value)}
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
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


def _encode_column(column: Any) -> dict[str, Any]:
    """A pandas column with its type, and the categories of one that has them."""
    held: dict[str, Any] = {"pandas": str(column.dtype)}
    if hasattr(column, "cat"):
        held |= {"categories": encode_array(column.cat.categories.to_numpy())}
        held |= {"ordered": bool(column.cat.ordered)}
    return held | encode_array(column.to_numpy())


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
