"""Which rows of the new system decide its share: those of one step, as recent as possible.

The share of step t decides how many rows the new system gets in step t, so over several steps the
number of its rows depends on their losses, and a mean over all of them is not a mean over a fixed
number: bounds in expectation do not cover it. Given everything before a step, however, the *number*
of keys that the new system answers for the first time in that step does not depend on *their*
losses. So the share is computed from the rows of one step, and each of them enters once.

A step with very few rows would send the share back to where it began. So a new window replaces the
one in use if it has at least a quarter as many rows, and otherwise the share stays as it is. **This
keeps E[s] ≤ v = (α − ρ)/(R₁ − ρ) at every step.** Let u be the step of the window in use, with
share s(u), and condition on everything before u, so that E[s(u)] ≤ v. Until the window is replaced,
the share is s(u), and the larger it is, the more rows each later step gets: the probability that
the window is still in use at step t does not rise with s(u). So E[s(u)·1{in use at t}] is at most
E[s(u)]·P(in use at t) ≤ v·P(in use at t), and the sum over u is at most v.

A share stays as it was computed at the end of its step (or a fixed number of steps later). Losses
that come after that could only raise it, because a pending loss counts as the bound; that they do
not is what makes the argument hold for every kind of delay.
"""

from __future__ import annotations

from tether._core.validate import integer_at_least

LEAST_PART_OF_WINDOW = 0.25
"""A new window has at least this share of the rows of the one it replaces."""


def replaces_window(rows: int, latest: int) -> bool:
    """Decide whether the rows of the latest step become the calibration window.

    Parameters
    ----------
    rows : int
        The number of the new system's rows in the window in use; 0 at the start.
    latest : int
        The number of keys that the new system answered for the first time in the latest step.

    Returns
    -------
    bool
        True if the share is computed from the latest step, False if it stays as it is.

    Examples
    --------
    >>> replaces_window(0, 10), replaces_window(100, 30), replaces_window(100, 20)
    (True, True, False)
    """
    integer_at_least("rows", rows, 0)
    integer_at_least("latest", latest, 0)
    return latest >= LEAST_PART_OF_WINDOW * rows
