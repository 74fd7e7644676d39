"""Items that count unequally: a known shift between the items at hand and those to come.

With weights w_i ∝ (density of the items to come) / (density of the items at hand), every sum over
items becomes a weighted one, and the item to come enters with a weight of its own, which must not
be underestimated. This is the condition of policy control, with the loss as the moving part.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tether import _check
from tether._check import Floats


@dataclass(frozen=True, eq=False)
class ItemWeights:
    """One weight an item (None: all equal to 1) and the weight of the item to come."""

    values: Floats | None = None
    test: float = 1.0

    def take(self, items: Any) -> ItemWeights:
        """The weights of some items; the item to come keeps its own."""
        return self if self.values is None else ItemWeights(self.values[items], self.test)

    def apply(self, values: Floats) -> Floats:
        """Values, one an item, times the weights."""
        return values if self.values is None else values * self.values

    def total(self, items: int) -> float:
        """The sum of the weights of the items at hand."""
        if self.values is None:
            return float(items)
        _check.same_length("weights", self.values, "losses", items)
        return float(self.values.sum())

    def effective(self, items: int) -> float:
        """The effective sample size, (Σ w)² / Σ w²."""
        if self.values is None:
            return float(items)
        return float(self.values.sum() ** 2 / np.square(self.values).sum())


def item_weights(weights: Any, log_weights: Any, test_weight: Any) -> ItemWeights:
    """Weights as given, or from log ratios; only their proportions matter.

    `test_weight` is on the scale of what was given (a log ratio beside `log_weights`). Without it
    the largest weight stands in, which is conservative as far as the items at hand can tell.
    """
    if weights is None and log_weights is None:
        if test_weight is not None:
            raise ValueError(
                f"test_weight = {test_weight!r} needs weights or log_weights; "
                "without them every item, the one to come included, has weight 1"
            )
        return ItemWeights()
    if weights is not None and log_weights is not None:
        raise ValueError("give weights or log_weights, not both")
    if log_weights is not None:
        logs = _check.log_probabilities("log_weights", log_weights, zero=True)
        top = float(logs.max())
        test = top
        if test_weight is not None:
            test = _check.number("test_weight", test_weight, above=-np.inf, below=np.inf)
        peak = max(top, test)
        if peak == -np.inf:
            raise ValueError("log_weights are all -inf: no item counts")
        return ItemWeights(_check.frozen(np.exp(logs - peak)), float(np.exp(test - peak)))
    values = _check.losses("weights", weights)
    if values.max() == 0:
        raise ValueError("weights are all 0: no item counts")
    test = float(values.max())
    if test_weight is not None:
        test = _check.number("test_weight", test_weight, above=0, below=np.inf)
    return ItemWeights(values, test)
