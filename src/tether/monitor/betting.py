"""Wealth from many bets at once, begun at every time: the engine of both monitors.

A unit of money is split over pairs (bet, starting time); each part waits as cash until its time
and then stakes everything on its bet, every round. If every bet is fair or worse, each part is a
supermartingale and so is their sum, whatever the split. A bet that begins when things go wrong has
lost nothing while they went well.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from tether._core.types import Floats

BLOCK = 512
"""Steps worked on together. A factor is at least 1/2, so a block loses at most 2^512: no more than
a float can hold next to 1."""

CHUNK = 2**14
"""Steps that a monitor turns into bets at a time."""


def log_cash(steps: Floats) -> Floats:
    """Log of the money that still waits after so many steps: 1/(1 + log(1 + t)), which never ends.

    The part that enters at step k is about 1/(k·log² k), nearly as even as an infinite sum allows.
    """
    return np.asarray(-np.log1p(np.log1p(steps)))


def log_entry(steps: Floats) -> Floats:
    """Log of what enters at step k = 1, 2, …: the difference of cash, without its cancellation."""
    return np.asarray(np.log(np.log1p(1 / steps)) + log_cash(steps) + log_cash(steps - 1))


@dataclass(frozen=True)
class Wealth:
    """The money after `seen` steps: what each bet holds; the rest is cash.

    `log_bets` has one row a bet and may have more axes, one game each (to simulate many at once).
    """

    seen: int
    log_bets: Floats

    @classmethod
    def start(cls, bets: int, games: tuple[int, ...] = ()) -> Self:
        """All cash."""
        return cls(0, np.full((bets, *games), -np.inf))

    def play(self, log_factors: Floats) -> tuple[Self, Floats]:
        """The money after more steps, and the log of the whole wealth after each of them.

        `log_factors` has the axes of `log_bets` and then time: the log of what one unit on a bet
        becomes in a step. Each must be at least log(1/2).
        """
        now, paths = self, []
        for begin in range(0, log_factors.shape[-1], BLOCK):
            now, path = now._block(log_factors[..., begin : begin + BLOCK])
            paths.append(path)
        return now, np.concatenate(paths, axis=-1)

    def _block(self, log_factors: Floats) -> tuple[Self, Floats]:
        steps = self.seen + np.arange(1.0, 1 + log_factors.shape[-1])
        growth = np.cumsum(log_factors, axis=-1)
        # Money that enters at k grows from k on: counted at the block's begin, it is worth
        # entry / growth before k. Its running sum times growth is what the bet holds.
        entries = log_entry(steps) - np.log(len(self.log_bets)) - (growth - log_factors)
        largest = np.maximum(self.log_bets, entries.max(axis=-1))[..., None]
        held = np.cumsum(np.exp(entries - largest), axis=-1)
        held += np.exp(self.log_bets[..., None] - largest)
        log_bets = growth + largest + np.log(held)
        cash = log_cash(steps)
        largest = np.maximum(log_bets.max(axis=0), cash)
        whole = np.exp(log_bets - largest).sum(axis=0) + np.exp(cash - largest)
        seen = self.seen + len(steps)
        return replace(self, seen=seen, log_bets=log_bets[..., -1]), largest + np.log(whole)
