"""What a loss model sees of an action in its context: numbers, with products of the two.

Actions that are few (or text) are indicators, one per action; others are their numbers and squares.
Columns of words in the contexts are indicators, too (`tether.aiming.context_numbers`).
The features are those of the context, those of the action, and all their products, so that a
linear model has a slope of its own for every action. A number of a context that is missing (NaN) or
infinite counts as the mean of its column. Policies may add their log-probabilities: a
safe policy rarely does what is harmful, so that what it rarely does is a first guess at what is.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tether._core import policy_calls
from tether._core.contexts import length, take
from tether._core.types import Floats
from tether.aiming.context_numbers import context_numbers, find_words
from tether.policies.picker import without_candidates
from tether.policies.policy import is_finite
from tether.policies.tables import positions

MAX_INDICATED_ACTIONS = 64
"""Up to this many different actions each has an indicator."""
MIN_ROWS_PER_INDICATOR = 3
"""Numbers that repeat less often than this are not labels, and have no indicators."""
MAX_CONTEXT_COLUMNS_WITH_PRODUCTS = 64
"""Up to this many columns of the contexts are multiplied with those of the action."""
LARGEST_POLICY_SCORE = 8.0
"""Log-probabilities are clipped at so many standard deviations from their mean."""


class PairFeatures:
    """Turns contexts and actions into a matrix of numbers, by a rule that is fixed by some rows.

    Parameters
    ----------
    contexts : array-like, data frame, int or ShortlistRows
        Contexts of training rows, or their number where there are none. With candidates, actions
        are positions among these, here and in every call.
    actions : ndarray
        Their actions.
    policies : sequence of Policy, default ()
        Policies whose log-probabilities are features, too.
    products : bool, default True
        Whether to multiply the columns of the context with those of the action.
    """

    def __init__(
        self,
        contexts: Any,
        actions: NDArray[Any],
        policies: Sequence[Any] = (),
        *,
        products: bool = True,
    ) -> None:
        self.policies = tuple(policies)
        given, taken = without_candidates(contexts, actions)
        self.indicated = _few_actions(taken)
        self.words = find_words(given)
        columns = context_numbers(given, len(taken), self.words)
        self.products = products and columns.shape[1] <= MAX_CONTEXT_COLUMNS_WITH_PRODUCTS
        self.means, self.scales = _mean_and_scale(columns)
        self.centers, self.spreads = np.zeros(len(self.policies)), np.ones(len(self.policies))
        for column, scores in enumerate(self._log_probabilities(contexts, actions).T):
            known = scores[np.isfinite(scores)]
            if len(known) and np.ptp(known) > 0:
                self.centers[column], self.spreads[column] = known.mean(), known.std()
            elif len(known):
                self.centers[column] = known[0]

    def without_products(self) -> PairFeatures:
        """The same features without products: for models that find these by themselves.

        Returns
        -------
        PairFeatures
            A copy.
        """
        other = copy(self)
        other.products = False
        return other

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
        taken = np.asarray(actions)
        return self._matrix(contexts, taken, self._log_probabilities(contexts, taken))

    def table(self, contexts: Any, actions: NDArray[Any]) -> Floats:
        """Compute the features of every action in every context.

        Parameters
        ----------
        contexts : array-like, data frame or int
            Contexts, or their number where there are none.
        actions : ndarray
            The actions.

        Returns
        -------
        ndarray of shape (contexts × actions, features)
            One row per pair: all actions in the first context, then in the next.
        """
        rows = length(contexts)
        pairs = take(contexts, np.repeat(np.arange(rows), len(actions)))
        tiled = np.tile(actions, rows)
        scores = np.empty((len(tiled), len(self.policies)))
        for column, policy in enumerate(self.policies):
            if is_finite(policy):
                listed = policy_calls.table("feature", policy, contexts)
                listed = listed[:, positions(policy.actions, actions)]
                scores[:, column] = np.broadcast_to(listed, (rows, len(actions))).ravel()
            else:
                scores[:, column] = policy_calls.score("feature", policy, pairs, tiled)
        return self._matrix(pairs, tiled, scores)

    def _matrix(self, contexts: Any, actions: NDArray[Any], scores: Floats) -> Floats:
        contexts, actions = without_candidates(contexts, actions)
        columns = context_numbers(contexts, len(actions), self.words)
        known = np.where(np.isfinite(columns), columns, self.means)
        given = (known - self.means) / self.scales
        taken = self._action_columns(actions)
        scores = (scores - self.centers) / self.spreads
        parts = [given, taken, np.clip(scores, -LARGEST_POLICY_SCORE, LARGEST_POLICY_SCORE)]
        if self.products:
            parts.append((given[:, :, None] * taken[:, None, :]).reshape(len(given), -1))
        return np.hstack(parts)

    def _log_probabilities(self, contexts: Any, actions: NDArray[Any]) -> Floats:
        scores = np.empty((len(actions), len(self.policies)))
        for column, policy in enumerate(self.policies):
            scores[:, column] = policy_calls.score("feature", policy, contexts, actions)
        return scores

    def _action_columns(self, actions: NDArray[Any]) -> Floats:
        if self.indicated is not None:
            return np.asarray(actions[:, None] == self.indicated[None], dtype=np.float64)
        numbers = actions.reshape(len(actions), -1).astype(np.float64)
        return np.hstack([numbers, numbers**2])


def _mean_and_scale(columns: Floats) -> tuple[Floats, Floats]:
    """The mean and standard deviation of the finite numbers in each column; 0 and 1 if none."""
    means, scales = np.zeros(columns.shape[1]), np.ones(columns.shape[1])
    for column, values in enumerate(columns.T):
        known = values[np.isfinite(values)]
        if len(known):
            means[column] = known.mean()
            scales[column] = (np.ptp(known) > 0 and known.std()) or 1.0
    return means, scales


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
