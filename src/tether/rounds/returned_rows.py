"""Rows that a run hands out: actions that were taken, and what an optimizer may learn from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from tether._core.arrays import Contexts, Floats, Integers, few
from tether.rounds.store.rows import Rows


@dataclass(frozen=True, repr=False)
class TakenActions:
    """Stored actions, with the ids under which their losses are observed.

    It can be used in place of an array of the actions.

    Parameters
    ----------
    ids : numpy.ndarray of int
        One id per action.
    actions : numpy.ndarray
        One action per row.
    contexts : array-like or int
        The contexts of the actions, or their number where there are no contexts.
    failure : str, optional
        The error message, if the safe policy took the actions because the round's policy failed.
    candidates : numpy.ndarray, optional
        In a run on shortlists, the candidates of each row, of which the action is one.
    served : int or numpy.ndarray of int, default 0
        The round whose policy took the actions, or one for each action; 0 is the safe policy.
    stored : bool, default True
        Whether they are in the store; otherwise they wait in the spool.
    """

    ids: Integers
    actions: NDArray[Any]
    contexts: Contexts
    failure: str = ""
    candidates: NDArray[Any] | None = None
    served: int | Integers = 0
    stored: bool = True

    def __repr__(self) -> str:
        failure = f", failure={self.failure!r}" if self.failure else ""
        return f"TakenActions({len(self)} actions {few(np.asarray(self.actions))}{failure})"

    def __len__(self) -> int:
        return len(self.ids)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.actions)

    def __getitem__(self, key: Any) -> Any:
        return self.actions[key]

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> NDArray[Any]:
        return np.array(self.actions, dtype=dtype, copy=bool(copy) or None)


@dataclass(frozen=True, repr=False)
class TrainingRows:
    """Rows that an optimizer may learn from, oldest first, as columns.

    Parameters
    ----------
    ids : numpy.ndarray of int
        The ids of the actions.
    round : numpy.ndarray of int
        The round of each action.
    contexts : array-like or int
        The contexts as they were passed to `act`, or their number where there are none.
    actions : numpy.ndarray
        One action per row.
    losses : mapping of str to numpy.ndarray of float
        The losses of each action, by name.
    reward : numpy.ndarray of float
        The reward of each action; NaN where none was passed to `observe`.
    log_prob : numpy.ndarray of float
        The log-probability under the policy that took the action; NaN where it is not known
        exactly. In a run on shortlists, of picking the action among its candidates.
    candidates : numpy.ndarray, optional
        In a run on shortlists, the candidates of each row, of which the action is one.
    """

    ids: Integers
    round: NDArray[np.int32]
    contexts: Any
    actions: NDArray[Any]
    losses: Mapping[str, Floats]
    reward: Floats
    log_prob: Floats
    candidates: NDArray[Any] | None = None

    @classmethod
    def select(
        cls, rows: Rows, where: Integers, taken: TakenActions, names: Sequence[str]
    ) -> TrainingRows:
        """Select rows of a run, given their actions as they were taken.

        Parameters
        ----------
        rows : Rows
            All rows of the run.
        where : ndarray of int
            The positions of the rows.
        taken : TakenActions
            Their actions.
        names : sequence of str
            The names of the losses.

        Returns
        -------
        TrainingRows
            The rows.
        """
        return cls(
            ids=taken.ids,
            round=rows.round[where],
            contexts=taken.contexts,
            actions=taken.actions,
            losses={name: rows.losses[where, k] for k, name in enumerate(names)},
            reward=rows.reward[where],
            log_prob=rows.log_prob[where],
            candidates=taken.candidates,
        )

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
