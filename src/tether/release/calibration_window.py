"""Which rows of the new system decide its share: those of the last step, or of the last few.

The share of step t decides how many rows the new system gets in step t, so over several steps the
number of its rows depends on their losses, and a mean over all of them is not a mean over a fixed
number: bounds in expectation do not cover it. Given everything before a step, however, the *number*
of keys that the new system answers for the first time in that step does not depend on *their*
losses. So the share is computed from the rows of one step, and each of them enters once.

Very few rows would send the share back to where it began. So the rows of the steps since the window
in use, all of them together, replace it once they are at least a quarter as many, and until then
the share stays as it is. None of their losses decided any share of these steps, nor how many steps
they are, so their number does not depend on their losses either.

**This keeps E[s] ≤ v = (α − ρ)/(R₁ − ρ) at every step.** Let s(u) be the share from the window that
ends with step u. Given everything before the window, and the number of its rows, E[s(u)] ≤ v. Until
the window is replaced, the share is s(u), and the larger it is, the more rows each later step gets:
the probability that the window is still in use at step t does not rise with s(u). So
E[s(u)·1{in use at t}] is at most v·P(in use at t), and the sum over u is at most v. It is assumed
that how many keys come depends on losses through the share at most: if failures brought more keys,
windows that look good would stay in use longer than others.

A share stays as it was computed at the end of its window (or a fixed number of steps later). Losses
that come after that could only raise it, because a pending loss counts as the bound. They do not:
where harmless losses are late, a window that would give a high share gives a low one, and is thus
still in use when they arrive. Windows in use would then be those with high shares, and the last
inequality would be false.
"""

from __future__ import annotations

from tether._core.validate import integer_at_least

LEAST_PART_OF_WINDOW = 0.25
"""A new window has at least this share of the rows of the one it replaces."""


def replaces_window(rows: int, latest: int) -> bool:
    """Decide whether the rows since the calibration window become the next one.

    Parameters
    ----------
    rows : int
        The number of the new system's rows in the window in use; 0 at the start.
    latest : int
        The number of keys that the new system answered for the first time in the steps since.

    Returns
    -------
    bool
        True if the share is computed from the steps since, False if it stays as it is.

    Examples
    --------
    >>> replaces_window(0, 10), replaces_window(100, 30), replaces_window(100, 20)
    (True, True, False)
    """
    integer_at_least("rows", rows, 0)
    integer_at_least("latest", latest, 0)
    return latest >= LEAST_PART_OF_WINDOW * rows


def window_name(unit: str, first: int, last: int) -> str:
    """Name the steps of a window, as "step 3" or "steps 3 to 5"."""
    return f"{unit} {last}" if first >= last else f"{unit}s {first} to {last}"
