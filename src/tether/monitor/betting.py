"""Wealth from many bets at once, started at every time: the engine of both monitors.

One unit of money is split over pairs (bet, starting time). Each part waits as cash until its
starting time, and from then on stakes everything on its bet at every step. If every bet is fair or
unfavourable, each part is a supermartingale, and so is their sum, whatever the split. A bet that
starts when the null hypothesis begins to fail has lost nothing while it held.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from tether._core.types import Floats

STEPS_PER_BLOCK = 512
"""Steps computed together. A factor is at least 1/2, so a block loses at most a factor of 2^512,
which a float can still represent next to 1."""

STEPS_PER_UPDATE = 2**14
"""Steps that a monitor turns into bets at a time, which bounds its memory."""


def log_cash(steps: Floats) -> Floats:
    """Log of the cash left after so many steps: 1/(1 + log(1 + t)), which is never used up.

    The part that enters at step k is about 1/(k·log² k), nearly as even as an infinite sum allows.
    """
    return np.asarray(-np.log1p(np.log1p(steps)))


def log_entry(steps: Floats) -> Floats:
    """Log of the cash that enters at step k = 1, 2, …: cash(k − 1) − cash(k), no cancellation."""
    return np.asarray(np.log(np.log1p(1 / steps)) + log_cash(steps) + log_cash(steps - 1))


@dataclass(frozen=True)
class Wealth:
    """The wealth after `seen` steps: log of what each bet holds; the rest is cash.

    `log_bets` has one row per bet, and may have more axes, one entry per game, to simulate many
    games at once.
    """

    seen: int
    log_bets: Floats

    @classmethod
    def start(cls, bets: int, games: tuple[int, ...] = ()) -> Self:
        """The initial wealth, all of it cash."""
        return cls(0, np.full((bets, *games), -np.inf))

    @property
    def log_total(self) -> float:
        """Log of the total wealth of a single game: what the bets hold, and the cash."""
        parts = np.append(self.log_bets, log_cash(np.array([float(self.seen)])))
        return float(np.logaddexp.reduce(parts))

    def play(self, log_factors: Floats) -> tuple[Self, Floats]:
        """The wealth after more steps, and the log of the total wealth after each of them.

        `log_factors` has the axes of `log_bets` and then time: the log of the factor by which a
        bet multiplies its money in a step. Each must be at least log(1/2).
        """
        wealth, paths = self, []
        for begin in range(0, log_factors.shape[-1], STEPS_PER_BLOCK):
            wealth, path = wealth._play_block(log_factors[..., begin : begin + STEPS_PER_BLOCK])
            paths.append(path)
        return wealth, np.concatenate(paths, axis=-1)

    def _play_block(self, log_factors: Floats) -> tuple[Self, Floats]:
        steps = self.seen + np.arange(1.0, 1 + log_factors.shape[-1])
        growth = np.cumsum(log_factors, axis=-1)
        # Money that enters at step k grows from k on. In units of the block's start it is worth
        # entry / (growth before k); the running sum of these, times growth, is what the bet holds.
        entries = log_entry(steps) - np.log(len(self.log_bets)) - (growth - log_factors)
        largest = np.maximum(self.log_bets, entries.max(axis=-1))[..., None]
        held = np.cumsum(np.exp(entries - largest), axis=-1)
        held += np.exp(self.log_bets[..., None] - largest)
        log_bets = growth + largest + np.log(held)
        cash = log_cash(steps)
        largest = np.maximum(log_bets.max(axis=0), cash)
        total = np.exp(log_bets - largest).sum(axis=0) + np.exp(cash - largest)
        seen = self.seen + len(steps)
        return replace(self, seen=seen, log_bets=log_bets[..., -1]), largest + np.log(total)
