"""The alpha that a promise leaves, once the existence term is paid for."""

from __future__ import annotations

from tether._core.promises import bounded_safe_mean
from tether.release.guardrail import Guardrail

PROMISE_BISECTIONS = 60
"""How often the interval that holds the alpha of a promise is halved."""


def existence_term(old_bound: float, rows: int, bound: float, alpha: float) -> float:
    """Estimate E[(ρ − α)₊] on the logs on which the old system passes."""
    safe = bounded_safe_mean(
        old_bound, bound, effective_rows=max(rows, 1), test_share=1 / (rows + 1)
    )
    return safe.excess_where_passing(alpha)


def alpha_of_promise(guardrail: Guardrail, old_bound: float, rows: int) -> float:
    """The largest alpha that with its existence term is at most the promise; 0 if there is none."""
    low, high = 0.0, guardrail.tolerated
    for _ in range(PROMISE_BISECTIONS):
        middle = (low + high) / 2
        added = existence_term(old_bound, rows, guardrail.bound, middle)
        if middle + added <= guardrail.tolerated:
            low = middle
        else:
            high = middle
    return low
