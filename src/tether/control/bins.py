"""Sums over rows of amount·min(1, ρ/β), at every beta of the grid, from bins of the ratio ρ.

A row above β adds its amount, and one below it amount·ρ/β. So with the sums of amounts and of
amount·ρ in bins between the betas, both follow by cumulative sums, however many betas there are.
Every point of the grid is a multiple of 1/128: bins of that width serve all of them at once.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from tether._core.arrays import Floats, Integers
from tether._core.rows import BLOCK, Block, Rows
from tether.control.engine import LAST, PARTS, log_of

FINEST = 4 * PARTS  # every point of the grid is a multiple of one over this
CHUNK = 1024  # how many bins are summed at once: over so many, ρ grows by a factor of e^8
MARGIN = 100.0
"""How far past all ratios a beta still differs from the last one that they tell apart."""


def scores(block: Block, suffix: str = "") -> tuple[Floats, Floats]:
    """Log ratio (optimized over safe) and log base (safe over mixture); −inf where safe is."""
    safe, mix = block["log_safe" + suffix], block.get("log_mix" + suffix)
    with np.errstate(invalid="ignore", over="ignore"):
        ratio = block["log_optimized" + suffix] - safe
        base = np.zeros(safe.shape) if mix is None else safe - mix
    if safe.min() == -np.inf:
        ratio, base = (np.where(safe > -np.inf, each, -np.inf) for each in (ratio, base))
    most = max(ratio.max(), base.max())
    if not most <= LAST:
        raise ValueError(
            f"log ratios of optimized over safe and of safe over mixture probability must be at "
            f"most {LAST:g}, got {most:g} (log_safe, log_optimized, log_mix)"
        )
    return ratio, base


Amounts = Callable[[Block, Floats, Floats], "list[Floats | None]"]
"""From a block, its ratios and its bases to what each row adds; None stands for ones."""


@dataclass(frozen=True)
class Binned:
    """Sums of amounts in bins of log ρ that are 1/128 wide, as every point of the grid is.

    `whole` are sums of amounts and `near` of amount·ρ, in units of the bin's upper end (both
    bins × amounts); the first bin begins at `first`/128.
    """

    first: int
    whole: Floats
    near: Floats
    high: float
    base: float

    @classmethod
    def of(cls, rows: Rows, amounts: Amounts, span: tuple[float, float] | None = None) -> Binned:
        """One pass over rows whose log ratios are known to lie in a span; else one before it."""

        def ends_of(block: Block) -> dict[str, Any]:
            low, high = ends(scores(block)[0])
            return {"low": low, "high": high}

        if span is None:
            found = rows.reduce(ends_of, {"low": "max", "high": "max"}, BLOCK)
            span = -found["low"], found["high"]
        first = math.floor(max(span[0], -LAST) * FINEST)
        count = math.floor(span[1] * FINEST) - first + 2  # one more, for rounding

        def bins_of(block: Block) -> dict[str, Any]:
            ratio, base = scores(block)
            given = amounts(block, ratio, base)
            scaled = ratio * FINEST
            scaled -= first
            if scaled.min() < 0:  # −inf, where the row counts nothing, or below the grid
                possible = ratio > -np.inf
                scaled = np.maximum(scaled[possible], 0.0)
                given = [each if each is None else each[possible] for each in given]
            place = scaled.astype(np.int64)
            scaled -= place
            scaled -= 1.0
            scaled /= FINEST
            near = np.exp(scaled, out=scaled)
            sums = [np.bincount(place, each, count) for each in given]
            sums += [
                np.bincount(place, near if each is None else near * each, count) for each in given
            ]
            return {"bins": np.array(sums), "base": base.max()}

        made = rows.reduce(bins_of, {"bins": "sum", "base": "max"}, BLOCK)
        whole, near = np.split(made["bins"].T.astype(np.float64), 2, axis=1)
        return cls(first, whole, near, float(span[1]), float(made["base"]))

    @cached_property
    def _sums(self) -> Floats:
        """Log of Σ amount·min(1, ρ/β) at the beginning of every bin, and at the end of the last."""
        sums = np.zeros((len(self.whole) + 1, self.whole.shape[1]))
        sums[:-1] = np.cumsum(self.whole[::-1], axis=0)[::-1]
        carried = np.zeros(self.whole.shape[1])
        for start in range(0, len(self.near), CHUNK):  # Σ near·e^(bins since) by cumulative sums
            part = self.near[start : start + CHUNK]
            growth = np.exp(np.arange(1, len(part) + 1) / FINEST)[:, None]
            below = (np.cumsum(part * growth, axis=0) + carried) / growth
            sums[start + 1 : start + 1 + len(part)] += below
            carried = below[-1]
        return np.asarray(log_of(sums))

    def log_sums(self, t: Floats) -> Floats:
        """The same at log betas of the grid (betas × amounts)."""
        place = np.rint(t * FINEST).astype(np.int64) - self.first
        last = len(self.whole)
        past = np.maximum(place - last, 0) / FINEST  # past all ratios the sums only decay
        return np.asarray(self._sums[np.clip(place, 0, last)] - past[:, None])


def table_bins(ratios: Floats, safe: Floats, t: Floats) -> Floats:
    """Sums of safe, and of safe·ρ/β at the next beta, by bin and row (2 × bins × rows)."""
    place, (rows, _) = bins(ratios, t), ratios.shape
    cell = (place * rows + np.arange(rows)[:, None]).ravel()
    near = safe * np.exp(np.minimum(ratios - np.append(t, np.inf)[place], 0.0))
    sums = [np.bincount(cell, each.ravel(), (len(t) + 1) * rows) for each in (safe, near)]
    return np.array(sums, dtype=np.float64).reshape(2, len(t) + 1, rows)


def ends(ratio: Floats) -> tuple[float, float]:
    """Minus the smallest finite ratio, and the largest one."""
    low = ratio.min()
    if low == -np.inf:
        low = ratio.min(initial=np.inf, where=ratio > -np.inf)
    return float(-low), float(ratio.max())


def told_apart(t: Floats, low: float, high: float) -> tuple[Floats, Integers]:
    """The betas that ratios in [−low, high] tell apart, and each beta's place among them."""
    first = int(np.clip(np.searchsorted(t, -low, side="right") - 1, 0, len(t) - 1))
    stop = int(np.clip(np.searchsorted(t, high) + 1, first + 1, len(t)))
    near = np.clip(t[first:stop], -low - MARGIN, high + MARGIN)
    return near, np.clip(np.arange(len(t)) - first, 0, stop - first - 1)


