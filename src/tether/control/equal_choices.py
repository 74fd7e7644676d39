"""Whether actions were drawn anew in contexts that come back.

Contexts may come back as they like. But if the actions are drawn independently, with the stated
probabilities, then a row of a context that was there before is a copy of an earlier row with
probability at most

    q_j = the sum of the probabilities of the different actions that were taken in this context

since a copy has one of these actions. With D_j = 1 for a copy and 0 otherwise, and any s > 1, the
product over rows of s^D_j / (1 + q_j·(s − 1)) has an expectation of at most 1, whatever the
contexts and losses are. So an average of such products over several s exceeds 1/p with probability
at most p (`tether._core.averaged_bets`), exactly and for any number of rows. A table with few
copies among rows of many contexts exceeds it by far.
"""

from __future__ import annotations

import numpy as np

from tether._core.averaged_bets import beyond_chance
from tether._core.equal_values import group_equal
from tether._core.types import Booleans, Floats, Integers

FALSE_ALARM = 1e-6
"""The probability with which independent draws are called copies."""
ODDS = (2.0, 8.0, 64.0)
"""The bets s, which share the capital."""
MAX_CHANCE = 0.75
"""Rows that are copies by chance with a larger probability than this are not bet on."""
MIN_CONTEXTS = 0.1
"""With fewer contexts than this, relative to the rows, wrong probabilities look like copies."""
ROUNDED = 1.01
"""The factor by which stated probabilities may be too small."""


def chosen_anew(context: Integers, taken: Integers, probability: Floats, later: Booleans) -> bool:
    """Whether so many copies may be chance.

    Parameters
    ----------
    context, taken : array of int
        The context and the action of each row.
    probability : array of float
        The probability with which the action was taken.
    later : array of bool
        Whether the row equals an earlier one, in every column.
    """
    order, returned, before = earlier_actions(context, taken, probability)
    if len(order) - returned.sum() < MIN_CONTEXTS * len(order):
        return True
    chance = ROUNDED * before
    bet = returned & (chance <= MAX_CHANCE)
    chance, copied = chance[bet], later[order][bet]
    capital = [copied.sum() * np.log(odds) - np.log1p(chance * (odds - 1)).sum() for odds in ODDS]
    return not beyond_chance(capital, FALSE_ALARM)


def earlier_actions(
    context: Integers, taken: Integers, probability: Floats
) -> tuple[Integers, Booleans, Floats]:
    """The q_j of each row, in an order that brings equal contexts together.

    Parameters
    ----------
    context, taken : array of int
        The context and the action of each row.
    probability : array of float
        The probability with which the action was taken.

    Returns
    -------
    order : array of int
        The rows in that order.
    returned : array of bool
        Whether the context was there before.
    before : array of float
        The sum of the probabilities of the different actions taken there before.
    """
    order = np.lexsort((np.arange(len(context)), taken, context))
    same_context = np.diff(context[order]) == 0
    new = np.ones(len(order), dtype=np.bool_)  # the first row of its context with its action
    new[order[1:]] = ~(same_context & (np.diff(taken[order]) == 0))
    order, starts, sizes = group_equal(context)
    mass = np.where(new, probability, 0.0)[order]
    before = np.cumsum(mass) - mass
    before -= np.repeat(before[starts], sizes)
    returned = np.ones(len(order), dtype=np.bool_)
    returned[starts] = False
    return order, returned, before
