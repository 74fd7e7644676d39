"""Outcomes of a release that look inverted: mostly harm, by a system that is in use."""

from __future__ import annotations

from collections.abc import Mapping

from tether.rounds.history import Estimate
from tether.rounds.limits import Limit

MOST_OF_BOUND = 0.5
"""A system whose losses are surely above this part of the bound is hardly in use."""


def inverted_losses(
    losses: Mapping[str, Mapping[str, Estimate]], limits: Mapping[str, Limit]
) -> str:
    """Ask whether losses are inverted, in words; empty if nothing looks like it.

    `losses` has the mean losses of each system. The interval of one of them must be above half of
    the bound, and what is tolerated below it.
    """
    for system, means in losses.items():
        for name, limit in limits.items():
            half, found = MOST_OF_BOUND * limit.bound, means.get(name)
            if found is not None and found.count and found.lower > half > limit.alpha:
                return (
                    f"the {system} system's mean {name!r} is {found.mean:.3g} of at most "
                    f"{limit.bound:g}, where {limit.alpha:g} is tolerated: are outcomes inverted? "
                    f"A loss of {limit.bound:g} is the harm, and 0 the good outcome. A loss is "
                    f"final: if so, begin in another store"
                )
    return ""
