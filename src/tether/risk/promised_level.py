"""The level at which the whole stated promise is at most the one that was asked for.

A candidate threshold is chosen from some level of alpha on: each is judged at the smallest such
level. Of these finitely many levels, the largest whose stated promise is at most the target is
taken. Since bolder thresholds have larger levels, the result is the boldest threshold that can be
promised. The stated promise need not increase with alpha, so levels are tried one by one from the
largest on; where there are many, all of the boldest few and then ever fewer of the safer ones.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tether._core.ties import within_limit
from tether._core.types import Floats, Integers
from tether.risk.loss_gap import UncollectedError
from tether.risk.risk_curve import Sweep
from tether.risk.rule import Rule

LEVELS_TRIED_IN_FULL = 64
"""How many of the boldest levels are all tried."""
LEVEL_SPACING = 1.05
"""By which factor the distance from the boldest level grows, from one level tried to the next."""


def promised_level(rule: Rule, sweep: Sweep, target: float) -> float | None:
    """The largest level tried whose stated promise is at most the target; None if there is none."""
    if rule.levels is None:
        return target
    safest = rule.safest(sweep)
    for level in _levels_to_try(rule.levels(sweep), target):
        existence = 0.0 if safest is None else safest.excess_where_passing(level)
        _require_resolved(rule, sweep, level)
        if not within_limit(level + existence, target):
            continue  # before the stability, which takes longer, is measured
        stability = rule.stability([sweep], [level])[0]
        if stability is None and rule.promise(sweep, level, None, 0.0).value >= sweep.bound:
            return None  # whatever the level
        if within_limit(rule.promise(sweep, level, stability, existence).value, target):
            return level
    return None


def _require_resolved(rule: Rule, sweep: Sweep, level: float) -> None:
    """Raise where candidates of this level, of claims in parts, have not been collected."""
    if sweep.resolved_from is None:
        return
    assert isinstance(sweep.total_weight, float)
    least = rule.largest_sum(sweep.total_weight, sweep.test_weight, sweep.bound, level)
    least -= sweep.bound if rule.reads_items else 0.0
    if least < sweep.resolved_from:
        raise UncollectedError


def _levels_to_try(levels: Floats, target: float) -> Iterator[float]:
    """Distinct levels up to the target, from the largest on, thinned after the first few."""
    found = np.unique(levels[within_limit(levels, target)])[::-1]
    # A level that exceeds the target by rounding alone counts as the target.
    return (min(float(found[rank]), target) for rank in _ranks(len(found)))


def _ranks(count: int) -> Integers:
    full = np.arange(min(count, LEVELS_TRIED_IN_FULL))
    if count <= LEVELS_TRIED_IN_FULL:
        return full
    steps = int(np.log(count / LEVELS_TRIED_IN_FULL) / np.log(LEVEL_SPACING))
    later = LEVELS_TRIED_IN_FULL * LEVEL_SPACING ** np.arange(steps + 1)
    return np.unique(np.concatenate([full, later.astype(np.int64), [count - 1]]))
