"""Items that count unequally: a known shift between the items at hand and those to come.

With weights w_i ∝ (density of the items to come) / (density of the items at hand), every sum over
items becomes a weighted one, and the item to come enters with a weight of its own, which must not
be underestimated. This is the condition of policy control, with the loss as the moving part.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tether._core import validate
from tether._core.types import Floats


@dataclass(frozen=True, eq=False)
class ItemWeights:
    """One weight an item (None: all equal to 1) and the weight of the item to come.

    Only proportions matter: all are divided by the largest, so that no sum can overflow.
    """

    values: Floats | None = None
    test: float = 1.0
    logs: Floats | None = None
    log_test: float | None = None  # as given; None where the largest weight stands in

    @classmethod
    def from_logs(cls, logs: Floats, log_test: float | None) -> ItemWeights:
        """Weights by their logarithms, which neither overflow nor vanish."""
        top = float(logs.max(initial=-np.inf))
        if top == -np.inf:
            raise ValueError("weights are all 0: no item counts")
        test = top if log_test is None else log_test
        peak = max(top, test)
        values = np.exp(logs - peak)
        if values.sum() == 0:
            raise ValueError(
                "weights vanish beside the weight of the item to come: it is larger than all of "
                f"them by a factor of e^{test - top:.0f}"
            )
        return cls(validate.frozen(values), float(np.exp(test - peak)), logs, log_test)

    def take(self, items: Any) -> ItemWeights:
        """The weights of some items; the item to come has its own, or the largest of these."""
        return self if self.logs is None else self.from_logs(self.logs[items], self.log_test)

    def apply(self, values: Floats) -> Floats:
        """Values, one an item, times the weights."""
        return values if self.values is None else values * self.values

    def total(self, items: int) -> float:
        """The sum of the weights of the items at hand."""
        if self.values is None:
            return float(items)
        validate.same_length("weights", self.values, "losses", items)
        return float(self.values.sum())

    def effective_sample_size(self, items: int) -> float:
        """(Σ w)² / Σ w²."""
        if self.values is None:
            return float(items)
        shares = self.values / self.values.max()
        return float(shares.sum() ** 2 / np.square(shares).sum())


def item_weights(
    weights: Any, log_weights: Any, test_weight: Any, log_test_weight: Any
) -> ItemWeights:
    """Weights as given, or from log ratios; only their proportions matter.

    `test_weight` goes with `weights` and `log_test_weight` with `log_weights`. Without it the
    largest weight stands in, which is conservative as far as the items at hand can tell.
    """
    _belongs("test_weight", test_weight, "weights", weights)
    _belongs("log_test_weight", log_test_weight, "log_weights", log_weights)
    if weights is not None and log_weights is not None:
        raise ValueError("give weights or log_weights, not both")
    if log_weights is not None:
        logs = validate.log_probabilities("log_weights", log_weights, zero=True)
        if logs.max() == -np.inf:
            raise ValueError("log_weights are all -inf: no item counts")
        if log_test_weight is not None:
            log_test_weight = validate.number(
                "log_test_weight", log_test_weight, above=-np.inf, below=np.inf
            )
        return ItemWeights.from_logs(logs, log_test_weight)
    if weights is None:
        return ItemWeights()
    values = validate.floats("weights", weights)
    if not (values.min() >= 0 and values.max() < np.inf):  # NaN fails this too
        good = (values >= 0) & (values < np.inf)
        validate.reject("weights", values, ~good, "a finite weight of at least 0")
    if test_weight is not None:
        test_weight = np.log(validate.number("test_weight", test_weight, above=0, below=np.inf))
    with np.errstate(divide="ignore"):
        return ItemWeights.from_logs(validate.frozen(np.log(values)), test_weight)


def _belongs(name: str, value: Any, other: str, given: Any) -> None:
    if value is not None and given is None:
        raise ValueError(
            f"{name} = {value!r} needs {other}, on whose scale it is; "
            "without weights every item, the one to come included, has weight 1"
        )
