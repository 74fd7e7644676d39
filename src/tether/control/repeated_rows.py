"""Rows that are in a log more than once, told apart from rows that are equal by coincidence.

Rows that are drawn independently from any distribution can be equal: few values, many rows. But
then values that occur c times come with values that occur c + 1 times. With N_c the number of
values that occur c times, the inequality of Cauchy and Schwarz gives

    E[N_(c+1)] ≥ c / (c + 1) · E[N_c]² / E[N_(c−1)]

(for a Poisson number of rows), whatever the distribution. A table that was joined to itself, or to
one that overlaps it, has values that occur twice and hardly any that occur three times.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tether._core.types import Booleans, Floats, Integers
from tether._core.user_warnings import warn_user
from tether._core.warning_categories import AssumptionWarning

if TYPE_CHECKING:
    from tether.control.log import Log

MAX_COPIES = 8
"""Up to how many copies of a row are looked for."""
CHANCE = 3.0
"""How many standard errors counts may be off."""
IMPLAUSIBLE = 1e-6
"""How improbable it must be that so few values occur once more."""
MAX_DIFFERENT_SHARE = 0.05
"""How many rows of contexts that come back may differ, relative to the rows that are repeated."""
_FACTOR, _SHIFT = np.uint64(0x9E3779B97F4A7C15), np.uint64(32)


def warn_of_repeated_rows(log: Log) -> None:
    """Warn where rows occur more than once and this is no coincidence."""
    columns = [log.log_safe, log.log_optimized, *log.loss.values(), log.log_mix, log.reward]
    place = _first_equal([column for column in columns if column is not None])
    if place is None:
        return
    repeated, first, row = place
    if log.context is not None and _rows_differ(log.context, repeated):
        return
    count = int(repeated.sum())
    warn_user(
        f"{count:,} of {len(log):,} rows are in the log more than once, with the same losses and "
        f"log-probabilities (the first: row {row} equals row {first}), far more than by chance: "
        "are rows repeated, or do files overlap? A promise takes every row for a new observation: "
        "remove the copies",
        AssumptionWarning,
    )


def implausible_copies(multiplicities: Integers) -> bool:
    """Whether values that occur so often cannot be those of independent rows."""
    from scipy.special import pdtr

    values = np.bincount(np.minimum(multiplicities, MAX_COPIES + 1), minlength=MAX_COPIES + 2)
    for copies in range(2, MAX_COPIES):
        fewer, here, more = values[copies - 1 : copies + 2].tolist()
        at_least = max(here - CHANCE * here**0.5, 0)
        at_most = fewer + CHANCE * (fewer**0.5 + CHANCE)
        if pdtr(more, copies / (copies + 1) * at_least**2 / at_most) < IMPLAUSIBLE:
            return True
    return False


def _first_equal(columns: list[Floats]) -> tuple[Booleans, int, int] | None:
    """Which rows are copies of others, and the first pair; None where it may be coincidence."""
    hashes = _hashes(columns)
    ordered = np.sort(hashes)
    starts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]])
    times = np.diff(np.r_[starts, len(ordered)])
    if not implausible_copies(times):
        return None
    repeated = np.isin(hashes, ordered[starts[times > 1]])
    order = np.argsort(hashes, kind="stable")  # equal rows stay in order
    copies = order[1:][hashes[order[1:]] == hashes[order[:-1]]]
    row = int(copies.min())
    return repeated, int(np.flatnonzero(hashes == hashes[row])[0]), row


def _rows_differ(context: NDArray[Any], repeated: Booleans) -> bool:
    """Whether contexts come back with other actions or losses too, so that they come by design."""
    _, code, counts = np.unique(context, return_inverse=True, return_counts=True)
    returning = counts[code] > 1
    if not returning[repeated].any():
        return True  # equal rows of different contexts
    different = np.count_nonzero(returning & ~repeated)
    return bool(different > MAX_DIFFERENT_SHARE * np.count_nonzero(repeated))


def _hashes(columns: list[Floats]) -> NDArray[np.uint64]:
    """A hash of each row; −0 and 0 are the same."""
    hashes = np.zeros(len(columns[0]), dtype=np.uint64)
    for column in columns:
        hashes ^= (column + 0.0).view(np.uint64)
        hashes *= _FACTOR
        hashes ^= hashes >> _SHIFT
    return hashes