def bins(ratio: Floats, t: Floats) -> Integers:
    """How many of the increasing log betas t are at most each ratio, by arithmetic if it can."""
    first = max(int(np.searchsorted(t, max(ratio.min(), t[0]))) - 1, 0)
    near = t[first : int(np.searchsorted(t, min(ratio.max(), t[-1]))) + 1]
    width = np.diff(near).min(initial=np.inf)
    cells = (near - near[0]) / width
    if len(near) == 1 or (cells != np.rint(cells)).any():
        return np.searchsorted(t, ratio, side="right").astype(np.int64, copy=False)
    lengths = np.diff(cells, prepend=-1, append=cells[-1] + 1).astype(np.int64)
    counts = np.repeat(np.arange(len(lengths)), lengths) + first  # at most the cells −1, 0, 1, …
    place = np.floor((np.maximum(ratio, near[0] - width) - near[0]) / width) + 1
    return np.asarray(counts[np.clip(place, 0, len(counts) - 1).astype(np.int64)])


def clip_sums(binned: Floats, t: Floats) -> Floats:
    """Σ amount·min(1, ρ/β) at every beta (betas × amounts), from bins."""
    whole, near = binned
    result: Floats = np.empty_like(near[:-1])
    above, below = np.zeros((2, whole.shape[1]))
    for k in reversed(range(len(t))):  # several times as fast as a cumulative sum along this axis
        above += whole[k + 1]
        result[k] = above
    for k, factor in enumerate(np.exp(-np.diff(t, prepend=t[0]))):
        below *= factor
        below += near[k]
        result[k] += below
    return result
