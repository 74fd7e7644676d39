"""What a loss model sees of an action in its context: numbers, with products of the two.

Actions that are few (or text) are indicators, one per action; others are their numbers and squares.
The features are those of the context, those of the action, and all their products, so that a
linear model has a slope of its own for every action.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tether._core.types import Floats
from tether.policies.shortlist_rows import ShortlistRows

MAX_INDICATED_ACTIONS = 64
"""Up to this many different actions each has an indicator."""
MIN_ROWS_PER_INDICATOR = 3
"""Numbers that repeat less often than this are not labels, and have no indicators."""
MAX_CONTEXT_COLUMNS_WITH_PRODUCTS = 64
"""Up to this many columns of the contexts are multiplied with those of the action."""


class PairFeatures:
    """Turns contexts and actions into a matrix of numbers, by a rule that is fixed by some rows.

    Parameters
    ----------
    contexts : array-like, data frame, int or ShortlistRows
        Contexts of training rows, or their number where there are none. With candidates, actions
        are positions among these, here and in every call.
    actions : ndarray
        Their actions.
    """

    def __init__(self, contexts: Any, actions: NDArray[Any]) -> None:
        contexts, actions = _without_candidates(contexts, actions)
        self.indicated = _few_actions(actions)
        columns = _context_columns(contexts, len(actions))
        self.means, self.scales = columns.mean(axis=0), columns.std(axis=0)
        self.scales[self.scales == 0] = 1.0

    def __call__(self, contexts: Any, actions: NDArray[Any]) -> Floats:
        """Compute the features of each action in its context.

        Parameters
        ----------
        contexts : array-like, data frame, int or ShortlistRows
            One row per action, or their number.
        actions : ndarray
            The actions.

        Returns
        -------
        ndarray of shape (actions, features)
            One row per action.
        """
        contexts, actions = _without_candidates(contexts, np.asarray(actions))
        given = (_context_columns(contexts, len(actions)) - self.means) / self.scales
        taken = self._action_columns(actions)
        parts = [given, taken]
        if given.shape[1] <= MAX_CONTEXT_COLUMNS_WITH_PRODUCTS:
            parts.append((given[:, :, None] * taken[:, None, :]).reshape(len(given), -1))
        return np.hstack(parts)

    def _action_columns(self, actions: NDArray[Any]) -> Floats:
        if self.indicated is not None:
            return np.asarray(actions[:, None] == self.indicated[None], dtype=np.float64)
        numbers = actions.reshape(len(actions), -1).astype(np.float64)
        return np.hstack([numbers, numbers**2])


def _without_candidates(contexts: Any, actions: NDArray[Any]) -> tuple[Any, NDArray[Any]]:
    """Contexts and actions, also where they are candidates and positions among these."""
    if isinstance(contexts, ShortlistRows):
        return contexts.contexts, contexts.picked(actions)
    return contexts, actions


def _few_actions(actions: NDArray[Any]) -> NDArray[Any] | None:
    """The different actions, if they are few or text; None if they are numbers."""
    if actions.ndim == 1:
        different = np.unique(actions)
        few = len(different) <= min(MAX_INDICATED_ACTIONS, len(actions) // MIN_ROWS_PER_INDICATOR)
        if few or actions.dtype.kind not in "fiub":
            return different
    if actions.dtype.kind not in "fiub":
        raise TypeError(
            f"actions must be numbers, or one label per row, got dtype {actions.dtype}: pass a "
            f"loss model of your own"
        )
    return None


def _context_columns(contexts: Any, rows: int) -> Floats:
    if isinstance(contexts, int):
        return np.zeros((rows, 0))
    table = np.asarray(contexts)
    if table.dtype.kind not in "fiub":
        raise TypeError(
            f"contexts must hold numbers, got dtype {table.dtype}: pass a loss model of your own"
        )
    return table.reshape(len(table), -1).astype(np.float64)
