"""The losses of claims and labels: what each measures, and its value after each event.

A loss of claims changes only when the threshold passes one of the item's own scores. So it is
enough to know it after each of these events, from the safest threshold on, as a function of how
many true and false claims the threshold has passed.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from tether._core import validate
from tether._core.arrays import Booleans, Floats, Integers

LossFunction: TypeAlias = Callable[[Booleans, Booleans], float]
FALSE_AMONG_SHOWN = "false_among_shown"

LOSS_WORDS = {
    "fdr": "mean over all items of the share of an item's shown claims that are false (0 where "
    "nothing is shown)",
    "any_false": "share of all items that show a false claim",
    "miss": "mean over all items of the share of an item's true claims that are not shown (0 where "
    "it has none)",
    FALSE_AMONG_SHOWN: "number of false claims shown, as a share of the expected number of all "
    "claims shown,",
    "false_discovery": "share of selected items that are negative",
    "false_positive": "share of negative items that are selected",
    "false_negative": "share of positive items that are not selected",
}
"""What the average of each loss is.

Of "false_among_shown" a mean of v ≤ share says that false ≤ share · shown − most_claims · (share −
v) ≤ v · shown, in expectation, since an item shows at most most_claims.
"""


@dataclass(frozen=True)
class ClaimLoss:
    """A loss of an item's claims, which enter, or leave where smaller thresholds are safer.

    `level(true, false, all_true)` is the loss once so many have done so, and `before` the loss
    before any; NaN makes it a rate among the items of which some have. Only items with the label
    `among` count, if it is given. The loss of an item with at least `falls_with` claims can fall as
    the threshold gets bolder. `binary` says that a loss is 0 or 1; `harmless` that it is known to
    be 0 at first.
    """

    name: str
    safer: str
    level: Callable[[Floats, Floats, Floats], Floats] | None
    before: float = 0.0
    falls_with: float = math.inf
    binary: bool = False
    harmless: bool = True
    shown: FalseAmongShown | None = None
    function: LossFunction | None = None
    among: bool | None = None


@dataclass(frozen=True)
class FalseAmongShown:
    """The loss behind "of all the claims that are shown, at most this share is false".

    The loss of an item is share + (false − share · shown) / most_claims, where both are numbers of
    its claims that are shown. Its mean is at most `share` exactly where false ≤ share · shown, all
    items taken together. Pass `promise=share` to `gcrc`, or `alpha=share` to `ltt`, and
    `thresholds`, the largest of which shows enough: at least most_claims · (1 − share) / share
    claims, and 1 / share more for each of them that is false.

    Parameters
    ----------
    share : float
        The tolerated share of false claims among all that are shown, such as 0.1.
    most_claims : int
        The largest number of claims that an item can have, by a limit that is enforced.

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
        self.require(np.array([len(supported)]), None)
        false = np.count_nonzero(kept & ~supported)
        return float(self.level(np.asarray(np.count_nonzero(kept) - false), np.asarray(false), 0))

    def level(self, true: Floats, false: Floats, all_true: object) -> Floats:
        """Return the losses of items that show so many true and false claims."""
        excess = false - self.share * (true + false)
        return np.asarray(np.clip(self.share + excess / self.most_claims, 0.0, 1.0))  # rounding

    def require(self, sizes: Integers, names: Any, thresholds: Any = ()) -> None:
        """Raise for an item with too many claims, or a walk that starts where nothing is shown."""
        longest = int(np.argmax(sizes))
        if sizes[longest] > self.most_claims:
            named = "an item" if names is None else f"item {names[longest].item()!r}"
            raise ValueError(
                f"most_claims = {self.most_claims}, but {named} has {sizes[longest]} claims"
            )
        if thresholds is None:
            needed = round(self.most_claims * (1 - self.share) / self.share, 9)
            raise ValueError(
                "thresholds are needed for FalseAmongShown, chosen before the labels are seen, the "
                f"largest of which shows most_claims · (1 − share) / share = {needed:g} claims"
            )


CLAIM_LOSSES = {
    "fdr": ClaimLoss(
        "fdr", "larger", lambda true, false, _: false / np.maximum(true + false, 1), falls_with=2
    ),
    "any_false": ClaimLoss(
        "any_false", "larger", lambda true, false, _: np.minimum(false, 1.0), binary=True
    ),
    "miss": ClaimLoss(
        "miss", "smaller", lambda true, false, all_true: true / np.maximum(all_true, 1)
    ),
}


_RATES = (
    ClaimLoss("false_discovery", "larger", lambda true, false, _: false, math.nan, 1, True, False),
    ClaimLoss("false_positive", "larger", lambda true, false, _: false, binary=True, among=False),
    ClaimLoss("false_negative", "smaller", lambda true, false, _: true, binary=True, among=True),
)
LABEL_LOSSES = {each.name: each for each in _RATES}
"""Rates of a yes-or-no decision: each item has one score, and is selected or not."""


def find_loss(loss: Any, bound: float, *, of_labels: bool) -> ClaimLoss:
    """Look up a loss by name, or wrap a function `loss(supported, kept)`, called once per event.

    The function receives the labels of one item's claims and which of them are kept (two boolean
    arrays, highest scores first) and returns a number in [0, bound]. Larger thresholds count as
    safer.
    """
    if callable(loss) and not isinstance(loss, FalseAmongShown) and not of_labels:
        name = getattr(loss, "__name__", type(loss).__name__)
        if name in LOSS_WORDS:
            raise ValueError(f"loss is a function with the name of another loss, {name!r}")
        return ClaimLoss(name, "larger", None, harmless=False, function=loss)
    if of_labels:
        chosen = LABEL_LOSSES[validate.choice("loss", loss, LABEL_LOSSES)]
    elif isinstance(loss, FalseAmongShown):
        chosen = ClaimLoss(
            FALSE_AMONG_SHOWN, "larger", loss.level, loss.share, 1, harmless=False, shown=loss
        )
    else:
        chosen = CLAIM_LOSSES[validate.choice("loss", loss or "fdr", CLAIM_LOSSES)]
    if bound < 1:
        raise ValueError(f"bound must be at least 1 for {chosen.name!r}, got {bound:g}")
    return chosen
