"""Checks of what is observed: ids that were assigned, each once, and losses that do not change."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import sqlalchemy as sql
from numpy.typing import ArrayLike

from tether._core import validate
from tether._core.arrays import Booleans, Floats, Integers, check_row_indexes, plain_array, shown
from tether.rounds.errors import FinalLossError
from tether.rounds.limits import Limits
from tether.rounds.store import schema
from tether.rounds.store.lanes import Lane, split_ids
from tether.rounds.store.queries import IDS_PER_QUERY, is_among, null_for_nan

MAX_IDS_SHOWN = 5
"""How many ids an error message lists."""
LARGEST_REWARD = 1e150
"""Larger rewards are refused: their squares would not fit in a float."""

Losses = ArrayLike | Mapping[str, ArrayLike]
"""Losses as they are observed: those of the only loss of a run, or some of its losses by name."""


@dataclass(frozen=True)
class NewObservations:
    """Losses of actions: `which` of the run's losses, and its value; or why they have none.

    An action occurs once for each loss. The reward of an action is at one of them, and NaN at the
    others. Actions with a `reason` are withdrawn.
    """

    action: Integers
    which: Integers
    loss: Floats
    reward: Floats
    reason: str | None = None

    def __len__(self) -> int:
        return len(self.action)

    @cached_property
    def ids(self) -> Integers:
        """The actions, each once."""
        return np.unique(self.action)

    def by_loss(self, limits: Limits) -> dict[str, Integers]:
        """The actions that each loss is of, by the name of the loss."""
        return {name: self.action[self.which == place] for place, name in enumerate(limits)}

    def columns(self) -> dict[str, list[Any]]:
        """As the database takes them."""
        return {
            "action": self.action.tolist(),
            "which": self.which.tolist(),
            "loss": null_for_nan(self.loss),
            "reward": null_for_nan(self.reward),
            "reason": [self.reason] * len(self),
        }


def observations(
    ids: ArrayLike, losses: Losses, rewards: ArrayLike | None, limits: Limits
) -> NewObservations:
    """Losses, and maybe rewards, of actions, checked as far as they can be without the store."""
    check_row_indexes({"ids": ids, "losses": losses, "rewards": rewards})
    numbers = checked_ids(ids)
    named = _by_name(losses, limits)
    names, arrays = list(limits), []
    for name, values in named.items():
        argument = "losses" if values is losses else f"losses[{name!r}]"
        _refuse_unknown_losses(argument, values)
        loss, bound = validate.losses(argument, values), limits[name].bound
        validate.same_length(argument, loss, "ids", len(numbers))
        validate.reject_above_bound(argument, loss, bound)
        arrays.append(loss)
    reward = np.full(len(numbers), np.nan)
    if rewards is not None:
        reward = validate.floats("rewards", rewards)
        validate.same_length("rewards", reward, "ids", len(numbers))
        bad = ~(np.abs(reward) <= LARGEST_REWARD)
        if bad.any():
            accepted = f"a finite reward of at most {LARGEST_REWARD:g} either way"
            validate.reject("rewards", reward, bad, accepted)
    which = np.array([names.index(name) for name in named])
    count = len(arrays)
    order = np.argsort(numbers, kind="stable")  # in one order, so that no two writers deadlock
    return NewObservations(
        np.repeat(numbers[order], count),
        np.tile(which, len(numbers)),
        np.stack(arrays, axis=1)[order].ravel(),
        np.repeat(reward[order], count),
    )


def _refuse_unknown_losses(argument: str, values: ArrayLike) -> None:
    """Refuse NaN: an observation is final, and one that is not known yet comes later."""
    array = plain_array(values)
    if array.dtype.kind == "f" and np.isnan(array).any():
        accepted = "a known loss; do not report one yet that is not known, it may come later"
        validate.reject(argument, np.atleast_1d(array), np.isnan(np.atleast_1d(array)), accepted)


def withdrawals(ids: ArrayLike, reason: str) -> NewObservations:
    """Actions that were never carried out, and why."""
    numbers = np.sort(checked_ids(ids))
    nothing = np.full(len(numbers), np.nan)
    return NewObservations(numbers, np.zeros(len(numbers), np.int64), nothing, nothing, reason)


def checked_ids(ids: ArrayLike) -> Integers:
    """Ids as an array, each once; what `act` returned stands for its ids."""
    if hasattr(ids, "ids") and hasattr(ids, "actions"):
        ids = ids.ids  # as an array it would be one of actions
    validate.reject_masked("ids", ids)
    array = np.atleast_1d(plain_array(ids))
    if array.dtype.kind not in "iu" or array.ndim != 1 or not len(array):
        raise TypeError(f"ids must be integers returned by `act`, got {shown(ids)}")
    if array.dtype.kind == "u" and array.max() > np.iinfo(np.int64).max:
        raise ValueError(f"ids must be integers returned by `act`, got {array.max()}")
    unique, counts = np.unique(array, return_counts=True)
    if len(unique) < len(array):
        repeated = unique[counts > 1].tolist()
        raise ValueError(f"ids {_listed(repeated)} occur more than once: pass each id once")
    return array.astype(np.int64)


def check_known(reached: Mapping[int, Lane], numbers: Integers) -> None:
    """Refuse ids that the store has not assigned in its lanes."""
    lanes, in_lane = split_ids(numbers)
    last = {lane: each.last_action for lane, each in reached.items()}
    largest = np.array([last.get(lane, 0) if lane >= 0 else 0 for lane in lanes.tolist()])
    unknown = numbers[(in_lane < 1) | (in_lane > largest)]
    if len(unknown):
        raise ValueError(
            f"ids {_listed(unknown.tolist())} are unknown ({len(unknown)} of {len(numbers)}): the "
            f"store has not assigned them, and nothing of this call was stored"
        )


def without_repeated(connection: sql.Connection, given: NewObservations) -> NewObservations:
    """The observations that are not stored yet; one that differs from what is stored is refused."""
    stored = _read_stored(connection, given.ids)
    if not stored:
        return _with_one_reward(given)
    rows = list(zip(given.action.tolist(), given.which.tolist(), strict=True))
    is_new = np.array([not stored[action].has(which) for action, which in rows])
    in_part_new = set(given.action[is_new].tolist())
    different = set()
    for (action, which), loss, reward in zip(rows, given.loss, given.reward, strict=True):
        known = stored[action]
        reward_differs = not np.isnan(reward) and not (
            (np.isnan(known.reward) and action in in_part_new) or known.reward == reward
        )
        if reward_differs or not known.agrees(which, loss):
            different.add(action)
    if different:
        raise FinalLossError(
            f"ids {_listed(sorted(different))} were already observed or withdrawn with another "
            f"result ({len(different)} of {len(given.ids)}): a loss is final, and nothing of this "
            f"call was stored",
            sorted(different),
        )
    _check_same_reason(given, stored)
    rewarded = np.array([not np.isnan(stored[action].reward) for action, _ in rows])
    reward = np.where(rewarded, np.nan, given.reward)
    return _with_one_reward(replace(given, reward=reward), is_new)


def without_observed(connection: sql.Connection, given: NewObservations) -> NewObservations:
    """The observations of actions and losses of which nothing is stored yet, whatever it is."""
    stored = _read_stored(connection, given.ids)
    rows = zip(given.action.tolist(), given.which.tolist(), strict=True)
    is_new = np.array([not stored[action].has(which) for action, which in rows])
    return _with_one_reward(given, is_new)


def _check_same_reason(given: NewObservations, stored: Mapping[int, _Stored]) -> None:
    """Refuse another reason for actions that are withdrawn already."""
    different = [
        action
        for action in given.action.tolist()
        if stored[action].withdrawn and stored[action].reason != given.reason
    ]
    if different:
        raise ValueError(
            f"reason is {given.reason!r}, but id {different[0]} was withdrawn with the reason "
            f"{stored[different[0]].reason!r} ({len(different)} of {len(given)} have another): the "
            f"first reason is final, and nothing of this call was stored"
        )


@dataclass
class _Stored:
    """What is stored of an action."""

    losses: dict[int, float] = field(default_factory=dict)
    reward: float = np.nan
    withdrawn: bool = False
    reason: str | None = None

    def has(self, which: int) -> bool:
        """Whether there is nothing to add for one of the losses."""
        return self.withdrawn or which in self.losses

    def agrees(self, which: int, loss: float) -> bool:
        """Whether an observation, or a withdrawal, contradicts nothing that is stored."""
        if np.isnan(loss) or self.withdrawn:
            return bool(np.isnan(loss)) and (self.withdrawn or not self.losses)
        return self.losses.get(which, loss) == loss


def _read_stored(connection: sql.Connection, numbers: Integers) -> defaultdict[int, _Stored]:
    """What is stored of actions; of those of which nothing is, there is no entry."""
    table = schema.observations
    stored: defaultdict[int, _Stored] = defaultdict(_Stored)
    for start in range(0, len(numbers), IDS_PER_QUERY):
        batch = numbers[start : start + IDS_PER_QUERY].tolist()
        names = ("action", "which", "loss", "reward", "reason")
        query = sql.select(*(table.c[name] for name in names))
        among = is_among(connection, table.c.action, batch)
        for action, which, loss, reward, reason in connection.execute(query.where(among)):
            of_action = stored[action]
            if loss is None:
                of_action.withdrawn, of_action.reason = True, reason
            else:
                of_action.losses[which] = loss
            if reward is not None:
                of_action.reward = reward
    return stored


def _with_one_reward(given: NewObservations, where: Booleans | None = None) -> NewObservations:
    """Some of the observations, with the reward of an action at the first of its losses alone."""
    kept = np.arange(len(given)) if where is None else np.flatnonzero(where)
    _, first = np.unique(given.action[kept], return_index=True)
    reward = np.full(len(kept), np.nan)
    reward[first] = given.reward[kept[first]]
    return NewObservations(
        given.action[kept], given.which[kept], given.loss[kept], reward, given.reason
    )


def _by_name(losses: Losses, limits: Limits) -> Mapping[str, ArrayLike]:
    """Losses by name; without names they are those of the only loss."""
    if not isinstance(losses, Mapping):
        if len(limits) > 1:
            raise TypeError(
                f"losses must be a mapping with some of the names {list(limits)}, since the run "
                f"has several losses; got {type(losses).__name__}"
            )
        return {next(iter(limits)): losses}
    if not losses or not set(losses) <= set(limits):
        raise ValueError(f"losses must have names among {list(limits)}, got {list(losses)}")
    return losses


def _listed(numbers: list[int]) -> str:
    more = ", …" if len(numbers) > MAX_IDS_SHOWN else ""
    return f"{', '.join(map(str, numbers[:MAX_IDS_SHOWN]))}{more}"
