"""The rows of a decision: columns of a table by name, who acted, and several months of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tether._core import frames, policy_calls, validate
from tether._core.arrays import Contexts, Floats, Frame, Integers, plain_array, plain_column
from tether._core.contexts import labels, take
from tether.control.log import Log
from tether.policies.categorical import Categorical, TableFunction
from tether.policies.logs import check_one_policy, checked_propensities
from tether.policies.policy import (
    Policy,
    TablePolicy,
    as_policy,
    picked,
    positions,
    shared_actions,
)
from tether.policies.probes import take_probes

WHOLE = 1e-3
"""Propensities of a context that come to 1 but for this show all that the old policy does there."""


@dataclass(frozen=True)
class LoggedRows:
    """Rows of one table or month: training rows, and those of a decision.

    Parameters
    ----------
    contexts, actions, rewards : array-like
        The columns; contexts may be a frame, or a number where there are none.
    losses : mapping of str to array-like
        The losses by name; in `choose` a single one has an empty name.
    policy : Policy, optional
        What acted: the safe policy of training rows; None is the old policy of a decision.
    """

    contexts: Any
    actions: NDArray[Any]
    losses: Mapping[str, Floats]
    rewards: Any = None
    policy: Any = None

    def __len__(self) -> int:
        return len(self.actions)

    def take(self, index: Integers) -> LoggedRows:
        """Select rows by their positions."""
        losses = {name: loss[index] for name, loss in self.losses.items()}
        rewards = None if self.rewards is None else self.rewards[index]
        columns = take(self.contexts, index), self.actions[index], losses, rewards
        return LoggedRows(*columns, self.policy)


@dataclass(frozen=True)
class Question:
    """What `decide` was asked: columns by name, and numbers."""

    action: str
    losses: list[str]
    context: str | list[str] | None
    propensity: str | float | None
    reward: str | None
    cost: str | None
    promise: float | Mapping[str, float] | None
    alpha: float | Mapping[str, float] | None
    bound: float | Mapping[str, float]
    confidence: float | None
    family: str | None
    min_propensity: float | None
    seed: int
    actions: list[Any] | None

    def contexts_of(self, frame: Any) -> Any:
        """The context columns of a frame; anything without named columns is contexts already."""
        if self.context is None:
            rows = frame[self.action] if isinstance(frame, Mapping) else frame
            return np.zeros(rows if isinstance(rows, int) else len(rows), dtype=np.int64)
        if not isinstance(frame, Mapping) and not hasattr(frame, "columns"):
            return frame
        if isinstance(self.context, str):
            return plain_array(frames.column(frame, "context", self.context))
        columns = [plain_array(frames.column(frame, "context", name)) for name in self.context]
        if hasattr(frame, "columns") and not hasattr(frame, "column_names"):
            return frame[list(self.context)]
        if len({each.dtype.kind in "biuf" or each.dtype.kind for each in columns}) > 1:
            columns = [each.astype(object) for each in columns]  # else numbers would become text
        return np.column_stack(columns)

    def read(self, frame: Frame) -> LoggedRows:
        """The rows of a frame; missing values are errors."""

        def column(argument: str, name: str) -> tuple[str, NDArray[Any]]:
            return f"{argument}: column {name!r}", frames.column(frame, argument, name)

        actions = plain_column(*column("action", self.action))
        losses = {name: validate.losses(*column("loss", name)) for name in self.losses}
        rewards = None
        for argument, sign in (("reward", 1.0), ("cost", -1.0)):
            if (name := getattr(self, argument)) is not None:
                rewards = sign * validate.floats(*column(argument, name), finite=True)
        return LoggedRows(self.contexts_of(frame), actions, losses, rewards)

    def propensities(self, frame: Frame, rows: int, *, finite: bool) -> Floats | None:
        """The recorded probabilities of the actions, where there are some."""
        if self.propensity is None:
            return None
        if isinstance(self.propensity, str):
            values = frames.column(frame, "propensity", self.propensity)
        else:
            values = np.full(rows, validate.real("propensity", self.propensity))
        return checked_propensities(values, rows, finite=finite)

    def as_policy(self, name: str, given: Any, known: NDArray[Any]) -> Policy:
        """A classifier, a function of the contexts or a policy, over the known actions."""
        actions = known if self.actions is None else np.asarray(self.actions)
        if getattr(given, "__name__", "") == "predict_proba":
            given = getattr(given, "__self__", given)  # the model knows the order of its classes
        if hasattr(given, "predict_proba"):
            return Categorical.from_classifier(given, actions)
        if callable(given) and not hasattr(given, "log_prob"):
            unnamed = self.actions is not None  # else nobody stated an order of the actions
            made: Any = TableFunction(given, "probabilities", 1.0, actions, may_be_unnamed=unnamed)
            return Categorical(made, actions)
        return as_policy(name, given)


class RecordedPolicy(TablePolicy):
    """The old policy as its recorded propensities tell it, in contexts that repeat."""

    def __init__(self, actions: NDArray[Any], known: Any, table: Floats) -> None:
        self.actions, self._known, self._table = actions, np.asarray(known), table

    def log_prob_all(self, contexts: Contexts) -> Floats:
        """One row for each context; a context that the table did not have is an error."""
        asked = labels(contexts)
        place = np.minimum(np.searchsorted(self._known, asked), len(self._known) - 1)
        unknown = self._known[place] != asked
        if unknown.any():
            raise ValueError(
                f"contexts: {int(unknown.sum())} of {len(asked)} are not in the table that the "
                f"decision was made on, so nothing is known of the old policy there: pass old="
            )
        return np.asarray(self._table[place])


def recorded_policy(
    month: LoggedRows, actions: NDArray[Any], recorded: Floats
) -> RecordedPolicy | None:
    """The old policy's table where the log shows all of it, or all but one action; else None."""
    check_one_policy(recorded, month.contexts, month.actions)
    known, place = np.unique(labels(month.contexts), return_inverse=True)
    table = np.full((len(known), len(actions)), np.nan)
    table[place, positions(actions, month.actions)] = recorded
    missing, total = np.isnan(table).sum(axis=1), np.nansum(table, axis=1)
    whole = np.abs(total - 1) <= WHOLE
    if not (whole | (missing == 1) & (total < 1)).all():
        return None
    rest = np.where(whole, 0.0, 1 - total)
    table = np.where(np.isnan(table), rest[:, None], table)
    with np.errstate(divide="ignore"):
        return RecordedPolicy(actions, known, np.log(table / table.sum(axis=1, keepdims=True)))


