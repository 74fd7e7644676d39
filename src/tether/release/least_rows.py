"""How many rows of the old system are needed before the new one can have any key."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from tether.release.arm_counts import ArmCounts
from tether.release.guardrail import Guardrail
from tether.release.ramp_calibration import ramp_share


def least_old_rows(guardrails: Mapping[str, Guardrail]) -> int:
    """Count the rows of the old system below which the share in expectation is 0.

    With fewer rows not even losses of 0 give a share above 0: the bound on the old system's risk
    is then at least bound/(rows + 1). The number depends on what is tolerated alone.

    Parameters
    ----------
    guardrails : mapping of str to Guardrail
        The losses with their tolerances.

    Returns
    -------
    int
        The smallest number of rows, with a loss of 0 each, that gives a share above 0.

    Examples
    --------
    >>> least_old_rows({"complaint": Guardrail(0.02)})
    50
    """
    return max(_least_rows(each) for each in guardrails.values())


@lru_cache(maxsize=256)
def _least_rows(guardrail: Guardrail) -> int:
    """The same for one guardrail, by bisection."""
    high = 1
    while not _opens(guardrail, high):
        high *= 2
    low = high // 2  # does not open, or is 0
    while high - low > 1:
        middle = (low + high) // 2
        if _opens(guardrail, middle):
            high = middle
        else:
            low = middle
    return high


def _opens(guardrail: Guardrail, rows: int) -> bool:
    old, new = {"": ArmCounts(rows, 0.0)}, {"": ArmCounts(0, 0.0)}
    return ramp_share({"": guardrail}, old=old, new=new).share > 0
