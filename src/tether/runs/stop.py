"""Bets that the new system's own rows exceed what is tolerated: the stop, and the finish.

The bound on the mixture lets a version that is known to be bad keep the share that the budget
allows. The stop is a second test beside it, and the stricter one rules: a release that stops has in
every step the share that it would have had, or 0. docs/explanation/release.md says why it holds.

**The stop.** With B = 1 and stakes 0 < λ < 1/limit, products of 1 + λ·(l − limit) over the new
system's rows in the order of assignment, from the start of step u on, are averaged over stakes and,
with weights 1/(u(u + 1)) and the rest as cash, over u. They are judged after any call, and rows of
keys that return to the new system when their step is over. They grow with every loss, so an outcome
that is not known may count as 0.

**A relative guardrail.** Let c be the probability that the new system answers a key, and z = l/c if
it does, else −(1 + γ)·l/(1 − c). E[z] = R1 − (1 + γ)·R0 whatever the drift. The stop bets on z > δ
(unknown: 0 for the new system, B for the old one). For a key that nobody has seen, c is the share.
Who answers a key that returns is known, so c is the part of these keys that came to the new system
in this step; over all of them E[z] is the same, and they are judged when the step is over.

The finish bets on z < δ (unknown: B and 0), on the new and the returning keys of a step in one
product, with one stake: what is shown is about all that is served, in the mix in which it comes.
"""

from __future__ import annotations

import math

import numpy as np

from tether._core.arrays import Booleans, Floats

STAKES = 0.5 ** np.arange(1, 9)[:, None]
"""Parts of the largest stake that cannot be ruined."""
FEWEST_FAILURES = 3
"""A release is not stopped for fewer rows with a loss than this, whatever the bets say."""


def log_factors(losses: Floats, limit: float) -> Floats:
    """The log factors of rows of the new system, unknown losses as 0: a sum for each stake.

    >>> failing = log_factors(np.array([1, 0, 1, 1, 0, 1.0]), limit=0.05)
    >>> log_wealth(failing[None]) > math.log(1 / 0.05)
    True
    """
    return np.asarray(np.log1p(STAKES * (losses / limit - 1)).sum(axis=1))


def relative_log_factors(
    losses: Floats,
    is_new: Booleans,
    coin: Floats | float,
    delta: float,
    ratio: float,
    *,
    finish: bool = False,
) -> Floats:
    """The same for a relative guardrail, from rows of one step; 0 if who answers was certain."""
    if not len(losses) or np.min(coin) <= 0 or np.max(coin) >= 1:
        return np.zeros(len(STAKES))
    excess = np.where(is_new, losses / coin, -(1 + ratio) * losses / (1 - coin)) - delta
    least = delta - 1 / np.min(coin) if finish else delta + (1 + ratio) / (1 - np.max(coin))
    return np.asarray(np.log1p(STAKES * excess / least).sum(axis=1))


def log_wealth(sums: Floats) -> float:
    """The log of the capital of one bet after steps 1 to t, from the sums of each step."""
    from_step = np.cumsum(sums[::-1], axis=0)[::-1]  # rows of step u and later
    first = np.arange(1.0, len(sums) + 1)
    held = np.logaddexp.reduce(from_step, axis=1) - math.log(len(STAKES))
    held -= np.log(first * (first + 1))
    return float(np.logaddexp(np.logaddexp.reduce(held), -math.log(len(sums) + 1)))
