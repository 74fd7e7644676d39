"""Whether rows that are served have the pick probabilities of the log that was calibrated on.

A saved calibration has neither contexts nor candidates, which may be private. It has quantiles of
one number per row: the probability of the likeliest candidate, as the score picks. The rows of the
log and those that are served are drawn alike, so their distributions are the same; that of a score
on another scale is far away, and a few rows tell.
"""

from __future__ import annotations

from contextlib import suppress

import numpy as np

from tether._core.types import Floats, Integers
from tether._core.user_warnings import warn_user
from tether._core.warning_categories import AssumptionWarning
from tether.control.calibration import Calibration
from tether.policies.picker import Picker
from tether.policies.served_picks import SAME_PICK_TOLERANCE
from tether.policies.shortlist_rows import ShortlistRows

FIRST_LOOK, LAST_LOOK = 16, 512
"""After how many served rows they are compared first, and last; in between after each doubling."""
DELTA = 1e-6
"""With which probability, at most, rows that are drawn alike are reported in one look."""
CLEARLY_APART = 0.3
"""From which difference of distribution functions on rows are refused; below, it is a warning."""


class PickWatch:
    """Looks at the first rows that are served under a calibration of a shortlist.

    Parameters
    ----------
    found : Calibration
        The calibration that is served.

    Examples
    --------
    >>> import tether
    >>> found = tether.calibrate(tether.Log([0.0] * 50, [0.0] * 50, [0.0] * 50), alpha=0.1)
    >>> PickWatch(found).watches
    False
    """

    def __init__(self, found: Calibration) -> None:
        self._quantiles = found.pick_quantiles if found.exists else None
        self._rows, self._next = found.rows, FIRST_LOOK
        self._seen: Floats = np.empty(0)
        self._problem: str | None = None

    @property
    def watches(self) -> bool:
        """Whether there is something to compare with, and rows are still looked at."""
        return self._quantiles is not None and (
            self._problem is not None or len(self._seen) < LAST_LOOK
        )

    def look(self, picker: Picker, rows: ShortlistRows) -> None:
        """Note rows before they are served, and refuse them where they contradict the log.

        Parameters
        ----------
        picker : Picker
            What picks.
        rows : ShortlistRows
            The contexts with their candidates.

        Raises
        ------
        ValueError
            If candidates are picked clearly otherwise than in the log.

        Warns
        -----
        AssumptionWarning
            Once, if they are picked somewhat otherwise, more than by chance.
        """
        if self._problem is not None:
            raise ValueError(self._problem)
        missing = LAST_LOOK - len(self._seen)
        if self._quantiles is None or missing <= 0 or not len(rows):
            return
        likeliest = np.exp(picker.log_prob_all(rows)).max(axis=1)  # all: they are scored once
        self._seen = np.concatenate([self._seen, likeliest[looked_at(rows, missing)]])
        if len(self._seen) < self._next:
            return
        self._next = min(2 * len(self._seen), LAST_LOOK)
        apart, text = furthest_apart(np.array(self._quantiles), self._seen)
        if apart <= by_chance(self._rows, len(self._seen)):
            return
        message = (
            f"candidates are picked otherwise than in the log that was calibrated on: the "
            f"likeliest of {picker.size} candidates {text}. Another score, the same on another "
            f"scale, and candidates of another model or for other contexts are another policy than "
            f"the calibrated one, to be calibrated on a log of its own"
        )
        if apart > CLEARLY_APART:
            self._problem = message
            raise ValueError(message)
        if len(self._seen) >= LAST_LOOK:
            warn_user(message, AssumptionWarning)


def looked_at(rows: ShortlistRows, most: int) -> Integers:
    """Which rows of a call are looked at: evenly spaced ones, for contexts may be sorted.

    Several rows in turn with one context, of which several actions are asked for, count as one.

    Parameters
    ----------
    rows : ShortlistRows
        The contexts with their candidates.
    most : int
        How many at most.

    Returns
    -------
    ndarray of int
        Their positions.
    """
    first = np.arange(len(rows))
    if not isinstance(rows.contexts, int):
        values = np.asarray(rows.contexts).reshape(len(rows), -1)
        with suppress(TypeError, ValueError):  # objects that cannot be compared
            differs = np.asarray(values[1:] != values[:-1], dtype=np.bool_)
            first = np.flatnonzero(np.append(True, differs.any(axis=1)))
    if len(first) <= most:
        return first
    return np.asarray(first[np.linspace(0, len(first) - 1, most).astype(np.int64)])


def by_chance(rows: int, served: int) -> float:
    """How far two samples of one distribution are apart at most, up to chance.

    By the inequality of Dvoretzky, Kiefer and Wolfowitz, for each of the two.
    """
    return float(np.sqrt(np.log(4 / DELTA) / 2) * (rows**-0.5 + served**-0.5))


def furthest_apart(quantiles: Floats, served: Floats) -> tuple[float, str]:
    """How far the distribution functions of the log and of served rows are apart, and where.

    Of the log only quantiles are known, and values may have been rounded: this is the smallest
    distance that any log with these quantiles has.

    Parameters
    ----------
    quantiles : ndarray
        Quantiles of the log at equal steps from 0 to 1, each of them a value of the log.
    served : ndarray
        Values of served rows.

    Returns
    -------
    apart : float
        The largest difference of the distribution functions.
    text : str
        Where it is, in words.
    """
    served, steps = np.sort(served), len(quantiles) - 1

    def share_served(values: Floats) -> Floats:
        return np.asarray(np.searchsorted(served, values, side="right") / len(served))

    reached = np.searchsorted(quantiles, served + SAME_PICK_TOLERANCE, side="right")
    below = share_served(served) - np.minimum(reached, steps) / steps
    at_least = np.searchsorted(quantiles, quantiles, side="right") - 1
    above = at_least / steps - share_served(quantiles + SAME_PICK_TOLERANCE)
    at = served[np.argmax(below)] if below.max() > above.max() else quantiles[np.argmax(above)]
    logged = (np.searchsorted(quantiles, at, side="right") - 1) / steps
    now = float(share_served(np.array([at + SAME_PICK_TOLERANCE]))[0])
    text = (
        f"has a probability of at most {at:.3g} in {max(logged, 0):.0%} of the rows of the log, "
        f"and in {now:.0%} of the first {len(served)} rows that are served"
    )
    return float(max(below.max(), above.max())), text
