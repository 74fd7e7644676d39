"""From a log to beta."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tether import _check
from tether.control import exact_clip, search
from tether.control.calibration import Calibration
from tether.control.condition import Constraint, Excess
from tether.control.exact_mix import Lines
from tether.control.families import Clip, Family, Mix, find_family
from tether.control.log import Log
from tether.control.proposals import Proposals
from tether.control.weights import Weights, weigh


def calibrate(
    log: Log,
    proposals: Proposals | None = None,
    *,
    alpha: float | Mapping[str, float],
    bound: float | Mapping[str, float] = 1.0,
    family: str | Family = "clip",
    test_weight: str | float = "empirical",
) -> Calibration:
    """How far the optimized policy may pull away from the safe one: the largest safe beta.

    Finds the largest beta such that at it and at *every* smaller one the calibrated risk is at most
    `alpha`: the losses in the log, weighted for the tethered policy, with the worst loss `bound`
    for the action not yet taken. Assumes that log and proposals carry the true log-probabilities,
    that the log was not used to train the optimized policy, and losses in [0, bound].

    Without proposals and tables, clip is calibrated with the analytic test weight. With several
    losses, `alpha` and `bound` may be mappings, and beta is the smallest that any of them allows.

    >>> rng = np.random.default_rng(0)
    >>> actions = rng.normal(size=500)                       # what the safe policy did
    >>> log = Log(actions > 1.5, -actions**2 / 2, -(actions - 1)**2 / 2)
    >>> round(calibrate(log, alpha=0.2).beta, 2)
    2.96
    """
    chosen = find_family(family)
    constraints = _constraints(log, alpha, bound)
    weights = weigh(log, proposals, chosen, test_weight)
    allowed = {constraint.name: largest(constraint, weights) for constraint in constraints}
    return Calibration.from_weights(weights, constraints, allowed)


def largest(constraint: Constraint, weights: Weights) -> float:
    """Log of the largest beta that one constraint allows; −inf where it allows none."""
    if isinstance(weights.family, Mix):
        return Lines.build(constraint.terms(weights)).first_crossing()
    if isinstance(weights.family, Clip) and not weights.log.contextual:
        return exact_clip.first_crossing(constraint.terms(weights))
    return _searched(Excess(constraint, weights), weights)


def _searched(excess: Excess, weights: Weights) -> float:
    lo, hi = weights.searched()
    if excess(lo) > 0:
        return -np.inf
    if weights.test_weight == "analytic":
        hi = excess.certain_failure(hi)
    found = search.first_crossing(excess, excess.slope(lo, hi), lo, hi)
    if found is not None:
        return found
    return np.inf if weights.family.settled or excess(np.inf) <= 0 else hi


def _constraints(log: Log, alpha: Any, bound: Any) -> tuple[Constraint, ...]:
    if not isinstance(log, Log):
        raise TypeError(f"log must be a tether.Log, got {type(log).__name__}")
    for name, value in (("alpha", alpha), ("bound", bound)):
        if isinstance(value, Mapping) and set(value) != set(log.loss):
            raise ValueError(
                f"{name} has the losses {sorted(value)} but the log has {sorted(log.loss)}"
            )
    constraints = []
    for name, loss in log.loss.items():
        several = len(log.loss) > 1 or isinstance(alpha, Mapping)
        at = f"[{name!r}]" if several else ""
        most = bound[name] if isinstance(bound, Mapping) else bound
        most = _check.number(f"bound{at}", most, above=0, below=np.inf)
        tolerated = alpha[name] if isinstance(alpha, Mapping) else alpha
        tolerated = _check.number(f"alpha{at}", tolerated, above=0, below=most)
        if loss.max() > most:
            _check.reject(f"loss{at}", loss, loss > most, f"a loss of at most bound = {most:g}")
        constraints.append(Constraint(name, tolerated, most))
    return tuple(constraints)
