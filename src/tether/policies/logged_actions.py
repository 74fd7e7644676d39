"""Whether a log contains the actions that the optimized policy takes, action by action.

The logging policy's probability of each action, or a lower limit on it, says how often the action
must occur. An action that does not occur although it must contradicts that statement: its weights
are 0 in every row, and without a word the rest of the log would speak for it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tether._core.types import Floats, Integers
from tether.control.coverage import COVERAGE_FALSE_ALARM, COVERAGE_MARGIN, mean_limit
from tether.policies.table_policy import picked, positions
from tether.policies.unknown_actions import UnknownActionsError

MAX_ACTIONS_LISTED = 3
"""How many actions a warning names."""


def logged_positions(name: str, known: NDArray[Any], actions: NDArray[Any]) -> Integers:
    """The position of each logged action among those of a policy, which an error names."""
    try:
        return positions(known, actions)
    except UnknownActionsError as error:
        raise error.of_policy(name) from None


def lacking_actions_warning(
    known: NDArray[Any],
    taken: Integers,
    optimized: Floats,
    logged_by: Floats | None,
    min_propensity: float | None,
    log_logged: Floats,
) -> str | None:
    """Compare the actions of a log with what was stated of the policy that took them.

    An action that must be in the log and is not is refused. If actions are too rare, this is
    returned in words, and otherwise None.

    `optimized` and `logged_by` are tables of all actions, `log_logged` the log-probabilities with
    which the actions were taken, and `min_propensity` a lower limit on those of all actions.
    """
    if logged_by is None and min_propensity is None:
        return None
    shape = (len(taken), len(known))
    wanted = np.broadcast_to(np.exp(optimized), shape)
    if logged_by is None:
        assert min_propensity is not None
        probable = np.broadcast_to(min_propensity, shape)
    else:
        probable = np.broadcast_to(np.minimum(np.exp(logged_by), 1.0), shape)
    share = np.where(probable > 0, wanted, 0.0).mean(axis=0)  # what the log can contain
    _refuse_absent(known, taken, share, probable, min_propensity if logged_by is None else None)
    limits, means = _shares_by_action(taken, optimized, logged_by, min_propensity, log_logged)
    lacking = np.flatnonzero(limits < share - COVERAGE_MARGIN)
    if not len(lacking):
        return None
    listed = ", ".join(
        f"{known[action].item()!r} ({means[action]:.1%} instead of {share[action]:.1%} of its "
        f"decisions)"
        for action in lacking[:MAX_ACTIONS_LISTED].tolist()
    )
    more = f" and {len(lacking) - MAX_ACTIONS_LISTED} more"
    return (
        f"the log contains less of what the optimized policy does than it must: {listed}"
        f"{more if len(lacking) > MAX_ACTIONS_LISTED else ''}. The policy that took the actions "
        f"never takes them in some contexts, rows are missing, or the probabilities are not those "
        f"with which the actions were taken"
    )


def _refuse_absent(
    known: NDArray[Any],
    taken: Integers,
    share: Floats,
    probable: Floats,
    min_propensity: float | None,
) -> None:
    """Refuse a log without an action that it must contain, up to chance."""
    counts, rows = np.bincount(taken, minlength=len(known)), len(taken)
    with np.errstate(divide="ignore"):
        log_chance = np.log1p(-probable).sum(axis=0)
    must = log_chance < np.log(COVERAGE_FALSE_ALARM / len(known))
    absent = np.flatnonzero((counts == 0) & (share > 0) & must)
    if not len(absent):
        return
    first = int(absent[0])
    message = f"the action {known[first].item()!r} is in 0 of {rows:,} rows, but "
    if min_propensity is None:
        message += "the policy that is said to have taken the actions would take it in about "
    else:
        message += f"min_propensity = {min_propensity:.4g} says that it is in at least about "
    message += f"{probable[:, first].sum():,.0f}"
    cause = "rows are missing, or another policy took the actions"
    if min_propensity is not None:
        cause = (
            "min_propensity must hold for every action in every context, also for actions that "
            "were never taken, so it is not the smallest propensity of the log"
        )
    raise ValueError(
        f"{message}. The optimized policy takes it in {share[first]:.1%} of its decisions, and "
        f"nothing is known of its losses: {cause}"
    )


def _shares_by_action(
    taken: Integers,
    optimized: Floats,
    logged_by: Floats | None,
    min_propensity: float | None,
    log_logged: Floats,
) -> tuple[Floats, Floats]:
    """The optimized policy's share of each action by the log: what it is at most, and the mean."""
    rows, actions = len(taken), optimized.shape[1]
    ratios = np.exp(picked(optimized, taken) - log_logged)
    if logged_by is None:
        assert min_propensity is not None
        largest = np.full(actions, 1 / min_propensity)
    else:
        with np.errstate(invalid="ignore"):
            log_ratios = np.where(np.isneginf(logged_by), -np.inf, optimized - logged_by)
        largest = np.exp(log_ratios.max(axis=0))
    largest = np.maximum(largest, ratios.max())
    means = np.bincount(taken, ratios, minlength=actions) / rows
    squares = np.bincount(taken, ratios**2, minlength=actions) / rows
    chance = COVERAGE_FALSE_ALARM / actions
    limits = [
        mean_limit(rows, mean, max(square - mean**2, 0.0), top, chance) if rows > 1 else np.inf
        for mean, square, top in zip(means, squares, largest, strict=True)
    ]
    return np.array(limits), means
