"""The types that public functions take and return, by the words of the library."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats: TypeAlias = NDArray[np.float64]
"""An array of real numbers."""
Integers: TypeAlias = NDArray[np.int64]
"""An array of integers: indices, counts, ids."""
Booleans: TypeAlias = NDArray[np.bool_]
"""An array of truth values."""


@runtime_checkable
class Table(Protocol):
    """Anything with rows and a shape: a data frame, a sparse matrix."""

    @property
    def shape(self) -> tuple[int, ...]:
        """The number of rows, then of columns."""
        ...


Contexts: TypeAlias = "ArrayLike | Table | int"
"""One row per context, or the number of actions where there are no contexts."""
Actions: TypeAlias = ArrayLike
"""One action per row."""
Losses: TypeAlias = "ArrayLike | Mapping[str, ArrayLike]"
"""One loss per action, or several losses by name."""
Frame: TypeAlias = Any
"""A pandas, polars or Arrow table, a dictionary of arrays or a structured array."""
