"""The training rows of a run as aiming takes them: who took the actions, and what they earned.

Calibration rows are left out here, once and for all: neither their losses nor their contexts reach
a loss model, a choice or a prediction.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tether._core import policy_calls
from tether._core.contexts import take
from tether._core.types import Booleans, Floats, Integers
from tether.aiming.training_rows import LoggedRows
from tether.control.blend import DEFAULT_BLEND, blend_scores
from tether.policies.mixture import Mixture
from tether.policies.policy import Policy
from tether.rounds.policy_registry import SAFE, PolicyRegistry
from tether.rounds.store.lanes import split_ids
from tether.rounds.store.rows import Rows

MAX_ROWS_TO_FIT = 10_000
"""Of more training rows, a random sample of this size is used to fit loss models."""
MAX_ROWS_TO_COMPARE = 2_000
"""Of these, a random sample of this size is used to choose a candidate."""
MAX_CONTEXTS_TO_PREDICT = 5_000
"""Predicted losses are averages over at most so many contexts of training rows."""


@dataclass(frozen=True)
class TrainingLog:
    """Training rows: those to fit loss models on, and those to choose by.

    `chosen_by` says what the rewards of the latter are, and `logged_by` which policy took the
    actions, where it was not the safe one alone.
    """

    to_fit: LoggedRows
    to_choose: LoggedRows
    chosen_by: str
    logged_by: Mixture | None


def read_training_log(
    rows: Rows,
    names: list[str],
    registry: PolicyRegistry,
    optimized: Policy,
    retired: frozenset[int],
    rng: np.random.Generator,
) -> TrainingLog | None:
    """The training rows whose losses are known, but for those of retired rounds; None if none.

    Without rewards the log ratio of the optimized to the safe policy takes their place: it is the
    reward for which the optimized policy is the best one at a price per nat of distance.
    """
    where = _to_fit(rows, retired, rng)
    if not len(where):
        return None
    to_fit = _logged(rows, names, where, rows.reward[where])
    rewarded = where[~np.isnan(rows.reward[where])]
    compared = _sample(rewarded if len(rewarded) else where, MAX_ROWS_TO_COMPARE, rng)
    rewards = rows.reward[compared]
    if not len(rewarded):
        contexts, actions = take(rows.contexts, compared), rows.actions[compared]
        log_optimized = policy_calls.score("optimized", optimized, contexts, actions)
        log_safe = rows.log_safe[compared]
        rewards = blend_scores(log_optimized, log_safe, DEFAULT_BLEND) - log_safe
    served, counts = np.unique(rows.served[compared], return_counts=True)
    logged_by = None
    if set(served.tolist()) != {SAFE}:
        policies = [registry.policy(int(number)) for number in served]
        logged_by = Mixture(policies, counts)
    return TrainingLog(
        to_fit,
        _logged(rows, names, compared, rewards),
        "reward" if len(rewarded) else "log ratio",
        logged_by,
    )


def read_rows_to_fit(rows: Rows, names: list[str], rng: np.random.Generator) -> LoggedRows | None:
    """The training rows whose losses are known, whoever took their actions; None if none."""
    where = _to_fit(rows, frozenset(), rng)
    return _logged(rows, names, where, rows.reward[where]) if len(where) else None


def is_training(rows: Rows) -> Booleans:
    """Which rows may be learned from."""
    return ~rows.calibration


def last_actions(seen: str) -> dict[str, int]:
    """The last action of each lane that has been read, given `Rows.seen`."""
    return {lane: last or 0 for lane, (last, _) in json.loads(seen).items()}


def prediction_contexts(rows: Rows, seen: Mapping[str, int]) -> Any:
    """Contexts of training rows, over which predicted losses are averaged; 1 without contexts.

    They are evenly spaced among the rows up to the last actions of lanes that were `seen`, whether
    their losses are known or not. None if there is no training row.
    """
    lanes, numbers = split_ids(rows.ids)
    known = np.zeros(len(rows), dtype=np.bool_)
    for lane, last in seen.items():
        known |= (lanes == int(lane)) & (numbers <= last)
    where = np.flatnonzero(is_training(rows) & known)
    if not len(where):
        return None
    if isinstance(rows.contexts, int):
        return 1
    count = min(len(where), MAX_CONTEXTS_TO_PREDICT)
    return take(rows.contexts, where[np.arange(count) * len(where) // count])


def _to_fit(rows: Rows, retired: frozenset[int], rng: np.random.Generator) -> Integers:
    known = rows.observed & is_training(rows) & ~np.isin(rows.served, list(retired))
    return _sample(np.flatnonzero(known), MAX_ROWS_TO_FIT, rng)


def _sample(where: Integers, most: int, rng: np.random.Generator) -> Integers:
    if len(where) <= most:
        return where
    return np.sort(rng.choice(where, size=most, replace=False))


def _logged(rows: Rows, names: list[str], where: Integers, rewards: Floats) -> LoggedRows:
    losses = dict(zip(names, rows.losses[where].T, strict=True))
    return LoggedRows(take(rows.contexts, where), rows.actions[where], losses, rewards)
