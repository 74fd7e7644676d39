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

from tether._core import validate
from tether._core.arrays import Floats, Integers
from tether._core.contexts import column_labels, labels

PROPENSITY_TOLERANCE = 0.01
"""How far, relatively, a logged propensity may be from the probability that it states."""
MAX_PROPENSITY = 1 + 1e-6
"""A probability, with room for rounding."""


def checked_propensities(propensities: ArrayLike, rows: int, *, finite: bool) -> Floats:
    """One positive number per row, at most 1 if there are finitely many actions."""
    values = validate.floats("propensities", propensities)
    validate.same_length("propensities", values, "actions", rows)
    if np.isfinite(values).all() and values.max() <= 0:
        raise ValueError(
            f"propensities must be probabilities, but none of its {rows} values is above 0: they "
            f"look like log-probabilities; pass numpy.exp of them"
        )
    bad = ~((values > 0) & (values <= (MAX_PROPENSITY if finite else np.inf)) & np.isfinite(values))
    if bad.any():
        accepted = "a probability above 0" + (" and at most 1" if finite else "")
        if finite and values.min() > 0 and 1 < values.max() <= 100:
            accepted += f" (40 % is 0.4; the largest is {values.max():g})"
        validate.reject("propensities", values, bad, accepted)
    return np.minimum(values, 1.0) if finite else values


def compare_with_policy(propensities: Floats, log_safe: Floats) -> None:
    """Refuse propensities that are not the safe policy's probabilities of the actions shown."""
    off = ~(np.abs(np.log(propensities) - log_safe) <= PROPENSITY_TOLERANCE)
    if not off.any():
        return
    row = int(np.argmax(off))
    raise ValueError(
        f"propensities disagree with the safe policy in {int(off.sum())} of {len(off)} row(s), by "
        f"more than {PROPENSITY_TOLERANCE:.0%} (row {row}: {propensities[row]:.6g} in the log, "
        f"{np.exp(log_safe[row]):.6g} by the policy): the safe policy passed is not the one that "
        f"took these actions, or contexts or actions are in another order or coding. Of decisions "
        f"that a tethered policy made, pass the tethered policy as logged_by"
    )


def check_one_policy(propensities: Floats, contexts: Any, actions: NDArray[Any]) -> None:
    """Refuse propensities that differ for the same action in the same context."""
    columns = [labels(actions)] + ([] if isinstance(contexts, int) else [labels(contexts)])
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
        f"these are rows of several policies or months, pass the safe policy and logged_by"
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


def two_action_table(propensities: Floats, taken: Integers) -> Floats:
    """The log-probabilities of both actions: the one not taken had the remaining probability."""
    table, rows = np.empty((len(taken), 2)), np.arange(len(taken))
    with np.errstate(divide="ignore"):
        table[rows, taken] = np.log(propensities)
        table[rows, 1 - taken] = np.log1p(-propensities)
    return table
