"""A table of results: arrays of equal length by name, printed with one row per line."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tether._core.visible_text import visible

MAX_PRINTED_ROWS = 20
"""A longer table is printed without its middle."""


class Columns(dict[str, NDArray[Any]]):
    """Columns by name: a dictionary of arrays, as every data-frame library accepts it.

    `pandas.DataFrame(columns)`, `polars.DataFrame(columns)` and `pyarrow.table(columns)` make a
    frame of it, and `columns["name"]` is an array. Printing it shows a table.

    Examples
    --------
    >>> Columns(alpha=np.array([0.1, 0.2]), beta=np.array([0.612345, np.inf]))
      alpha    beta
        0.1  0.6123
        0.2     inf
    """

    @property
    def row_count(self) -> int:
        """The number of rows."""
        return len(next(iter(self.values()), ()))

    def cells(self, max_rows: int = MAX_PRINTED_ROWS) -> list[list[str]]:
        """The values as text, row by row, without the middle ones if there are more than these."""
        shown = shown_rows(self.row_count, max_rows)
        columns = [[format_cell(values[row]) for row in shown] for values in self.values()]
        return [list(row) for row in zip(*columns, strict=True)]

    def __repr__(self) -> str:
        rows = [[visible(name) for name in self], *self.cells()]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        numeric = [np.asarray(values).dtype.kind in "iuf" for values in self.values()]
        lines = []
        for row in rows:
            padded = (
                text.rjust(width) if right else text.ljust(width)
                for text, width, right in zip(row, widths, numeric, strict=True)
            )
            lines.append(("  " + "  ".join(padded)).rstrip())
        left_out = self.row_count - (len(rows) - 1)
        if left_out:
            lines.insert(1 + MAX_PRINTED_ROWS // 2, f"  … {left_out:,} more rows …")
        return "\n".join(lines)

    __str__ = __repr__


def shown_rows(count: int, max_rows: int) -> list[int]:
    """The rows that are shown: all, or as many of the first as of the last."""
    if count <= max_rows:
        return list(range(count))
    half = max_rows // 2
    return [*range(half), *range(count - (max_rows - half), count)]


def format_cell(value: Any) -> str:
    """One value as text: four significant digits, and a dash where there is no value."""
    value = value.item() if isinstance(value, np.generic) else value
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:.4g}"
    return visible(str(value))


def cells_or_none(values: NDArray[Any], known: Iterable[bool]) -> NDArray[np.str_]:
    """The values as text, and "none" where there is none to state.

    >>> cells_or_none(np.array([0.25, 1.0]), [True, False]).tolist()
    ['0.25', 'none']
    """
    cells = map(format_cell, values.tolist())
    return np.array(
        [each if is_known else "none" for each, is_known in zip(cells, known, strict=True)]
    )
