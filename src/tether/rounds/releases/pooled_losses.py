"""The mean losses of a system over several steps, with intervals that hold at all times.

An interval of a step rests on how many losses it has, their sum, and how far each was from a guess
that was made before it arrived. All three may be added over steps: a guess of one step is made
before the loss arrives also where losses of several steps arrive in turn.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from tether.monitor.loss_monitors import confidence_interval
from tether.rounds.history import INTERVAL_ERROR_PROBABILITY, Estimate
from tether.rounds.limits import Limit


def pooled_losses(
    steps: Iterable[Mapping[str, Estimate]], limits: Mapping[str, Limit]
) -> dict[str, Estimate]:
    """The means over steps, by guardrail; those of which nothing has arrived are left out."""
    known = [each for each in steps if each]
    return {
        name: _pooled([each[name] for each in known if name in each], limit.bound)
        for name, limit in limits.items()
        if any(name in each for each in known)
    }


def _pooled(parts: list[Estimate], bound: float) -> Estimate:
    count = sum(each.count for each in parts)
    total = math.fsum(each.mean * each.count for each in parts) / bound
    squares = math.fsum((each.standard_error * each.count / bound) ** 2 for each in parts)
    lower, upper = confidence_interval(count, total, squares, INTERVAL_ERROR_PROBABILITY)
    error = bound * math.sqrt(squares) / count
    return Estimate(count, bound * total / count, bound * float(lower), bound * float(upper), error)
