"""From a log to beta."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tether._core import validate
from tether.control.calibration import Calibration
from tether.control.constraint import Constraint, Excess
from tether.control.families import Family, Mix, find_family
from tether.control.log import Log
from tether.control.problem import Weights
from tether.control.proposals import Proposals
from tether.control.solvers import clip, search
from tether.control.solvers.mix import Lines
from tether.control.weigh import weigh

SLACK = 1e-6
"""How far rounding may carry the calibrated risk past alpha, relatively."""


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
    log_beta_by_constraint = {
        constraint.name: largest(constraint, weights) for constraint in constraints
    }
    found = Calibration.from_weights(weights, constraints, log_beta_by_constraint)
    _check_result(found)
    return found


def largest(constraint: Constraint, weights: Weights) -> float:
    """Log of the largest beta that one constraint allows; −inf where it allows none."""
    if weights.exact and isinstance(weights.family, Mix):
        return Lines.build(constraint.terms(weights)).first_crossing()
    if weights.exact:
        return clip.first_crossing(constraint.terms(weights))
    return _searched(Excess(constraint, weights), weights)


def _searched(excess: Excess, weights: Weights) -> float:
    lo, hi = weights.searched()
    if excess(lo) > 0:
        return -np.inf
    if weights.test_weight == "analytic":
        hi = excess.certain_failure(hi)
    found = search.first_crossing(excess.between, weights.points(lo, hi))
    if found is not None:
        return found
    return np.inf if weights.family.saturates or excess(np.inf) <= 0 else hi


def _check_result(found: Calibration) -> None:
    """The last line of defence: what was found must satisfy the definition, computed afresh."""
    for each in found.constraints:
        if found.exists and not found.risks[each.name] <= each.alpha * (1 + SLACK):
            raise RuntimeError(
                f"beta = exp({found.log_beta}) was found for {each.name!r} but its calibrated risk "
                f"is {found.risks[each.name]}, above alpha = {each.alpha}: please report this log"
            )


def _constraints(log: Log, alpha: Any, bound: Any) -> tuple[Constraint, ...]:
    if not isinstance(log, Log):
        raise TypeError(f"log must be a tether.Log, got {type(log).__name__}")
    for name, value in (("alpha", alpha), ("bound", bound)):
        if isinstance(value, Mapping) and set(value) != set(log.loss):
            raise ValueError(
                f"{name} has the losses {list(value)} but the log has {list(log.loss)}"
            )
    constraints = []
    for name, loss in log.loss.items():
        several = len(log.loss) > 1 or isinstance(alpha, Mapping)
        at = f"[{name!r}]" if several else ""
        most = bound[name] if isinstance(bound, Mapping) else bound
        most = validate.number(f"bound{at}", most, above=0, below=np.inf)
        tolerated = alpha[name] if isinstance(alpha, Mapping) else alpha
        tolerated = validate.number(f"alpha{at}", tolerated, above=0, below=most)
        if loss.max() > most:
            validate.reject(f"loss{at}", loss, loss > most, f"a loss of at most bound = {most:g}")
        constraints.append(Constraint(name, tolerated, most))
    return tuple(constraints)
