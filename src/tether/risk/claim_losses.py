"""The loss of an item as its claims enter or leave, one by one.

A loss of claims changes only when the threshold passes one of the item's own scores. So it is
enough to know it after each of these events, in their order from the safest threshold on; the rest
of the package does not need to know what the loss means.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from tether._core import validate
from tether._core.types import Booleans, Floats
from tether.risk.loss_words import LOSS_WORDS

LossFunction: TypeAlias = Callable[[Booleans, Booleans], float]


@dataclass(frozen=True)
class ClaimLoss:
    """A loss of an item's claims.

    `safer` is the safe direction: where larger thresholds are safer, claims enter as the threshold
    falls from +inf; where smaller ones are, claims leave as it rises from the lowest score.
    `after(supported)` takes blocks (items × claims, in the order of events) and returns the loss
    after each event; `before(supported)` returns it before the first event, one per item. Where a
    loss depends on counts alone, `from_counts(kept true, kept false, all true)` returns it at one
    threshold.
    """

    name: str
    safer: str
    after: Callable[[Booleans], Floats]
    before: Callable[[Booleans], Floats]
    from_counts: Callable[[Floats, Floats, Floats], Floats] | None = None


def _false_share(supported: Booleans) -> Floats:
    share: Floats = np.cumsum(~supported, axis=1, dtype=np.float64)
    share /= np.arange(1, supported.shape[1] + 1)
    return share


def _any_false(supported: Booleans) -> Floats:
    return np.logical_or.accumulate(~supported, axis=1).astype(np.float64)


def _missed_share(supported: Booleans) -> Floats:
    missed: Floats = np.cumsum(supported, axis=1, dtype=np.float64)
    missed /= np.maximum(missed[:, -1:], 1)  # an item without true claims cannot miss any
    return missed


def _zero_loss(supported: Booleans) -> Floats:
    return np.zeros(len(supported))


CLAIM_LOSSES = {
    "fdr": ClaimLoss(
        "fdr",
        "larger",
        _false_share,
        _zero_loss,
        lambda kept_true, kept_false, all_true: kept_false / np.maximum(kept_true + kept_false, 1),
    ),
    "any_false": ClaimLoss(
        "any_false",
        "larger",
        _any_false,
        _zero_loss,
        lambda kept_true, kept_false, all_true: np.minimum(kept_false, 1),
    ),
    "miss": ClaimLoss(
        "miss",
        "smaller",
        _missed_share,
        _zero_loss,
        lambda kept_true, kept_false, all_true: (all_true - kept_true) / np.maximum(all_true, 1),
    ),
}


def claim_loss(loss: str | LossFunction) -> ClaimLoss:
    """Look up a loss by name, or wrap a function `loss(supported, kept)`, called once per event.

    The function receives the labels of one item's claims and which of them are kept (two boolean
    arrays, highest scores first) and returns a number in [0, bound]. Larger thresholds, which
    keep fewer claims, count as safer.
    """
    if not callable(loss):
        return CLAIM_LOSSES[validate.choice("loss", loss, CLAIM_LOSSES)]

    name = getattr(loss, "__name__", type(loss).__name__)
    if name in LOSS_WORDS:
        raise ValueError(
            f"loss is a function called {name!r}, the name of a loss that comes with the package: "
            "the promise would state that one; give the function another name"
        )

    def checked_loss(supported: Booleans, kept: Booleans) -> float:
        value = loss(supported, kept)
        try:
            return float(value)
        except (TypeError, ValueError) as error:
            raise TypeError(f"loss {name!r} must return a number, got {value!r}") from error

    def after(supported: Booleans) -> Floats:
        size = supported.shape[1]
        kept = np.tri(size, dtype=np.bool_)
        return np.array([[checked_loss(row, kept[j]) for j in range(size)] for row in supported])

    def before(supported: Booleans) -> Floats:
        none_kept = np.zeros(supported.shape[1], dtype=np.bool_)
        return np.array([checked_loss(row, none_kept) for row in supported])

    return ClaimLoss(name, "larger", after, before)
