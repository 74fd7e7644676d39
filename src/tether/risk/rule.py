"""What the four methods differ in, and what the user asks of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from tether._core import validate
from tether._core.safe_excess import SafeMean, bounded_safe_mean, safe_mean
from tether._core.ties import TIE_TOLERANCE
from tether._core.types import Floats, Integers
from tether.risk.item_weights import ItemWeights
from tether.risk.loss_inputs import LossInputs, LossNames, PerLoss
from tether.risk.promises import Promise
from tether.risk.risk_curve import Sweep
from tether.risk.selection_stability import Stability


class Target(NamedTuple):
    """What the user tolerates: "alpha", or "promise", the whole bound to be stated."""

    name: str
    value: Any

    @classmethod
    def of(
        cls, alpha: PerLoss | None, promise: PerLoss | None, thresholds: ArrayLike | None = None
    ) -> Target:
        """Exactly one of the two."""
        number = isinstance(thresholds, (int, float)) and not isinstance(thresholds, bool)
        if alpha is None and promise is None and number:
            raise ValueError(
                f"the second argument, {thresholds!r}, was taken as thresholds, and neither alpha "
                f"nor promise was passed: write promise={thresholds!r}"
            )
        validate.one_target(alpha, promise)
        return cls("promise", promise) if alpha is None else cls("alpha", alpha)


@dataclass(frozen=True)
class Request:
    """The user's arguments, besides the method."""

    losses: LossInputs
    thresholds: ArrayLike | None
    target: Target
    bound: PerLoss
    loss: LossNames
    weights: ItemWeights
    name: str | None = None
    item_indices: Integers | None = None  # among all items, where these are those of one group


def largest_conservative_sum(total: float, test: float, bound: float, alpha: float) -> float:
    """The largest sum of losses with a conservative risk of at most alpha."""
    return alpha * (total + test) * (1 + TIE_TOLERANCE) - test * bound


def _no_stability(sweeps: Sequence[Sweep], alphas: Sequence[float]) -> list[Stability | None]:
    return [None] * len(sweeps)


@dataclass(frozen=True)
class Rule:
    """One method: which sums it reads, where it stops, what it promises.

    `stop` returns, for each loss, the index of the chosen candidate (−1: none). `levels` returns
    the smallest alpha at which each candidate is chosen; it is None where the promise is alpha
    itself, so that there is nothing to search for. For claims in parts, `largest_sum` is the
    largest sum of losses that passes, `boldest` says whether candidates behind one that fails
    count, and `reads_items` whether single items near the limit are read again.
    """

    method: str
    stop: Callable[[Sequence[Sweep], Sequence[float]], list[int]]
    promise: Callable[[Sweep, float, Stability | None, float], Promise]
    levels: Callable[[Sweep], Floats] | None = None
    warnings: Callable[[Sweep], tuple[str, ...]] = lambda sweep: ()
    stability: Callable[[Sequence[Sweep], Sequence[float]], list[Stability | None]] = _no_stability
    lipschitz: float | None = None
    envelope: bool = False
    conservative: bool = True
    too_few: Callable[[Sweep, float], str | None] = lambda sweep, alpha: None
    largest_sum: Callable[[float, float, float, float], float] = largest_conservative_sum
    boldest: bool = False
    reads_items: bool = False
    settings: dict[str, Any] = field(default_factory=dict)

    def safest(self, sweep: Sweep) -> SafeMean | None:
        """The mean loss of the safest threshold; None where the promise does not depend on it."""
        if not self.conservative or sweep.among_selected or sweep.harmless_start:
            return None
        if sweep.safe_mean is not None:
            return sweep.safe_mean
        assert isinstance(sweep.total_weight, float)
        if sweep.read_losses is None or sweep.weighted:
            return bounded_safe_mean(
                float(sweep.sums[0]) / sweep.total_weight,
                sweep.bound,
                effective_rows=sweep.effective_sample_size,
                test_share=sweep.test_weight / (sweep.total_weight + sweep.test_weight),
            )
        blocks = sweep.read_losses(slice(0, 1), None)
        return safe_mean(np.concatenate([block[:, 0] for block in blocks]), sweep.bound)
