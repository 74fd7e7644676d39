"""Bets that the new system's own rows exceed what is tolerated: the stop, and the finish.

The bound on the mixture lets a version that is known to be bad keep the share that the budget
allows. The stop is a second test beside it, and the stricter one rules: a release that stops has in
every step the share that it would have had, or 0. docs/explanation/release.md says why it holds.

**The stop.** With B = 1 and stakes 0 < λ < 1/limit, products of 1 + λ·(l − limit) over the new
system's rows in the order of assignment, from the start of step u on, are averaged over stakes and,
with weights 1/(u(u + 1)) and the rest as cash, over u. They are judged after any call, and rows of
keys that return to the new system when their step is over. They grow with every loss, so an outcome
that is not known may count as 0.

**A relative guardrail.** Let c be the probability, given the past, that the new system answers a
key, and y = (1 − c)·l if it does, else −c·(1 + γ)·l. E[y | past] = c·(1 − c)·(R1 − (1 + γ)·R0)
whatever the drift. The stop bets on y > c·(1 − c)·δ (unknown: 0 for the new system, B for the old
one), the finish on the contrary (B and 0). Keys that stay with their system by their own past say
nothing here: whether they differ may be the luck of the draw.
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
    coin: Floats,
    delta: float,
    ratio: float,
    *,
    finish: bool = False,
) -> Floats:
    """The same for a relative guardrail; rows say nothing of which it was known who answers."""
    drawn = (coin > 0) & (coin < 1)
    losses, is_new, coin = losses[drawn], is_new[drawn], coin[drawn]
    weight, centre = coin * (1 + ratio), coin * (1 - coin) * delta
    gains = np.where(is_new, (1 - coin) * losses, -weight * losses) - centre
    scaled = -gains / (1 - coin - centre) if finish else gains / (weight + centre)
    return np.asarray(np.log1p(STAKES * scaled).sum(axis=1))


def log_wealth(sums: Floats) -> float:
    """The log of the capital of one bet after steps 1 to t, from the sums of each step."""
    from_step = np.cumsum(sums[::-1], axis=0)[::-1]  # rows of step u and later
    first = np.arange(1.0, len(sums) + 1)
    held = np.logaddexp.reduce(from_step, axis=1) - math.log(len(STAKES))
    held -= np.log(first * (first + 1))
    return float(np.logaddexp(np.logaddexp.reduce(held), -math.log(len(sums) + 1)))
