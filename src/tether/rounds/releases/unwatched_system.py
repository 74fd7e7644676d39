"""Whether anything new is seen of a new system that serves: monitors see rows, and nothing else.

A key that comes back adds no row, so of a system that answers only such keys nothing is seen. Their
outcomes are not stored: `tether.monitor.KeyMonitor` watches them outside of the release.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from itertools import pairwise
from typing import TYPE_CHECKING

from tether.rounds.releases import step as steps_of_releases

if TYPE_CHECKING:
    from tether.rounds.releases.release_history import StepRecord

STEPS_WITHOUT_ROWS = 2
"""So many steps without a row of the new system, or as much time as the longest ones took."""


def unwatched_system(steps: Sequence[StepRecord], share: float, *, by_keys: bool) -> str:
    """Since when no row of the new system came although it serves, in words; empty if some did.

    Answers to keys that come back are not stored, so that only steps can tell; or time, where steps
    end `by_keys` and so do not end without new ones.
    """
    seen = [each.number for each in steps if each.new.rows]
    if share == 0 or not seen or seen[-1] == steps[-1].number:
        return ""
    without = [each for each in steps[:-1] if each.number > seen[-1] and each.calibration.share]
    if len(without) < STEPS_WITHOUT_ROWS and not (by_keys and _is_long(steps)):
        return ""
    return (
        f"no key was new to the new system since step {seen[-1]}, so nothing that it has done "
        f"since is watched: only the first unit of a key is a row, and keys that come back are "
        f"none. If they do come back, no alarm and no share notices that it becomes worse. To "
        f"watch it, give their later outcomes to tether.monitor.KeyMonitor and halt this release "
        f"when it raises an alarm; or begin a release with another key for each visit or day, in "
        f"another store"
    )


def _is_long(steps: Sequence[StepRecord]) -> bool:
    """Whether the present step has taken longer than several of the longest before it."""
    begun = [datetime.fromisoformat(each.begun) for each in steps]
    lasted = [later - earlier for earlier, later in pairwise(begun)]
    present = steps_of_releases.moment() - begun[-1]
    return present > STEPS_WITHOUT_ROWS * max(lasted)
