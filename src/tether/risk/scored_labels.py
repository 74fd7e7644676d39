"""Scored labels: one score and one label an item, for a yes or no decision."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tether._core import validate
from tether._core.types import Booleans, Floats
from tether.risk.claims import binary, finite


@dataclass(frozen=True, eq=False)
class ScoredLabels:
    """One score and one label (0 or 1) an item; an item is selected when score ≥ threshold.

    >>> ScoredLabels([0.9, 0.4, 0.7], [1, 0, 1])
    ScoredLabels(items=3, positive=2)
    """

    scores: Floats
    labels: Booleans

    def __init__(self, scores: Any, labels: Any) -> None:
        object.__setattr__(self, "scores", finite("scores", scores))
        object.__setattr__(self, "labels", binary("labels", labels))
        validate.same_length("labels", self.labels, "scores", len(self.scores))

    def __repr__(self) -> str:
        return f"ScoredLabels(items={self.items}, positive={int(self.labels.sum())})"

    @property
    def items(self) -> int:
        """How many items there are."""
        return len(self.scores)

    def take(self, items: Any) -> ScoredLabels:
        """Some items only, in the order given."""
        return ScoredLabels(self.scores[items], self.labels[items])
