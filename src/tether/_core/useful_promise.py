"""When a stated promise says something: the rule that results, commands and reports share."""

from __future__ import annotations

from tether._core.ties import within_limit

MOST_TIMES_TOLERATED = 2.0
"""A promise of more than this many times what is tolerated is of no use."""
MOST_OF_THE_WAY = 0.95
"""Nor is one that is this far from what is tolerated to the bound, which holds by itself."""


def is_useful(promise: float, tolerated: float, bound: float) -> bool:
    """Whether a promise on the expected loss is worth stating as success.

    It is at most twice what is tolerated (alpha, or the promise that was asked for), and at most
    95 % of the way from there to the bound, within which every loss lies anyway.

    >>> is_useful(0.12, 0.1, 1.0), is_useful(0.25, 0.1, 1.0), is_useful(0.99, 0.6, 1.0)
    (True, False, False)
    """
    nearly_bound = tolerated + MOST_OF_THE_WAY * (bound - tolerated)
    limit = min(MOST_TIMES_TOLERATED * tolerated, nearly_bound)
    return bool(within_limit(promise, limit))
