"""Scored labels: one score and one label per item, for a yes-or-no decision."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from tether._core import validate
from tether._core.row_indexes import check_row_indexes
from tether._core.types import Booleans, Floats
from tether.risk.claim_columns import binary_labels, finite_scores


@dataclass(frozen=True, eq=False)
class ScoredLabels:
    """One score and one binary label per item; an item is selected when score ≥ threshold.

    Items are assumed exchangeable (for `ltt`: independent and identically distributed).

    Parameters
    ----------
    scores : array_like
        One finite score per item.
    labels : array_like
        One label per item: booleans, or numbers that are 0 or 1.

    Raises
    ------
    TypeError
        If `scores` or `labels` do not hold real numbers.
    ValueError
        If a score is not finite, a label is not 0 or 1, or the lengths differ.

    Examples
    --------
    >>> ScoredLabels([0.9, 0.4, 0.7], [1, 0, 1])
    ScoredLabels(n_items=3, n_positive=2)
    """

    scores: Floats
    labels: Booleans

    def __init__(self, scores: ArrayLike, labels: ArrayLike) -> None:
        check_row_indexes({"scores": scores, "labels": labels})
        object.__setattr__(self, "scores", finite_scores("scores", scores))
        object.__setattr__(self, "labels", binary_labels("labels", labels))
        validate.same_length("labels", self.labels, "scores", len(self.scores))

    def __repr__(self) -> str:
        return f"ScoredLabels(n_items={self.n_items}, n_positive={int(self.labels.sum())})"

    @property
    def n_items(self) -> int:
        """The number of items."""
        return len(self.scores)

    def take(self, items: ArrayLike) -> ScoredLabels:
        """Select some of the items, in the given order.

        Parameters
        ----------
        items : array_like
            Item indices, or one boolean per item.

        Returns
        -------
        ScoredLabels
            The selected items.
        """
        chosen = np.asarray(items)
        return ScoredLabels(self.scores[chosen], self.labels[chosen])
