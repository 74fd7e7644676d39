"""Bets that the new system's own rows exceed what is tolerated: the stop, and the finish.

The bound on the mixture lets a version that is known to be bad keep the share that the budget
allows. The stop is a second test beside it, and the stricter one rules.

Hypothesis: given the past, every row of the new system has an expected loss of at most `limit`.
With B = 1 and 0 < λ < 1/limit, the product of 1 + λ·(l − limit) over the rows from the start of
step u on, in the order of assignment, is a supermartingale; so is its mean over stakes λ and, with
weights 1/(u(u + 1)) and the rest as cash, over u (a version may turn bad later). By Ville's
inequality it ever reaches 1/error with probability at most `error`. It grows with every loss: an
outcome that is not known may count as 0, however its delay depends on the loss, and every step's
end may be tried again whenever an outcome arrives. Several guardrails: the mean of their wealths is
compared with 1/error; it is a supermartingale while none is exceeded, whatever their dependence.

A relative guardrail: for a key of a step with share s let y = (1 − s)·l if the new system answers,
else −s·(1 + γ)·l. E[y | past] = s·(1 − s)·(R1 − (1 + γ)·R0) whatever the drift. The stop bets on y
> s·(1 − s)·δ (unknown: 0 for the new system, B for the old one), the finish on the contrary (B and
0). If the share is 1 once the finish is shown, E[s·(R1 − R0)] ≤ m + error·(R1 − R0).

A release that stops has in every step the share that it would have had, or 0: every promise
remains.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from scipy.special import logsumexp

from tether._core.arrays import Floats

STAKES = 0.5 ** np.arange(1, 9)[:, None]
"""Parts of the largest stake that cannot be ruined."""
FEWEST_FAILURES = 3
"""A release is not stopped for fewer rows with a loss than this, whatever the bets say."""


def stop_sums(losses: Floats, limit: float) -> Floats:
    """Log factors of the new system's rows in one step, unknown losses as 0: a sum for each stake.

    >>> shown([[stop_sums(np.array([1, 0, 1, 1, 0, 1.0]), limit=0.05)]], 0.05)
    True
    """
    return np.asarray(np.log1p(STAKES * (losses / limit - 1)).sum(axis=1))


def relative_sums(
    share: float, new: Floats, old: Floats, delta: float, ratio: float, *, finish: bool = False
) -> Floats:
    """The same for a relative guardrail; unknown losses are in `new` and `old` as said above."""
    if not 0 < share < 1:
        return np.zeros(len(STAKES))
    weight, centre = share * (1 + ratio), share * (1 - share) * delta
    gains = np.append(new * (1 - share), -weight * old) - centre
    scaled = -gains / (1 - share - centre) if finish else gains / (weight + centre)
    return np.asarray(np.log1p(STAKES * scaled).sum(axis=1))


def log_wealth(sums: Sequence[Floats]) -> float:
    """The log of the capital of one guardrail after steps 1 to t, from each step's sums."""
    from_step = np.cumsum(np.array(sums)[::-1], axis=0)[::-1]  # rows of step u and later
    first = np.arange(1.0, len(sums) + 1)
    held = logsumexp(from_step, axis=1) - math.log(len(STAKES)) - np.log(first * (first + 1))
    return float(logsumexp(np.append(held, -math.log(len(sums) + 1))))


def shown(steps: Sequence[Sequence[Floats]], error: float) -> bool:
    """Whether the bets reached 1/error at the end of any step; sums by step and guardrail."""
    limit = math.log(len(steps[0]) / error) if steps else math.inf
    return any(
        logsumexp([log_wealth(sums) for sums in zip(*steps[:end], strict=True)]) >= limit
        for end in range(1, len(steps) + 1)
    )
