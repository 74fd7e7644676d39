"""Propensities: the logged probabilities of the actions that were shown.

The usual bandit log holds the context, the action, its loss and the probability with which the
policy in charge chose that action, but not the probabilities of the other actions. What can be
computed from it:

- without contexts everything, since only ratios at the logged actions count;
- with two actions everything: the other action had the remaining probability;
- otherwise mix, whose weights need no normalizing constant. Clip needs the safe policy itself.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tether._core import policy_calls, validate
from tether._core.contexts import column_labels, labels
from tether._core.types import Floats, Integers, Losses
from tether.control.contradictions import (
    ratio_contradiction,
    taken_too_often,
    with_lacking_actions,
)
from tether.control.log import Log
from tether.control.log_checks import warn_and_keep
from tether.control.refuted_log import Refutation
from tether.policies.logged_actions import lacking_actions_warning, logged_positions
from tether.policies.policy import Policy, is_finite
from tether.policies.served_policies import note_policies
from tether.policies.table_policy import picked

PROPENSITY_TOLERANCE = 0.01
"""How far, relatively, a logged propensity may be from the probability that it states."""
MAX_PROPENSITY = 1 + 1e-6
"""A probability, with room for rounding."""
MAX_ROWS_SHOWN = 3
"""How many rows an error about propensities shows."""


def log_of_propensities(
    optimized: Policy,
    contexts: Any,
    actions: NDArray[Any],
    losses: Losses,
    propensities: ArrayLike,
    min_propensity: float | None,
    rewards: ArrayLike | None = None,
) -> Log:
    """A log of which only the propensities of the actions shown are known of the safe policy."""
    finite = is_finite(optimized)
    values = checked_propensities(propensities, len(actions), finite=finite)
    taken = None
    if is_finite(optimized):
        taken = logged_positions("optimized", optimized.actions, actions)
    check_one_policy(values, contexts, actions)
    log_safe = np.log(values)
    max_ratio = max_ratio_of(min_propensity, log_safe, finite=finite)
    context = None if isinstance(contexts, int) else labels(contexts)
    stated: dict[str, Any] = {"context": context, "max_ratio": max_ratio, "reward": rewards}
    if taken is None or not is_finite(optimized):
        log_optimized = policy_calls.score("optimized", optimized, contexts, actions)
        noted = note_policies(None, optimized, contexts, None, {})
        return Log(losses, log_safe, log_optimized, scored_by=noted, **stated)
    table = policy_calls.table("optimized", optimized, contexts)
    lacking = lacking_actions_warning(
        optimized.actions, taken, table, None, min_propensity, log_safe
    )
    noted = note_policies(None, optimized, contexts, optimized.actions, {"optimized": table})
    if len(optimized.actions) == 2 and not isinstance(contexts, int):
        stated["log_optimized_all"] = np.broadcast_to(table, (len(taken), 2))
        stated["log_safe_all"] = two_action_table(values, taken)
    log = Log(losses, log_safe, picked(table, taken), scored_by=noted, **stated)
    contradiction = contradiction_of_propensities(
        optimized.actions, taken, values
    ) or ratio_contradiction(log.log_optimized - log.log_safe, 1.0)
    return warn_and_keep(log, with_lacking_actions(contradiction, lacking))


def contradiction_of_propensities(
    names: NDArray[Any], taken: Integers, propensities: Floats, actions: int | None = None
) -> Refutation | None:
    """Say that actions were taken more often than their propensities allow; None if they may be.

    `actions` is how many there can be, if not only those with a name here.
    """
    return taken_too_often(
        *(names, taken, propensities, max(len(names), actions or 0), "propensity"),
        "Actions and propensities look as if they were from different rows, or one of them is the "
        "wrong column",
    )


def max_ratio_of(min_propensity: float | None, log_safe: Floats, *, finite: bool) -> float | None:
    """The largest ratio that a smallest propensity allows, after checking it against the log.

    `log_safe` is one score per row, or a table of all actions.
    """
    if min_propensity is None:
        return None
    smallest = validate.number("min_propensity", min_propensity, above=0, below=1)
    if not finite:
        raise ValueError(
            f"min_propensity is {min_propensity!r}, but the optimized policy does not list its "
            f"actions, so its probabilities may be densities above 1: build tether.Log with "
            f"max_ratio instead"
        )
    lowest = log_safe if log_safe.ndim == 1 else log_safe.min(axis=1)
    below = lowest < np.log(smallest) - PROPENSITY_TOLERANCE
    if below.any():
        row = int(np.argmax(below))
        raise ValueError(
            f"min_propensity is {min_propensity!r}, but the safe policy has an action with the "
            f"probability {np.exp(lowest[row]):.6g} in row {row} ({int(below.sum())} such row(s))"
        )
    return float(max(1 / smallest, np.exp(-lowest.min())))


def checked_propensities(propensities: ArrayLike, rows: int, *, finite: bool) -> Floats:
    """One positive number per row, at most 1 if there are finitely many actions."""
    values = validate.floats("propensities", propensities)
    validate.same_length("propensities", values, "actions", rows)
    if not values.min() > 0 and np.isfinite(values).all() and values.max() <= 0:
        raise ValueError(
            f"propensities must be probabilities, but none of its {rows} values is above 0: they "
            f"look like log-probabilities; pass numpy.exp of them"
        )
    top = MAX_PROPENSITY if finite else np.inf
    accepted = "a probability above 0" + (" and at most 1" if finite else "")
    bad = ~((values > 0) & (values <= top) & np.isfinite(values))
    if bad.any():
        if finite and values.min() > 0 and 1 < values.max() <= 100:
            accepted += f" (40 % is 0.4; the largest is {values.max():g})"
        validate.reject("propensities", values, bad, accepted)
    return np.minimum(values, 1.0) if finite else values


def compare_with_policy(propensities: Floats, log_safe: Floats) -> None:
    """Refuse propensities that are not the safe policy's probabilities of the actions shown."""
    off = ~(np.abs(np.log(propensities) - log_safe) <= PROPENSITY_TOLERANCE)
    if not off.any():
        return
    shown = "; ".join(
        f"row {row}: {propensities[row]:.6g} in the log, {np.exp(log_safe[row]):.6g} by the policy"
        for row in np.flatnonzero(off)[:MAX_ROWS_SHOWN].tolist()
    )
    raise ValueError(
        f"propensities disagree with the safe policy in {int(off.sum())} of {len(off)} row(s), by "
        f"more than {PROPENSITY_TOLERANCE:.0%} ({shown}): the safe policy passed is not the one "
        f"that took these actions, or contexts or actions are in another order or coding. Of "
        f"decisions that a tethered policy made, pass the tethered policy as safe"
    )


