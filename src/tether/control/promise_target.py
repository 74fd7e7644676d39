"""The promise as the target: the largest beta whose whole stated promise is what was asked for.

Beta grows with alpha, and the promise is alpha plus two terms that are estimated from the log. So
the alpha to calibrate at is the largest one whose promise does not exceed the target. It is found
from above: each step lowers alpha by what the promise was too large by, until the promise fits, and
a bisection then takes back what the last step lowered too much.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from tether.control.calibration import Calibration
from tether.control.promise import NearestPromise

MAX_STEPS = 40
"""The most times that alpha is lowered."""
LEAST_LOWERED = 0.02
"""The least that alpha is lowered by where its promise is too large, as a share of the promise."""
SMALLEST_SHARE = 1e-3
"""The smallest alpha that is tried, as a share of the promise."""
TARGET_TOLERANCE = 1e-3
"""How closely the largest alpha is located, relative to the promise."""

Alphas = dict[str, float]


def reach_promise(
    solve: Callable[[Alphas], Calibration], asked: Mapping[str, float]
) -> Calibration:
    """The calibration at the largest alphas whose promises are at most those asked for.

    Where no alpha gives such a promise, the result has no beta: the safe policy is served.
    """
    alphas, nearest = dict(asked), _Nearest(asked)
    found, too_large = solve(alphas), alphas
    too_small = dict.fromkeys(asked, -np.inf)
    steps = 0
    while not _kept(found, asked):
        steps += 1
        nearest.note(found)
        if steps > MAX_STEPS:
            return _without_beta(found, asked, nearest)
        if found.exists:
            too_large = alphas
            alphas = {name: _lowered(found, name, asked[name]) for name in asked}
        else:  # alpha was lowered too far, or even the first one has no beta
            too_small = alphas
        if any(alphas[name] <= too_small[name] for name in asked):
            if steps == 1 or not _apart(too_small, too_large, asked):
                return _without_beta(found, asked, nearest)
            alphas = {name: (too_small[name] + too_large[name]) / 2 for name in asked}
        if any(alphas[name] < SMALLEST_SHARE * asked[name] for name in asked):
            return _without_beta(found, asked, nearest)
        found = solve(alphas)
    while steps and _apart(alphas, too_large, asked):
        middle = {name: (alphas[name] + too_large[name]) / 2 for name in asked}
        between = solve(middle)
        if _kept(between, asked):
            found, alphas = between, middle
        else:
            too_large = middle
    return replace(found, asked_promise=dict(asked))


class _Nearest:
    """The promise that exceeds what is asked for by least, of those that were tried."""

    def __init__(self, asked: Mapping[str, float]) -> None:
        self.asked, self.excess = asked, np.inf
        self.promise: NearestPromise | None = None

    def note(self, found: Calibration) -> None:
        """Keep the terms of a calibration if they come nearer."""
        if not found.exists:
            return
        excess = max(found.promises[name] - self.asked[name] for name in self.asked)
        if excess < self.excess:
            self.excess = excess
            self.promise = NearestPromise(found.log_beta, found.promise_terms)


def _without_beta(found: Calibration, asked: Mapping[str, float], nearest: _Nearest) -> Calibration:
    """The safe policy: no beta has the promise that was asked for."""
    none = dict.fromkeys(found.log_beta_by_constraint, -np.inf)
    at_asked = tuple(replace(each, alpha=asked[each.name]) for each in found.constraints)
    return replace(
        found,
        log_beta=-np.inf,
        constraints=at_asked,
        log_beta_by_constraint=none,
        asked_promise=dict(asked),
        nearest=nearest.promise,
    )


def _kept(found: Calibration, asked: Mapping[str, float]) -> bool:
    return found.exists and all(promise <= asked[name] for name, promise in found.promises.items())


def _lowered(found: Calibration, name: str, asked: float) -> float:
    """Alpha less what the promise was too large by, but at least half of it.

    The other terms may grow as alpha falls, so this alone could approach the target and never reach
    it: alpha is lowered by a least amount.
    """
    terms = found.promise_terms[name]
    fitting = asked - terms.added
    if fitting < terms.alpha:
        fitting = min(fitting, terms.alpha - LEAST_LOWERED * asked)
    return max(fitting, terms.alpha / 2)


def _apart(low: Alphas, high: Alphas, asked: Mapping[str, float]) -> bool:
    return any(high[name] - low[name] > TARGET_TOLERANCE * asked[name] for name in asked)
