"""Logs that contradict the probabilities that they state.

With r_i = 1{action a was taken}/probability of the action that was taken, or with r_i = optimized
over safe probability of this action, no r_i is negative and none has an expectation above 1,
whichever contexts came, if the stated probabilities are those with which the actions were taken.
Then for every stake s below 1 the product over rows of

    1 + s·(r_i/c − 1)

is never negative and has an expectation of at most 1, for any c of at least 1: the room for rounded
probabilities. So an average of such products over several stakes exceeds 1/p with probability at
most p (`tether._core.averaged_bets`), for any number of rows and however large single r_i are. For
K actions p is divided by K. Where an average does exceed 1/p, columns are wrong, or actions and
probabilities are from different rows: nothing that is computed from them is worth a promise.

Since log(1 + x) ≤ x, the sum of the r_i settles most logs; the products, which take far longer, are
computed only where it does not.

Means that are too small are another matter: actions that cannot be taken in some contexts have
them, and `tether.control.coverage` says whether anything useful is missing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tether._core.averaged_bets import beyond_chance
from tether._core.types import Floats, Integers
from tether.control.log import acting_in
from tether.control.refuted_log import Refutation, refute
from tether.control.score_checks import HIGH_RATIO_WORDS, deviation_of_sums

if TYPE_CHECKING:
    from tether.control.log import Log

CONTRADICTION_FALSE_ALARM = 1e-6
"""The probability with which a log that is what it states is said to contradict itself."""
ROUNDING_ROOM = 1.01
"""The factor by which rounding may move a mean."""
CONTRADICTION_WORDS = "it contradicts the probabilities that it states"
"""How such a log refutes what it states."""
MAX_ACTIONS_NAMED = 3
"""How many actions a contradiction names."""
LARGEST_BET_LOG_RATIO = 700.0
"""Larger ratios count as this one, whose exponential is a finite float."""
STAKES = 0.5 ** np.arange(1, 17)


def taken_too_often(
    names: NDArray[Any], taken: Integers, probability: Floats, actions: int, stated: str, cause: str
) -> Refutation | None:
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
    return refute(
        f"{CONTRADICTION_WORDS}, since 1/{stated} in the rows of an action, summed and "
        f"divided by the number of all rows, is about 1 for each action, and here {listed}"
        f"{f' and {more} more' if more > 0 else ''}. {cause}"
    )


def with_lacking_actions(contradiction: Refutation | None, lacking: str | None) -> str | None:
    """One message of a contradiction and of actions that are too rare, which explain it."""
    if contradiction is None or lacking is None:
        return contradiction or lacking
    return refute(f"{CONTRADICTION_WORDS}, since {lacking}")


def log_contradiction(log: Log, allowed: float) -> Refutation | None:
    """How the ratios of a log in memory contradict it; None as well where only a mixture acted.

    Of a mixture, single rows may have larger expectations.
    """
    acting = acting_in(log)
    if acting is None:
        return None
    return ratio_contradiction(log.log_optimized - acting.log_logged, allowed)


def ratio_contradiction(log_ratios: Floats, allowed: float) -> Refutation | None:
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
) -> Refutation | None:
    """The same from the logs of the sums of the ratios and of their squares.

    `log_capital` takes the factor of all rounding, and returns the log of the product over all rows
    for each stake. It is called only where the sum settles nothing.
    """
    room = ROUNDING_ROOM * allowed
    total = float(np.exp(min(log_sum, LARGEST_BET_LOG_RATIO)))
    if _settled(total / room - rows, CONTRADICTION_FALSE_ALARM):
        return None
    if not beyond_chance(log_capital(room), CONTRADICTION_FALSE_ALARM):
        return None
    with np.errstate(over="ignore"):
        mean_square = float(np.exp(log_squares - np.log(rows)))
    return _ratios_in_words(total / rows, deviation_of_sums(total / rows, mean_square), rows)


def ratio_gains(log_ratios: Floats, room: float) -> Floats:
    """What a stake of one gains in each row: ratio/c − 1."""
    return np.asarray(np.exp(np.minimum(log_ratios, LARGEST_BET_LOG_RATIO)) / room - 1)


def _exceeds_one(values: Floats, rows: int, room: float, false_alarm: float) -> bool:
    """Whether the mean over the rows, 0 in all rows but those of the values, is too large."""
    gains, zeros = values / room - 1, rows - len(values)
    if _settled(float(gains.sum()) - zeros, false_alarm):
        return False
    capital = [np.log1p(stake * gains).sum() + zeros * np.log1p(-stake) for stake in STAKES]
    return beyond_chance(capital, false_alarm)


def _settled(gains: float, false_alarm: float) -> bool:
    """Whether the sum of the gains alone shows that no product is too large for chance."""
    return bool(STAKES[0] * gains <= -np.log(false_alarm))


def _ratios_in_words(mean: float, deviation: float, rows: int) -> Refutation:
    return refute(
        f"{CONTRADICTION_WORDS}, since those of the optimized policy, summed over the "
        f"log, come to {mean:.3g} ± {deviation / rows**0.5:.2g} and {HIGH_RATIO_WORDS}. The log "
        f"was not scored under the policy that took the actions, actions and probabilities are "
        f"from different rows, or columns are exchanged or the wrong ones (log_safe, "
        f"log_optimized, propensities), or their signs"
    )


def _plain(name: Any) -> Any:
    return name.item() if isinstance(name, np.generic) else name
