"""What a selection says about its stability: how much depends on a single item."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Stability:
    """How much depends on a single item: how far the threshold moves, how much the loss rises.

    Parameters
    ----------
    epsilon : float
        The average over the items, the test item included, of the largest move of the threshold
        when that item is replaced by one that costs 0, or the bound, at every threshold.
    largest : float
        The largest of these moves.
    gap : float
        The average over the items of how much an item's own loss is larger at the threshold that
        the other items find than at the one that all find together; at least 0.
    lipschitz : float, optional
        K, where the user passed it: the losses are K-Lipschitz in the threshold.
    """

    epsilon: float
    largest: float
    gap: float
    lipschitz: float | None = None

    @property
    def term(self) -> float:
        """What the promise adds to alpha: K·epsilon where K is known, otherwise the gap."""
        return self.gap if self.lipschitz is None else self.lipschitz * self.epsilon
