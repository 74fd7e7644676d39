"""Logs that contradict the probabilities that they state.

With r_i = 1{action a was taken}/probability of the action that was taken, or with r_i = optimized
over safe probability of this action, no r_i is negative and none has an expectation above 1,
whichever contexts came, if the stated probabilities are those with which the actions were taken.
Then for every stake s below 1 the product over rows of

    1 + s·(r_i/c − 1)

is never negative and has an expectation of at most 1, for any c of at least 1: the room for rounded
probabilities. By Markov's inequality an average of such products over several stakes exceeds 1/p
with probability at most p, for any number of rows and however large single r_i are. For K actions
p is divided by K. Where an average does exceed 1/p, columns are wrong, or actions and probabilities
are from different rows: nothing that is computed from them is worth a promise.

Since log(1 + x) ≤ x, the sum of the r_i settles most logs; the products, which take far longer, are
computed only where it does not.

Means that are too small are another matter: actions that cannot be taken in some contexts have
them, and `tether.control.coverage` says whether anything useful is missing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tether._core.types import Floats, Integers
from tether.control.score_checks import HIGH_RATIO_WORDS

CONTRADICTION_FALSE_ALARM = 1e-6
"""The probability with which a log that is what it states is said to contradict itself."""
ROUNDING_ROOM = 1.01
"""The factor by which rounding may move a mean."""
CONTRADICTION_WORDS = "the log contradicts the probabilities"
"""Words by which a contradiction is recognized among warnings, also once saved."""
MAX_ACTIONS_NAMED = 3
"""How many actions a contradiction names."""
LARGEST_BET_LOG_RATIO = 700.0
"""Larger ratios count as this one, whose exponential is a finite float."""
STAKES = 0.5 ** np.arange(1, 17)


def contradiction_among(warnings: Iterable[str]) -> str | None:
    """The first warning that is a contradiction; None where there is none."""
    return next((each for each in warnings if CONTRADICTION_WORDS in each), None)


def taken_too_often(
    names: NDArray[Any], taken: Integers, probability: Floats, actions: int, stated: str, cause: str
) -> str | None:
    """Say which actions were taken more often than their stated probabilities allow.

    `taken` numbers the action of each row in `names`, `actions` is how many there can be at most,
    `stated` names a probability and `cause` says what may be wrong.
    """
    rows, inverse = len(taken), 1 / probability
    means = np.bincount(taken, inverse, minlength=len(names)) / rows
    false_alarm = CONTRADICTION_FALSE_ALARM / max(actions, 1)
    too_often = [
        action
        for action in np.flatnonzero(means > ROUNDING_ROOM).tolist()
        if _exceeds_one(inverse[taken == action], rows, ROUNDING_ROOM, false_alarm)
    ]
    if not too_often:
        return None
    listed = ", ".join(
        f"{means[each]:.3g} for {_plain(names[each])!r}" for each in too_often[:MAX_ACTIONS_NAMED]
    )
    more = len(too_often) - MAX_ACTIONS_NAMED
    return (
        f"{CONTRADICTION_WORDS} that it states: 1/{stated} in the rows of an action, summed and "
        f"divided by the number of all rows, is about 1 for each action, and here {listed}"
        f"{f' and {more} more' if more > 0 else ''}. {cause}"
    )


def with_lacking_actions(contradiction: str | None, lacking: str | None) -> str | None:
    """One message of a contradiction and of actions that are too rare, which explain it."""
    if contradiction is None or lacking is None:
        return contradiction or lacking
    return f"{CONTRADICTION_WORDS} that it states: {lacking}"


def ratio_contradiction(log_ratios: Floats, allowed: float) -> str | None:
    """Say that the ratios optimized/safe of logged actions have a mean that they cannot have.

    `allowed` is a factor by which each may be wrong.
    """
    ratios = np.exp(np.minimum(log_ratios, LARGEST_BET_LOG_RATIO))
    room = ROUNDING_ROOM * allowed
    if not _exceeds_one(ratios, len(ratios), room, CONTRADICTION_FALSE_ALARM):
        return None
    with np.errstate(over="ignore", invalid="ignore"):
        return _ratios_in_words(float(ratios.mean()), float(ratios.std()), len(ratios))


def summed_ratio_contradiction(
    rows: int,
    log_sum: float,
    log_squares: float,
    allowed: float,
    log_capital: Callable[[float], Floats],
) -> str | None:
    """The same from the logs of the sums of the ratios and of their squares.

    `log_capital` takes the factor of all rounding, and returns the log of the product over all rows
    for each stake. It is called only where the sum settles nothing.
    """
    room = ROUNDING_ROOM * allowed
    with np.errstate(over="ignore"):
        total, squares = np.exp([log_sum, log_squares]).tolist()
    if _settled(total / room - rows, CONTRADICTION_FALSE_ALARM):
        return None
    if not _is_beyond(log_capital(room), CONTRADICTION_FALSE_ALARM):
        return None
    mean = total / rows
    return _ratios_in_words(mean, max(squares / rows - mean**2, 0.0) ** 0.5, rows)


def ratio_gains(log_ratios: Floats, room: float) -> Floats:
    """What a stake of one gains in each row: ratio/c − 1."""
    return np.asarray(np.exp(np.minimum(log_ratios, LARGEST_BET_LOG_RATIO)) / room - 1)


def _exceeds_one(values: Floats, rows: int, room: float, false_alarm: float) -> bool:
    """Whether the mean over the rows, 0 in all rows but those of the values, is too large."""
    gains, zeros = values / room - 1, rows - len(values)
    if _settled(float(gains.sum()) - zeros, false_alarm):
        return False
    capital = [np.log1p(stake * gains).sum() + zeros * np.log1p(-stake) for stake in STAKES]
    return _is_beyond(np.array(capital), false_alarm)


def _settled(gains: float, false_alarm: float) -> bool:
    """Whether the sum of the gains alone shows that no product is too large for chance."""
    return bool(STAKES[0] * gains <= -np.log(false_alarm))


def _is_beyond(log_capital: Floats, false_alarm: float) -> bool:
    """Whether the average of the products, by their logs, is too large for chance."""
    average = np.logaddexp.reduce(log_capital) - np.log(len(log_capital))
    return bool(average > -np.log(false_alarm))


def _ratios_in_words(mean: float, deviation: float, rows: int) -> str:
    return (
        f"{CONTRADICTION_WORDS} that it states: those of the optimized policy, summed over the "
        f"log, come to {mean:.3g} ± {deviation / rows**0.5:.2g} and {HIGH_RATIO_WORDS}. The log "
        f"was not scored under the policy that took the actions, actions and probabilities are "
        f"from different rows, or columns are exchanged or the wrong ones (log_safe, "
        f"log_optimized, propensities), or their signs"
    )


def _plain(name: Any) -> Any:
    return name.item() if isinstance(name, np.generic) else name
