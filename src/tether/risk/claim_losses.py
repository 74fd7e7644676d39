"""The loss of an item as its claims enter or leave, one by one.

A loss of claims changes only when the threshold passes one of the item's own scores. So it is
enough to know it after each of these events, in their order from the safest threshold on; the rest
of the package does not need to know what the loss means.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
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
    threshold. `settings` are the numbers that define the loss, for the record of a result.
    `can_fall` says that the loss of an item with several claims can fall as the threshold gets
    bolder, whether or not that of any item at hand does.
    """

    name: str
    safer: str
    after: Callable[[Booleans], Floats]
    before: Callable[[Booleans], Floats]
    from_counts: Callable[[Floats, Floats, Floats], Floats] | None = None
    settings: Mapping[str, float] = field(default_factory=dict)
    can_fall: bool = False


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
        can_fall=True,
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


FALSE_AMONG_SHOWN = "false_among_shown"
"""The name of the loss below, in results and on the command line."""


@dataclass(frozen=True)
class FalseAmongShown:
    """The loss behind "of all the claims that are shown, at most this share is false".

    The loss of an item is share + (false − share · shown) / most_claims, where both are numbers of
    its claims that are shown. It lies in [0, 1] for items of up to `most_claims` claims, and its
    mean is at most `share` exactly where false ≤ share · shown, all items taken together. It is not
    monotone, so `gcrc` and `ltt` can promise it and `crc` cannot; `monotonized_crc` never passes,
    since an item that shows nothing has a loss of `share` already, nor does `gcrc` with weights,
    for which it measures no stability. Pass `promise=share`, and `thresholds`: at the largest of
    them at least most_claims · (1 − share) / share claims must be shown, and 1 / share more for
    each of them that is false.

    Parameters
    ----------
    share : float
        The tolerated share of false claims among all that are shown, such as 0.1.
    most_claims : int
        The largest number of claims that an item can have, by a limit that is enforced.

    Raises
    ------
    TypeError
        If an argument is not a number.
    ValueError
        If `share` is not between 0 and 1, or `most_claims` is below 1.

    Examples
    --------
    >>> import numpy as np
    >>> loss = FalseAmongShown(0.1, most_claims=8)
    >>> supported, shown = np.array([True, True, False]), np.array([True, True, True])
    >>> round(loss(supported, shown), 4)  # 0.1 + (1 - 0.1 * 3) / 8
    0.1875
    """

    share: float
    most_claims: int

    def __post_init__(self) -> None:
        share = validate.number("share", self.share, above=0, below=1)
        object.__setattr__(self, "share", share)
        most = validate.integer("most_claims", self.most_claims, minimum=1)
        object.__setattr__(self, "most_claims", most)

    def __call__(self, supported: Booleans, kept: Booleans) -> float:
        """Return the loss of one item, from its labels and which of its claims are shown."""
        false, shown = np.count_nonzero(kept & ~supported), np.count_nonzero(kept)
        self._require_size(len(supported))
        return float(self._from_counts(np.asarray(shown - false), np.asarray(false), None))

    def _from_counts(self, kept_true: Floats, kept_false: Floats, all_true: object) -> Floats:
        excess = kept_false - self.share * (kept_true + kept_false)
        return np.asarray(np.clip(self.share + excess / self.most_claims, 0.0, 1.0))  # by rounding

    def _require_size(self, size: int) -> None:
        if size > self.most_claims:
            raise ValueError(
                f"most_claims = {self.most_claims}, but an item has {size} claims: name the "
                "largest number that an item can have, and enforce it where claims are shown"
            )

    def _after(self, supported: Booleans) -> Floats:
        self._require_size(supported.shape[1])
        false: Floats = np.cumsum(~supported, axis=1, dtype=np.float64)
        return self._from_counts(np.arange(1, supported.shape[1] + 1) - false, false, None)

    def _before(self, supported: Booleans) -> Floats:
        return np.full(len(supported), self.share)


def _shown_loss(loss: FalseAmongShown) -> ClaimLoss:
    """The loss as the sweeps read it."""
    settings = {"share": loss.share, "most_claims": loss.most_claims}
    calls = loss._after, loss._before, loss._from_counts
    return ClaimLoss(FALSE_AMONG_SHOWN, "larger", *calls, settings, can_fall=True)


def require_thresholds(loss: object, thresholds: object) -> None:
    """Raise for `FalseAmongShown` on a walk that starts where nothing is shown.

    Its loss is `share` there.
    """
    if thresholds is None and isinstance(loss, FalseAmongShown):
        raise ValueError(
            "thresholds are needed for FalseAmongShown, such as numpy.linspace(0.4, 0.9, 51), "
            "chosen before the labels are seen: above all scores nothing is shown, and no room is "
            "left for the next item; at the largest at least most_claims · (1 − share) / share = "
            f"{needed_shown(loss.share, loss.most_claims):g} claims must be shown"
        )


def require_bound(loss: object, bound: float) -> None:
    """Refuse a bound below 1, which the losses of the package reach, seen or not."""
    name = FALSE_AMONG_SHOWN if isinstance(loss, FalseAmongShown) else loss
    if bound < 1 and isinstance(name, str):
        raise ValueError(f"bound must be at least 1 for {name!r}, got {bound:g}")


def needed_shown(share: float, most_claims: float) -> float:
    """How many claims must be shown, none of them false, before the conservative risk is share.

    (n·share − share·shown / most_claims + 1) / (n + 1) ≤ share, solved for the number shown.
    """
    return round(most_claims * (1 - share) / share, 9)


def false_among_shown(
    losses: float, n_items: int, shown: int, share: float, most_claims: float
) -> int:
    """How many of the claims shown are false, from the sum of the losses."""
    return round(most_claims * (losses - n_items * share) + share * shown)


def claim_loss(loss: str | LossFunction) -> ClaimLoss:
    """Look up a loss by name, or wrap a function `loss(supported, kept)`, called once per event.

    The function receives the labels of one item's claims and which of them are kept (two boolean
    arrays, highest scores first) and returns a number in [0, bound]. Larger thresholds, which
    keep fewer claims, count as safer.
    """
    if isinstance(loss, FalseAmongShown):
        return _shown_loss(loss)
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
