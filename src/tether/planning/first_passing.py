"""The fewest rows that pass, where more rows pass as well."""

from __future__ import annotations

from collections.abc import Callable

LARGEST_PLAN = 1e15
"""A plan with more rows than this is refused."""
ROWS_ACCURACY = 500
"""Rows that are not counted exactly are located to one part in this."""


class TooManyRowsError(ValueError):
    """More rows would be needed than a plan can be made for."""


def first_passing(passes: Callable[[int], bool], start: int) -> int:
    """The fewest rows that pass, to three digits, where from a start on more rows pass as well."""
    rows, low = start, 0
    while not passes(rows):
        low, rows = rows, 2 * rows
        if rows > LARGEST_PLAN:
            raise TooManyRowsError
    return _between(passes, low, rows, ROWS_ACCURACY)


def first_between(passes: Callable[[int], bool], low: int, high: int) -> int:
    """The fewest rows above `low` that pass, exactly; from them on all up to `high` do.

    >>> first_between(lambda rows: rows * rows >= 50, 0, 100)
    8
    """
    return _between(passes, low, high, None)


def _between(passes: Callable[[int], bool], low: int, high: int, accuracy: int | None) -> int:
    while high - low > (1 if accuracy is None else max(1, low // accuracy)):
        middle = (low + high) // 2
        if passes(middle):
            high = middle
        else:
            low = middle
    return high
