"""How many rows of the old system it takes until it passes, and how likely it is that it does not.

In expectation the old system passes where its bound ρ = (L + B)/(n + 1) is below alpha. With a
promise p alpha is chosen so that alpha and the existence term are p together. This sum rises with
alpha, so alpha is above ρ where ρ and the existence term at ρ are less than p: about where ρ and
1.53 of its standard errors are.

Both rise with L, so there is a largest sum of losses that passes. Among all losses in [0, B] with a
given mean, 0 and B spread the sum most. With these two the number of losses of B is binomial, and
the probability that the old system does not pass is exact.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from functools import lru_cache

from scipy.special import bdtrc

from tether.release.guardrail import Guardrail
from tether.release.promise_alpha import existence_term

RARELY = 0.05
"""How likely it may be that the old system does not pass, where its rows are said to be enough."""
EXPECTED_PART = 0.5
"""The old system's risk, as a part of what is tolerated, where nothing else is known of it."""
MOST_ROWS_PLANNED = 10_000_000
BISECTIONS = 60


@lru_cache(maxsize=4096)
def most_old_losses(guardrail: Guardrail, rows: int) -> float:
    """Return the largest sum of losses with which the old system passes.

    Parameters
    ----------
    guardrail : Guardrail
        The loss with its tolerance.
    rows : int
        The number of the old system's rows.

    Returns
    -------
    float
        The sum; negative if not even rows without any loss pass.

    Examples
    --------
    >>> guardrail = Guardrail(promise=0.01)
    >>> math.floor(most_old_losses(guardrail, 1_000)), most_old_losses(guardrail, 200) < 0
    (4, True)
    """
    if not _passes(guardrail, rows, 0.0):
        return -1.0
    low, high = 0.0, guardrail.tolerated * (rows + 1)
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        low, high = (middle, high) if _passes(guardrail, rows, middle) else (low, middle)
    return low


def old_fails_probability(guardrail: Guardrail, rows: int, risk: float) -> float:
    """Compute how likely it is that the old system does not pass, with losses of 0 and the bound.

    Parameters
    ----------
    guardrail : Guardrail
        The loss with its tolerance.
    rows : int
        The number of the old system's rows, decided without their losses.
    risk : float
        The old system's risk.

    Returns
    -------
    float
        The probability.

    Examples
    --------
    >>> round(old_fails_probability(Guardrail(promise=0.02), 1_000, risk=0.01), 2)
    0.13
    """
    most = most_old_losses(guardrail, rows)
    if most < 0:
        return 1.0
    failures = math.floor(most / guardrail.bound)
    return float(bdtrc(failures, rows, risk / guardrail.bound)) if failures < rows else 0.0


def enough_old_rows(guardrail: Guardrail, risk: float | None = None) -> int | None:
    """Count the rows with which the old system passes with a probability of at least 0.95.

    Parameters
    ----------
    guardrail : Guardrail
        The loss with its tolerance.
    risk : float, optional
        The old system's risk; half of what is tolerated if it is left out.

    Returns
    -------
    int or None
        The number, rounded up to two digits; None if it is not below ten million.

    Examples
    --------
    >>> enough_old_rows(Guardrail(promise=0.02)), enough_old_rows(Guardrail(0.02))
    (1600, 500)
    """
    if risk is None:
        risk = EXPECTED_PART * guardrail.tolerated
    rounded = list(_two_digits())
    low, high = 0, len(rounded)  # the probability falls with the rows, but for its small teeth
    while low < high:
        middle = (low + high) // 2
        if old_fails_probability(guardrail, rounded[middle], risk) <= RARELY:
            high = middle
        else:
            low = middle + 1
    return rounded[low] if low < len(rounded) else None


def usual_first_rows(guardrails: Mapping[str, Guardrail]) -> int:
    """Count the rows of the old system that a first step should have.

    Parameters
    ----------
    guardrails : mapping of str to Guardrail
        The losses with their tolerances.

    Returns
    -------
    int
        With so many, an old system whose risks are half of what is tolerated passes for each
        guardrail with a probability of at least 0.95. It depends on what is tolerated alone.

    Examples
    --------
    >>> usual_first_rows({"complaint": Guardrail(promise=0.02), "error": Guardrail(promise=0.1)})
    1600
    """
    return max(enough_old_rows(each) or MOST_ROWS_PLANNED for each in guardrails.values())


def _passes(guardrail: Guardrail, rows: int, total: float) -> bool:
    bound = (total + guardrail.bound) / (rows + 1)
    added = 0.0
    if guardrail.promise is not None:
        added = existence_term(bound, rows, guardrail.bound, bound)
    return bound + added < guardrail.tolerated


def _two_digits() -> Iterator[int]:
    """1 to 99, 100, 110, … 990, 1,000, 1,100 and so on."""
    yield from range(1, 100)
    size = 10
    while size * 10 < MOST_ROWS_PLANNED:
        yield from range(10 * size, 100 * size, size)
        size *= 10
