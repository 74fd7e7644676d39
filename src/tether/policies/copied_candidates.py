"""Candidates that are copies of one answer, although they should be independent draws."""

from __future__ import annotations

import numpy as np

from tether._core.types import Booleans, Integers
from tether.control.refuted_log import refute
from tether.policies.shortlist_rows import ShortlistRows

MOST_ROWS = 0.5
"""In what share of rows copies beside another logged action are refused."""
ALMOST_ALL_ROWS = 0.9
"""In what share of rows equal candidates are worth a warning, though a policy may draw so."""
MIN_ROWS_OF_COPIES = 20
"""Fewer rows in which one candidate differs from all others are not judged."""
NO_COINCIDENCE = 1e-9
"""How improbable it must be that the logged action is the one that differs so often."""
REASONS = "the server ignores n, caches its answers, or uses one seed for all of them"


def copied_warning(rows: ShortlistRows, index: Integers) -> str | None:
    """Say if candidates are the same in almost every row; refuse copies beside logged actions.

    Independent draws are exchangeable: if one of N candidates differs from all others, it is the
    logged one in one of N rows. Where it almost always is, the others are copies of one draw.

    Parameters
    ----------
    rows : ShortlistRows
        The contexts with their candidates.
    index : ndarray of int
        The position of the logged action in each row.

    Returns
    -------
    str or None
        What is said; None where candidates differ.

    Raises
    ------
    ValueError
        If most rows have copies of one answer beside another logged action.
    """
    from scipy.special import bdtrc

    size, equal = rows.size, _equal_to(rows, (index + 1) % rows.size)
    if equal is None or size < 3:
        return None
    alike = equal.sum(axis=1)  # to the candidate after the logged one, itself included
    logged = equal[np.arange(len(rows)), index]
    others_alike = alike - logged == size - 1
    share = float(others_alike.mean())
    odd_one_logged = int((others_alike & ~logged).sum())
    # Where another one differs: it is alike to none, or all but one are alike to it.
    odd_one_other = int((((alike == size - 1) & logged) | _alone(rows, equal, index)).sum())
    odd_ones = odd_one_logged + odd_one_other
    improbable = bdtrc(odd_one_logged - 1, odd_ones, 1 / size) if odd_one_logged else 1.0
    if share > MOST_ROWS and odd_ones >= MIN_ROWS_OF_COPIES and improbable < NO_COINCIDENCE:
        raise ValueError(
            f"in {share:.0%} of the rows the {size - 1} fresh candidates are the same, and the "
            f"logged action is another one: they are no independent draws of what drew that, and a "
            f"calibration on them does not hold. Most likely {REASONS} (then ask for one answer at "
            f"a time: max_n=1 of a ChatPolicy, without a cache and a seed), or it is asked at "
            f"temperature 0 now"
        )
    if float((alike == size).mean()) > ALMOST_ALL_ROWS:
        return refute(
            f"all {size} candidates are the same in {(alike == size).mean():.0%} of the rows, so "
            f"there is hardly anything to pick from: the safe policy almost always does the same "
            f"(temperature 0?), or {REASONS}. The log does not tell which"
        )
    return None


def _equal_to(rows: ShortlistRows, place: Integers) -> Booleans | None:
    """Which candidates equal the one at a place of their row; None where that cannot be told."""
    candidates = rows.candidates
    if candidates.dtype.kind == "O" and not all(isinstance(each, str) for each in candidates.flat):
        return None
    flat = candidates.reshape(len(rows), rows.size, -1)
    same = flat == flat[np.arange(len(rows)), place][:, None]
    return np.asarray(np.asarray(same, dtype=np.bool_).all(axis=2))


def _alone(rows: ShortlistRows, equal: Booleans, index: Integers) -> Booleans:
    """Whether the candidate after the logged one differs from all others, which are alike."""
    to_logged = _equal_to(rows, index)
    assert to_logged is not None
    return np.asarray((equal.sum(axis=1) == 1) & (to_logged.sum(axis=1) == rows.size - 1))
