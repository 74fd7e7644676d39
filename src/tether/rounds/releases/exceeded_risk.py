"""A new system that is clearly worse than what is tolerated.

No alarm need stand: an alarm is about what is served, of which such a system has a small share.
"""

from __future__ import annotations

from collections.abc import Mapping

from tether.rounds.history import Estimate
from tether.rounds.limits import Limit


def exceeded_risk(new_losses: Mapping[str, Estimate], limits: Mapping[str, Limit]) -> str:
    """Which mean loss of the new system is above what is tolerated, in words; empty if none is.

    The whole interval must be above it.
    """
    for name, limit in limits.items():
        found = new_losses.get(name)
        if found is not None and found.lower > limit.alpha:
            return (
                f"the new system's mean {name!r} ({found.mean:.3g}; 95 % interval "
                f"{found.lower:.3g} to {found.upper:.3g}) is above what is tolerated "
                f"({limit.alpha:g}): unless it gets better, its share will not grow to 100 %. "
                f"Consider to halt it"
            )
    return ""
