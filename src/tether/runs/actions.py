"""Rows that a run hands out: actions that were taken, and what an optimizer may learn from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tether._core import validate
from tether._core.arrays import Contexts, Floats, Integers, few, plain_array, shown
from tether.policies.shortlist import ShortlistRows
from tether.runs.shares import Guardrail
from tether.runs.state import LOSS, State

WAITED = 1 << 62
"""Ids from here on were handed out while the store was unavailable."""
CALL_BITS = 21
"""How many bits of such an id count the rows of its call."""

Losses = ArrayLike | Mapping[str, ArrayLike]
"""Losses as they are observed: those of the only loss of a run, or some of its losses by name."""


@dataclass(frozen=True, repr=False)
class Actions:
    """Stored actions, with the ids under which their losses are observed.

    Parameters
    ----------
    ids : numpy.ndarray of int
        One id per action.
    actions : numpy.ndarray
        One action per row.
    contexts : array-like or int
        The contexts of the actions, or their number where there are no contexts.
    served : numpy.ndarray of int
        The round whose policy took each action; 0 is the safe policy.
    candidates : numpy.ndarray, optional
        In a run on shortlists, the candidates of each row, of which the action is one.
    failure : str, optional
        The error message, if the safe policy took the actions because the round's policy failed.
    stored : bool, default True
        Whether they are in the store; otherwise they wait in the outbox.
    """

    ids: Integers
    actions: NDArray[Any]
    contexts: Contexts
    served: Integers
    candidates: NDArray[Any] | None = None
    failure: str = ""
    stored: bool = True

    @classmethod
    def of(cls, ids: Integers, contexts: Any, actions: Any, served: Any, **more: Any) -> Actions:
        """Rows as they are stored; positions among candidates become the candidates."""
        if isinstance(contexts, ShortlistRows):
            more["candidates"] = contexts.candidates
            actions, contexts = contexts.picked(actions), contexts.contexts
        return cls(ids, actions, contexts, np.broadcast_to(served, ids.shape), **more)

    def __repr__(self) -> str:
        failure = f", failure={self.failure!r}" if self.failure else ""
        return f"Actions({len(self)} actions {few(np.asarray(self.actions))}{failure})"

    def __len__(self) -> int:
        return len(self.ids)


@dataclass(frozen=True, repr=False)
class TrainingRows:
    """Rows that an optimizer may learn from, oldest first, as columns.

    Parameters
    ----------
    ids, contexts, actions, candidates
        As in `Actions`.
    round : numpy.ndarray of int
        The round of each action.
    losses : mapping of str to numpy.ndarray of float
        The losses of each action, by name.
    reward : numpy.ndarray of float
        The reward of each action; NaN where none was passed to `observe`.
    log_prob : numpy.ndarray of float
        The log-probability under the policy that took the action; NaN where it is not known
        exactly. In a run on shortlists, of picking the action among its candidates.
    """

    ids: Integers
    round: Integers
    contexts: Any
    actions: NDArray[Any]
    losses: Mapping[str, Floats]
    reward: Floats
    log_prob: Floats
    candidates: NDArray[Any] | None = None

    def __repr__(self) -> str:
        return f"TrainingRows({len(self)} rows, losses {list(self.losses)})"

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def loss(self) -> Floats:
        """The loss of each action, where the run has one loss; otherwise an error."""
        if len(self.losses) > 1:
            raise ValueError(f"the run has the losses {list(self.losses)}: use `losses` by name")
        return next(iter(self.losses.values()))


def checked_ids(ids: ArrayLike | Actions) -> Integers:
    """Ids as an array, each once; what `act` returned stands for its ids."""
    if isinstance(ids, (Actions, TrainingRows)):
        ids = ids.ids
    array = np.atleast_1d(plain_array(ids))
    if array.dtype.kind not in "iu" or array.ndim != 1 or not len(array):
        raise TypeError(f"ids must be integers returned by `act`, got {shown(ids)}")
    listed, counts = np.unique(array, return_counts=True)
    if len(listed) < len(array):
        raise ValueError(
            f"ids must be unique, got {listed[counts > 1][:5].tolist()} more than once"
        )
    return array.astype(np.int64)


def rows_of(state: State, ids: Integers) -> Integers:
    """The rows with these ids; an error names ids that the store has not assigned."""
    rows = ids.copy()
    for place in np.flatnonzero(ids >= WAITED).tolist():
        first = int(ids[place]) >> CALL_BITS << CALL_BITS
        rows[place] = state.waited.get(first, -1 << 40) + int(ids[place]) - first
    unknown = ids[(rows < 0) | (rows >= state.rows.size)]
    if len(unknown):
        raise ValueError(
            f"ids {unknown[:5].tolist()} are unknown ({len(unknown)} of {len(ids)}): this run has "
            f"not assigned them. Nothing was stored"
        )
    if len(np.unique(rows)) < len(rows):  # by its id in the outbox and by that of its row
        raise ValueError(f"ids must name each action once, got {ids[:5].tolist()}")
    return rows


def named_losses(
    losses: Losses,
    limits: Mapping[str, Guardrail],
    count: int,
    *,
    name: str = "losses",
    of: str = "ids",
) -> dict[str, Floats]:
    """Losses as columns, each in [0, bound]; NaN where one is not known yet."""
    if not isinstance(losses, Mapping):
        if len(limits) > 1:
            raise TypeError(
                f"{name} must be a mapping with some of the names {list(limits)}, since the run "
                f"has several losses; got {type(losses).__name__}"
            )
        losses = {next(iter(limits)): losses}
    if not losses or not set(losses) <= set(limits):
        raise ValueError(f"{name} must have names among {list(limits)}, got {list(losses)}")
    found = {}
    for key, given in losses.items():
        word, bound = f"{name}[{key!r}]", limits[key].bound
        found[LOSS + key] = values = validate.floats(word, np.atleast_1d(plain_array(given)))
        validate.same_length(word, values, of, count)
        outside = (values < 0) | (values > bound)
        if outside.any():
            validate.reject(word, values, outside, f"a loss from 0 to {bound:g}")
    return found
