"""Contexts with their candidates: what a shortlist picks from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tether._core.contexts import as_contexts, length, part, take
from tether._core.types import Integers


@dataclass(frozen=True, eq=False, repr=False)
class ShortlistRows:
    """One row per context, each with N candidates; it is passed wherever contexts are expected.

    To a policy that picks a candidate, the context and the candidates together are the context,
    and the position of the candidate is the action.

    Parameters
    ----------
    contexts : array, data frame or int
        One row per context, or the number of rows where there are no contexts.
    candidates : ndarray of shape (rows, N) or (rows, N, …)
        The candidates of each row: numbers, vectors, text or any other objects.

    Raises
    ------
    ValueError
        If candidates are not a table with one row per context.

    Examples
    --------
    >>> rows = ShortlistRows(np.array([1.0, 2.0]), np.array([["a", "b"], ["c", "d"]]))
    >>> rows, rows.picked(np.array([1, 0])).tolist()
    (ShortlistRows(2 rows of 2 candidates), ['b', 'c'])
    """

    contexts: Any
    candidates: NDArray[Any]

    def __post_init__(self) -> None:
        candidates = np.asarray(self.candidates)
        object.__setattr__(self, "candidates", candidates)
        if len(candidates):
            object.__setattr__(self, "contexts", as_contexts(self.contexts))
        if candidates.ndim < 2 or len(candidates) != length(self.contexts):
            raise ValueError(
                f"candidates must have shape (rows, N) or (rows, N, …) with "
                f"{length(self.contexts)} row(s), got shape {candidates.shape}"
            )

    @property
    def shape(self) -> tuple[int]:
        """The number of rows, as contexts have it."""
        return (len(self.candidates),)

    @property
    def size(self) -> int:
        """The number of candidates per row."""
        return int(self.candidates.shape[1])

    def __len__(self) -> int:
        return len(self.candidates)

    def __getitem__(self, index: slice | Integers) -> ShortlistRows:
        if isinstance(index, slice):
            start, stop, _ = index.indices(len(self))
            if (start, stop) == (0, len(self)):
                return self
            return ShortlistRows(part(self.contexts, start, stop), self.candidates[start:stop])
        return ShortlistRows(take(self.contexts, index), self.candidates[index])

    def __repr__(self) -> str:
        return f"ShortlistRows({len(self)} rows of {self.size} candidates)"

    def picked(self, index: Integers) -> NDArray[Any]:
        """The candidates at the given positions: the actions.

        Parameters
        ----------
        index : ndarray of int
            One position per row.

        Returns
        -------
        ndarray
            One candidate per row.
        """
        return np.asarray(self.candidates[np.arange(len(self)), index])

    def pairs(self) -> tuple[Any, NDArray[Any]]:
        """Every candidate with its context, row after row, as `log_prob` of a policy takes them.

        Returns
        -------
        contexts : array, data frame or int
            Each context N times, or the number of pairs.
        actions : ndarray
            The candidates.
        """
        rows = np.repeat(np.arange(len(self)), self.size)
        return take(self.contexts, rows), self.candidates.reshape(-1, *self.candidates.shape[2:])


def without_candidates(contexts: Any, actions: NDArray[Any]) -> tuple[Any, NDArray[Any]]:
    """Contexts and actions, also where they are candidates and positions among these."""
    if isinstance(contexts, ShortlistRows):
        return contexts.contexts, contexts.picked(actions)
    return contexts, actions
