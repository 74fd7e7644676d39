"""Weighted items: a known shift between the calibration items and future ones.

With weights w_i ∝ (density of future items) / (density of calibration items), every sum over items
becomes a weighted one, and the test item enters with a weight of its own, which must not be
underestimated. This is the condition of policy control, with the loss as the moving part.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from tether._core import validate
from tether._core.types import Floats, Integers


@dataclass(frozen=True)
class ItemColumn:
    """A column of claims in parts that has one value per item: its role and its name."""

    role: str
    name: str


@dataclass(frozen=True, eq=False)
class ItemWeights:
    """One weight per item (None: all equal to 1) and the weight of the test item.

    Only proportions matter: all are divided by the largest, so that no sum can overflow.
    """

    values: Floats | None = None
    test: float = 1.0
    logs: Floats | None = None
    log_test: float | None = None  # as passed; None where the largest weight is used instead
    column: str | None = None  # where the weights are in a column of claims in parts

    @property
    def is_test_assumed(self) -> bool:
        """Whether the weight of the test item is only the largest that was seen."""
        return self.values is not None and self.log_test is None

    @classmethod
    def from_logs(cls, logs: Floats, log_test: float | None) -> ItemWeights:
        """Weights from their logarithms, which neither overflow nor underflow."""
        largest = float(logs.max(initial=-np.inf))
        if largest == -np.inf:
            raise ValueError("weights are all 0: no item counts")
        test = largest if log_test is None else log_test
        peak = max(largest, test)
        values = np.exp(logs - peak)
        if values.sum() == 0:
            raise ValueError(
                "weights underflow: the weight of the test item exceeds all of them by a factor "
                f"of e^{test - largest:.0f}"
            )
        return cls(validate.frozen(values), float(np.exp(test - peak)), logs, log_test)

    def take(self, items: Integers) -> ItemWeights:
        """The weights of some items; the test item keeps its own, or gets the largest of these."""
        return self if self.logs is None else self.from_logs(self.logs[items], self.log_test)

    def apply(self, values: Floats) -> Floats:
        """Multiply values, one per item, by the weights."""
        return values if self.values is None else values * self.values

    def total(self, n_items: int) -> float:
        """The sum of the weights of the calibration items."""
        if self.values is None:
            return float(n_items)
        validate.same_length("weights", self.values, "losses", n_items)
        return float(self.values.sum())

    def effective_sample_size(self, n_items: int) -> float:
        """(Σ w)² / Σ w²."""
        if self.values is None:
            return float(n_items)
        relative = self.values / self.values.max()
        return float(relative.sum() ** 2 / np.square(relative).sum())


def item_weights(
    weights: ArrayLike | ItemColumn | None,
    log_weights: ArrayLike | ItemColumn | None,
    test_weight: float | None,
    log_test_weight: float | None,
) -> ItemWeights:
    """Check weights or their logarithms; only their proportions matter.

    `test_weight` goes with `weights` and `log_test_weight` with `log_weights`. Without it the
    largest weight is used, which is conservative as far as the calibration items can show.
    """
    if isinstance(weights, ItemColumn) or isinstance(log_weights, ItemColumn):
        return _weights_in_parts(weights, log_weights, test_weight, log_test_weight)
    _require_scale("test_weight", test_weight, "weights", weights)
    _require_scale("log_test_weight", log_test_weight, "log_weights", log_weights)
    if weights is not None and log_weights is not None:
        raise ValueError("pass weights or log_weights, not both")
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
        valid = (values >= 0) & (values < np.inf)
        validate.reject("weights", values, ~valid, "a finite weight of at least 0")
    if test_weight is not None:
        test_weight = np.log(validate.number("test_weight", test_weight, above=0, below=np.inf))
    with np.errstate(divide="ignore"):
        return ItemWeights.from_logs(validate.frozen(np.log(values)), test_weight)


def _weights_in_parts(
    weights: ArrayLike | ItemColumn | None,
    log_weights: ArrayLike | ItemColumn | None,
    test_weight: float | None,
    log_test_weight: float | None,
) -> ItemWeights:
    """Weights that are a column of claims in parts, and the weight of the test item."""
    _require_scale("test_weight", test_weight, "weights", weights)
    _require_scale("log_test_weight", log_test_weight, "log_weights", log_weights)
    if weights is not None and log_weights is not None:
        raise ValueError("pass weights or log_weights, not both")
    column = weights if log_weights is None else log_weights
    assert isinstance(column, ItemColumn)
    if test_weight is not None:
        log_test_weight = float(
            np.log(validate.number("test_weight", test_weight, above=0, below=np.inf))
        )
    elif log_test_weight is not None:
        log_test_weight = validate.number(
            "log_test_weight", log_test_weight, above=-np.inf, below=np.inf
        )
    return ItemWeights(log_test=log_test_weight, column=column.name)


def _require_scale(name: str, value: float | None, scale: str, given: Any) -> None:
    if value is not None and given is None:
        raise ValueError(
            f"{name} = {value!r} needs {scale}, which set its scale; "
            "without weights every item, the test item included, has weight 1"
        )