def pooled_log(
    old: Policy, new: Policy, months: tuple[LoggedRows, ...], losses: Mapping[str, Floats]
) -> Log:
    """All months in one log: the old policy is the safe one, and each row keeps who acted in it."""
    known: Any = shared_actions((old, new), ("old", "new"))
    rows = [len(month.actions) for month in months]
    acted = [old if month.policy is None else month.policy for month in months]

    def tables(policy: Any, name: str) -> Floats:
        each = [policy_calls.table(name, policy, month.contexts, known) for month in months]
        return np.concatenate([*map(np.broadcast_to, each, [(n, len(known)) for n in rows])])

    every = {"safe": tables(old, "old"), "optimized": tables(new, "new")}
    by_actor = [tables(policy, "served") for policy in acted]
    shares = np.log(np.array(rows) / sum(rows))
    mixed = [share + each for share, each in zip(shares, by_actor, strict=True)]
    every["mix"] = np.logaddexp.reduce(mixed, axis=0)
    who = np.repeat(np.arange(len(months)), rows)
    every["logged"] = np.stack(by_actor)[who, np.arange(len(who))]
    taken = positions(known, np.concatenate([month.actions for month in months]), "old")
    # over safe actions alone: what the safe policy never takes has no ratio
    possible = every["safe"] > -np.inf
    ratio = np.where(possible, every["safe"] - every["logged"], -np.inf).max(axis=1)
    by_safe = np.repeat([month.policy is None for month in months], rows)
    rewards = [month.rewards for month in months if month.rewards is not None]
    first = {name: every[name][: rows[0]] for name in ("safe", "optimized")}
    columns: dict[str, Any] = {f"log_{name}_all": table for name, table in every.items()}
    columns |= {f"log_{name}": picked(table, taken) for name, table in every.items()}
    return Log(
        dict(losses),
        **columns,
        context=np.concatenate([labels(month.contexts) for month in months]),
        safe_share=float(by_safe.mean()),
        reward=np.concatenate(rewards) if len(rewards) == len(months) else None,
        log_base_limit=np.maximum(ratio, 0.0),
        by_safe=by_safe,
        probes=take_probes({"safe": old, "optimized": new}, months[0].contexts, known, first),
    )
