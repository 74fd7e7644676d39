"""Whether several bets against a claim have won more than chance allows, taken together.

Each bet begins with 1 and its capital is never negative. If the claim is true, no capital has an
expectation above 1, so neither has the average of several. By Markov's inequality the average then
exceeds 1/p with probability at most p: nothing is lost by not knowing which bet is the best, but
the logarithm of their number. (Where the capitals are supermartingales, so is their average, and by
Ville's inequality it ever exceeds 1/p with probability at most p.)
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike


def log_average(log_capitals: ArrayLike) -> float:
    """The log of the average of capitals, given by their logs."""
    logs = np.asarray(log_capitals, dtype=np.float64)
    with np.errstate(invalid="ignore"):
        return float(np.logaddexp.reduce(logs) - np.log(len(logs)))


def beyond_chance(log_capitals: ArrayLike, false_alarm: float) -> bool:
    """Whether the average is above one over the probability of a false alarm.

    Examples
    --------
    >>> import numpy as np
    >>> beyond_chance(np.log([150.0, 0.0001]), 0.01), beyond_chance(np.log([250.0, 0.0001]), 0.01)
    (False, True)
    """
    return log_average(log_capitals) > -float(np.log(false_alarm))
