"""How far an estimated density ratio is off, measured on draws that its classifiers never saw."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, ClassVar, Self

import numpy as np

from tether._core import records
from tether._core.types import Booleans, Floats, Integers

RATIO_CONFIDENCE = 0.95
"""The probability, over the held-out draws, that the intervals of all cells hold at once."""
MAX_SCORE_CELLS, MIN_DRAWS_PER_CELL = 10, 50
"""Into how many cells the estimated ratio is cut, and how many draws each of them has at least."""
MAX_LOG_FACTOR = 60.0
"""A factor whose logarithm is past this counts as infinite."""


@dataclass(frozen=True)
class RatioCell:
    """A set of held-out draws, and by which factor the estimated ratio is off on it.

    Parameters
    ----------
    cut_by : str
        "ratio" for draws with similar estimated ratios, "features" for a leaf of a tree that looks
        for regions of the features where the estimate is off.
    draws : int
        How many held-out draws of both policies lie in the cell.
    optimized : int
        How many of them are of the optimized policy.
    log_ratio : float
        The mean of the estimated log ratios.
    low, high : float
        The interval of the factor by which the true ratio differs from the estimated one.

    Examples
    --------
    >>> round(RatioCell("ratio", 200, 100, 0.1, low=0.7, high=1.2).factor, 2)
    1.43
    """

    cut_by: str
    draws: int
    optimized: int
    log_ratio: float
    low: float
    high: float

    @property
    def factor(self) -> float:
        """The larger of `high` and 1/`low`: how far off the ratio may be either way."""
        return max(self.high, 1 / self.low if self.low > 0 else np.inf)


@dataclass(frozen=True)
class RatioError(records.Saved):
    """By which factor an estimated density ratio may be off, as held-out draws show it.

    In each cell the number of draws of the optimized policy is compared with the number that the
    estimated ratios imply. This measures the *average* error over a cell. It does not measure the
    error at a single action: where the ratio is off in both directions within a cell, it is not
    seen. A promise that rests on it is therefore approximate.

    Parameters
    ----------
    cells : tuple of RatioCell
        The cells, by estimated ratio and by features.
    mean_ratio : float
        The mean estimated ratio over held-out draws of the safe policy; 1 for the true ratio.
    mean_ratio_error : float
        Its standard error.
    confidence : float
        The probability that the intervals of all cells hold at once.

    Examples
    --------
    >>> cell = RatioCell("ratio", 200, 100, 0.1, low=0.7, high=1.2)
    >>> print(RatioError((cell,), 1.01, 0.05, 0.95))
    off by a factor of up to 1.43 (95 % confidence, 1 cells), mean ratio 1.01 ± 0.05
    """

    _kind: ClassVar[str] = "ratio_error"
    _text_entries: ClassVar[tuple[str, ...]] = ("cut_by",)

    cells: tuple[RatioCell, ...]
    mean_ratio: float
    mean_ratio_error: float
    confidence: float

    @property
    def factor(self) -> float:
        """The largest factor over all cells, and not below that of the mean ratio."""
        of_mean = max(self.mean_ratio, 1 / self.mean_ratio)
        return max(of_mean, *(cell.factor for cell in self.cells))

    def to_dict(self) -> dict[str, Any]:
        """Return all figures as plain values.

        Returns
        -------
        dict
            Names and values.
        """
        return {**asdict(self), "cells": [asdict(cell) for cell in self.cells]}

    @classmethod
    def _from_saved(cls, saved: dict[str, Any]) -> Self:
        cells = tuple(RatioCell(**cell) for cell in saved.pop("cells"))
        return cls(cells=cells, **saved)

    def __str__(self) -> str:
        return (
            f"off by a factor of up to {self.factor:.3g} "
            f"({self.confidence:.0%} confidence, {len(self.cells)} cells), "
            f"mean ratio {self.mean_ratio:.3g} ± {self.mean_ratio_error:.2g}"
        ).replace("%", " %")


def measure(log_ratio: Floats, is_optimized: Booleans, leaf: Integers) -> RatioError:
    """Compare estimated ratios with held-out draws, in cells of similar ratio and in leaves."""
    optimized = int(is_optimized.sum())
    log_prior = float(np.log(optimized) - np.log(len(is_optimized) - optimized))
    groups = [("ratio", cell) for cell in score_cells(log_ratio)]
    groups += [("features", leaf == number) for number in np.unique(leaf)]
    cells = []
    for cut_by, inside in groups:
        draws, hits = int(inside.sum()), int(is_optimized[inside].sum())
        low, high = factor_interval(
            log_ratio[inside] + log_prior, hits, (1 - RATIO_CONFIDENCE) / len(groups)
        )
        mean = float(log_ratio[inside].mean())
        cells.append(RatioCell(cut_by, draws, hits, mean, low, high))
    ratio = np.exp(log_ratio[~is_optimized])
    error = float(ratio.std(ddof=1) / np.sqrt(len(ratio)))
    return RatioError(tuple(cells), float(ratio.mean()), error, RATIO_CONFIDENCE)


def score_cells(log_ratio: Floats) -> list[Booleans]:
    """Cells between quantiles of the estimated log ratio; equal ratios share a cell."""
    count = int(np.clip(len(log_ratio) // MIN_DRAWS_PER_CELL, 1, MAX_SCORE_CELLS))
    edges = np.unique(np.quantile(log_ratio, np.linspace(0, 1, count + 1)[1:-1]))
    number = np.searchsorted(edges, log_ratio)
    return [number == each for each in np.unique(number)]


def factor_interval(log_odds: Floats, hits: int, miss: float) -> tuple[float, float]:
    """The interval of a common factor of all odds, from the number of hits; wrong with `miss`.

    Given their places, draws are of the optimized policy independently of each other, with odds of
    a factor times those predicted. The number of hits is then more concentrated than a binomial one
    with the same mean (Hoeffding, 1956), so the ends of the Clopper-Pearson interval of that mean,
    turned into factors, hold.
    """
    from scipy.stats import beta as beta_distribution

    draws = len(log_odds)
    low = beta_distribution.ppf(miss / 2, hits, draws - hits + 1) if hits else 0.0
    high = beta_distribution.isf(miss / 2, hits + 1, draws - hits) if hits < draws else 1.0
    return _factor_with_mean(log_odds, float(low)), _factor_with_mean(log_odds, float(high))


def _factor_with_mean(log_odds: Floats, mean: float) -> float:
    """The factor of all odds with which the mean probability is as given."""
    from scipy.optimize import brentq
    from scipy.special import expit

    def excess(log_factor: float) -> float:
        return float(expit(log_odds + log_factor).mean()) - mean

    if excess(-MAX_LOG_FACTOR) >= 0:
        return 0.0
    if excess(MAX_LOG_FACTOR) <= 0:
        return np.inf
    return float(np.exp(brentq(excess, -MAX_LOG_FACTOR, MAX_LOG_FACTOR)))