def check_one_policy(propensities: Floats, contexts: Any, actions: NDArray[Any]) -> None:
    """Refuse propensities that differ for the same action in the same context."""
    columns = [labels(actions)]
    if not isinstance(contexts, int):
        columns.append(labels(contexts))
    _, group = np.unique(column_labels(columns), return_inverse=True)
    order = np.lexsort((propensities, group))
    first = np.flatnonzero(np.diff(group[order], prepend=-1))
    last = np.append(first[1:], len(order)) - 1
    low, high = order[first], order[last]
    varies = np.log(propensities[high]) - np.log(propensities[low]) > PROPENSITY_TOLERANCE
    if not varies.any():
        return
    one, other = sorted((int(low[varies][0]), int(high[varies][0])))
    where = "" if isinstance(contexts, int) else " in equal contexts"
    raise ValueError(
        f"rows {one} and {other} took the action {actions[one]!s}{where} with the propensities "
        f"{propensities[one]:.6g} and {propensities[other]:.6g}: the policy that took them depends "
        f"on more than the contexts passed. Pass everything that it depended on as contexts. If "
        f"these are rows of several policies or months, make a log of the last one, or use rounds"
    )


def two_action_table(propensities: Floats, taken: Integers) -> Floats:
    """The log-probabilities of both actions: the one not taken had the remaining probability."""
    table = np.empty((len(taken), 2))
    rows = np.arange(len(taken))
    with np.errstate(divide="ignore"):
        table[rows, taken] = np.log(propensities)
        table[rows, 1 - taken] = np.log1p(-propensities)
    return table
