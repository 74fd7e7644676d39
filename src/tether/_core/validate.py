"""Checks of arguments: each error names the argument, shows the value and says what is accepted."""

from __future__ import annotations

from collections.abc import Mapping, Sized
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tether._core.arrays import (
    Booleans,
    Floats,
    few,
    plain_array,
    plain_column,
    reject_missing,
    shown,
)

MISSING_LOSS = (
    "count a missing loss as the largest possible one, or leave its row out only if it is missing "
    "at random"
)
"""What to do about a loss that is missing."""
MEANT = {
    "loss": "harm and 0 for the one that does not",
    "reward": "success and 0 for others",
    "label": "true or positive and 0 for the other",
}
TABLE_SUM_TOLERANCE = 1e-3
"""How far the probabilities of a finite action set may be from summing to one."""


def floats(
    name: str, values: Any, *, ndim: int = 1, meaning: str = "number", finite: bool = False
) -> Floats:
    """Real numbers as a read-only float64 array; integers and booleans are converted."""
    try:
        array = plain_array(values)
    except ValueError as error:
        raise ValueError(f"{name} is not a table of numbers: {error}") from error
    if array.dtype.kind not in "fiub":
        held = array.ravel().tolist()
        words = list(dict.fromkeys(each for each in held if isinstance(each, str)))
        if words and meaning in MEANT:
            raise TypeError(
                f"{name} must hold real numbers, got {few(np.array(words, dtype=object))}: a "
                f"{meaning} is a number; write 1 for the word that means {MEANT[meaning]}, and "
                f"keep missing values missing"
            )
        reject_missing(name, array, *([MISSING_LOSS] if meaning == "loss" else []))
        raise TypeError(f"{name} must hold real numbers, got {shown(array)}")
    if array.ndim != ndim:
        got = f"the single value {array.item()!r}" if array.ndim == 0 else f"shape {array.shape}"
        hint = ": pass the column itself" if ndim == 1 and array.shape[1:] == (1,) else ""
        raise ValueError(f"{name} must have {ndim} dimension(s), got {got}{hint}")
    if array.size == 0:
        raise ValueError(f"{name} is empty (shape {array.shape}); at least one row is needed")
    if finite and not np.isfinite(array).all():
        reject(name, array, ~np.isfinite(array), f"a finite {meaning}")
    return frozen(array.astype(np.float64, copy=False))


def log_probabilities(name: str, values: Any, *, ndim: int = 1, zero: bool = False) -> Floats:
    """Log-probabilities or log-densities: no NaN, no +inf, and −inf only if `zero` is true."""
    array = floats(name, values, ndim=ndim)
    if not array.max() < np.inf:  # NaN fails this too
        reject(name, array, ~(array < np.inf), "a number below +inf")
    if not zero and array.min() == -np.inf:
        accepted = "a finite log-probability, as the log states that the policy took this action"
        reject(name, array, np.isneginf(array), accepted)
    return array


def losses(name: str, values: Any) -> Floats:
    """Losses: finite and at least zero."""
    array = floats(name, values, meaning="loss")
    bad = ~((array >= 0) & (array < np.inf))
    if bad.any():
        reject(name, array, bad, f"a finite loss of at least 0; {MISSING_LOSS}")
    return array


def reject_above_bound(name: str, array: Floats, bound: float, advice: str = "") -> None:
    """Refuse losses above the bound, and ask whether they are percentages where they may be."""
    largest = array.max()
    if not largest > bound:
        return
    if bound <= 1 and 2 < largest <= 100 * bound:  # up to 2 it may be a code of an outcome
        advice = f"; if {largest:g} is a percentage, divide by 100{advice}"
    reject(name, array, array > bound, f"a loss of at most bound = {bound:g}{advice}")


def labels(name: str, values: Any, length: int) -> NDArray[Any]:
    """One label per row (a context, a group): integers, booleans or strings."""
    array = plain_column(name, values)
    if array.dtype.kind not in "iubUS" or array.ndim != 1:
        raise TypeError(f"{name} must hold one integer or string per row, got {shown(array)}")
    same_length(name, array, "the other columns", length)
    return frozen(array)


def same_length(name: str, array: Sized, other: str, length: int) -> None:
    """Refuse a column whose length differs from that of another column of the same table."""
    if len(array) != length:
        verb = "have" if other.endswith(" columns") else "has"
        raise ValueError(f"{name} has {len(array)} rows but {other} {verb} {length}")


def real(name: str, value: Any) -> float:
    """One real number, which may be infinite or NaN."""
    if isinstance(value, bool) or not isinstance(value, (int, float, np.integer, np.floating)):
        raise TypeError(f"{name} must be a number, got {value!r}")
    return float(value)


def number(
    name: str, value: Any, *, above: float, below: float, including: tuple[float, ...] = ()
) -> float:
    """One real number strictly between `above` and `below`, or one of the limits `including`."""
    checked = real(name, value)
    if not (above < checked < below or checked in including):
        lower = "at least" if above in including else "above"
        upper = "at most" if below in including else "below"
        percent = f" ({checked:g} % is {checked / 100:g})" if below == 1 < checked <= 100 else ""
        raise ValueError(
            f"{name} must be {lower} {above:g} and {upper} {below:g}, got {value!r}{percent}"
        )
    return checked


def one_target(alpha: Any, promise: Any) -> tuple[str, Any]:
    """Which of the two a call names, what is tolerated or what may be promised, and its value."""
    if (alpha is None) == (promise is None):
        raise TypeError(f"pass exactly one of alpha and promise, got {alpha!r} and {promise!r}")
    return ("alpha", alpha) if promise is None else ("promise", promise)


def integer(name: str, value: Any, minimum: int = 1) -> int:
    """One integer of at least `minimum`; a float without a fraction is accepted."""
    integral = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    if isinstance(value, (float, np.floating)):
        integral = float(value).is_integer()
    if not integral or value < minimum:
        raise ValueError(f"{name} must be an integer of at least {minimum}, got {value!r}")
    return int(value)


def generator(name: str, value: Any) -> np.random.Generator:
    """A numpy generator: seeds and the global state are not accepted."""
    if not isinstance(value, np.random.Generator):
        raise TypeError(
            f"{name} must be a numpy.random.Generator, such as numpy.random.default_rng(0), got "
            f"{value!r}"
        )
    return value


def choice(name: str, value: Any, accepted: Mapping[str, Any] | tuple[str, ...]) -> str:
    """One of a few strings."""
    if not isinstance(value, str) or value not in accepted:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, accepted))}, got {value!r}")
    return str(value)


def frozen(array: NDArray[Any]) -> NDArray[Any]:
    """A read-only view of an array, without a copy."""
    view = array.view()
    view.flags.writeable = False
    return view


def reject(name: str, array: NDArray[Any], bad: Booleans, accepted: str) -> None:
    """Raise an error that shows the first bad value of an array and its position."""
    index = tuple(int(position) for position in np.argwhere(bad)[0])
    shown = index[0] if len(index) == 1 else index
    raise ValueError(
        f"{name}[{shown}] is {array[index]}: expected {accepted} "
        f"({int(bad.sum())} such value(s) in {array.size})"
    )
