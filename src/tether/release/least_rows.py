"""How many rows of the old system are needed before the new one can have any key."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from tether.release.guardrail import Guardrail
from tether.release.old_rows_needed import most_old_losses


def least_old_rows(guardrails: Mapping[str, Guardrail]) -> int:
    """Count the rows of the old system below which the share in expectation is 0.

    With fewer rows not even losses of 0 give a share above 0: the bound on the old system's risk
    is then at least bound/(rows + 1), and a promise pays for more than that. The number depends on
    what is tolerated alone.

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
    >>> least_old_rows({"complaint": Guardrail(promise=0.02)})
    157
    """
    return max(_least_rows(each) for each in guardrails.values())


@lru_cache(maxsize=256)
def _least_rows(guardrail: Guardrail) -> int:
    """The same for one guardrail, by bisection."""
    high = 1
    while most_old_losses(guardrail, high) < 0:
        high *= 2
    low = high // 2  # does not open, or is 0
    while high - low > 1:
        middle = (low + high) // 2
        if most_old_losses(guardrail, middle) >= 0:
            high = middle
        else:
            low = middle
    return high
