"""The risk at every candidate threshold, safest first, and where along it to stop."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from tether._core import validate
from tether._core.safe_excess import SafeMean
from tether._core.ties import within_limit
from tether._core.types import Booleans, Floats, Integers
from tether.risk.claim_columns import CLAIMS_PER_BLOCK
from tether.risk.claim_steps import LossPieces
from tether.risk.kept_share import CountsInParts, KeptCounts


class _DefaultBound(float):
    """A default that can be told apart from the same number passed by the user."""


DEFAULT_BOUND = _DefaultBound(1.0)
MAX_NAMED_ITEMS = 5  # how many items with a loss that is not monotone are named
CELLS_PER_BLOCK = 1 << 20  # cells of items × thresholds processed at once

LossReader: TypeAlias = Callable[[slice, Integers | None], Iterator[Floats]]
"""Losses of all or some items at a slice of the candidates, in blocks of items."""


class ItemEvents(NamedTuple):
    """The scores at which the loss of an item may change: those of item i are between offsets.

    Parameters
    ----------
    scores : numpy.ndarray
        The scores, item by item.
    offsets : numpy.ndarray
        Where the scores of each item begin, and their number at the end.
    """

    scores: Floats
    offsets: Integers


@dataclass(frozen=True, eq=False)
class Sweep:
    """Sums of losses at every candidate threshold, from the safest to the boldest.

    Made by `sweep`. Pass it to any of the four methods in place of the losses, so that several
    methods or levels share one sort.

    Parameters
    ----------
    thresholds : numpy.ndarray
        The candidate thresholds, safest first.
    sums : numpy.ndarray
        Σ w·loss at each candidate.
    envelope : numpy.ndarray or None
        The same for losses made monotone: each item's largest loss at any threshold at least as
        safe. None where it was not requested or does not exist.
    total_weight : float or numpy.ndarray
        The sum of the item weights that the sums are divided by: one number, or one per threshold
        for a rate among the selected.
    test_weight : float
        The weight of the test item.
    n_items : int
        The number of items.
    effective_sample_size : float
        How many equally weighted items the weighted ones are worth.
    bound : float
        The largest possible loss.
    loss : str
        The name of the loss.
    safer : str
        Which thresholds are safer: "larger" or "smaller" ones.
    n_nonmonotone : int
        The number of items whose loss falls somewhere as the threshold gets bolder.
    nonmonotone_items : tuple of int
        The indices of the first of these items.
    exact : bool
        Whether every distinct score is a candidate, rather than thresholds chosen beforehand.
    weighted : bool
        Whether the items are weighted.
    read_losses : callable, optional
        Reads the losses of some items at some candidates again. None for a stream.
    events : ItemEvents, optional
        Where the losses of the items that can be read again change, if they are those of claims.
    read_pieces : callable, optional
        Reads the losses of claims as step functions, item by item.
    harmless_start : bool, default False
        Whether the safest threshold costs nothing by definition, such as one that keeps nothing.
    kept_counts : KeptCounts or CountsInParts, optional
        How many claims or items each candidate keeps. None for a loss matrix, which does not tell.
    counts : numpy.ndarray, optional
        For claims in parts: how many items each one that can be read again stands for.
    collected : slice, optional
        For claims in parts: the candidates among which every score is a candidate and the losses
        of items can be read again.
    ranks : numpy.ndarray, optional
        For claims in parts: how many claims each candidate has met.
    resolved_from : float, optional
        For claims in parts: from this sum of losses on, every score is a candidate.
    safe_mean : SafeMean, optional
        The mean loss at the safest threshold, where it was computed beforehand.
    loss_settings : mapping, optional
        The numbers that define the loss, where it has any.
    test_weight_assumed : bool, default False
        Whether the weight of the test item is only the largest weight that was seen.
    can_fall : bool, default False
        Whether losses of such items can fall as the threshold gets bolder, also where none of these
        does: the share of false claims of an item with several claims can.

    Examples
    --------
    >>> import tether
    >>> tether.risk.sweep(tether.Claims([0.9, 0.4, 0.7], [1, 0, 1], offsets=[0, 2, 3]))
    Sweep(loss='fdr', n_items=2, n_candidates=4, monotone=False)
    """

    thresholds: Floats
    sums: Floats
    envelope: Floats | None
    total_weight: float | Floats
    test_weight: float
    n_items: int
    effective_sample_size: float
    bound: float
    loss: str
    safer: str
    n_nonmonotone: int
    nonmonotone_items: tuple[int, ...]
    exact: bool
    weighted: bool
    read_losses: LossReader | None = None
    events: ItemEvents | None = None
    read_pieces: Callable[[slice, Integers], LossPieces] | None = None
    harmless_start: bool = False
    kept_counts: KeptCounts | CountsInParts | None = None
    counts: Integers | None = None
    collected: slice | None = None
    ranks: Integers | None = None
    resolved_from: float | None = None
    safe_mean: SafeMean | None = None
    loss_settings: Mapping[str, float] = field(default_factory=dict)
    test_weight_assumed: bool = False
    can_fall: bool = False

    def __repr__(self) -> str:
        return (
            f"Sweep(loss={self.loss!r}, n_items={self.n_items}, "
            f"n_candidates={len(self.thresholds)}, monotone={self.monotone})"
        )

    @property
    def n_separate(self) -> int:
        """How many items can be read again: all, unless equal ones were counted once."""
        return self.n_items if self.counts is None else len(self.counts)

    def total_over_items(self, values: Floats) -> float:
        """Add up one value per item that can be read again, each as often as it occurs.

        Parameters
        ----------
        values : numpy.ndarray
            The values.

        Returns
        -------
        float
            The sum over all items.
        """
        return float((values if self.counts is None else values * self.counts).sum())

    @property
    def among_selected(self) -> bool:
        """Whether this is a rate among the selected, whose number depends on the threshold."""
        return not isinstance(self.total_weight, float)

    @property
    def monotone(self) -> bool:
        """Whether no item's loss falls as the threshold gets bolder, and none can."""
        return self.no_loss_falls and not self.can_fall

    @property
    def no_loss_falls(self) -> bool:
        """Whether the loss of none of these items falls; False among the selected."""
        return self.n_nonmonotone == 0 and not self.among_selected

    def risks(self, *, conservative: bool = True, where: slice | Integers = slice(None)) -> Floats:
        """Compute the risk at the candidates.

        Parameters
        ----------
        conservative : bool, default True
            Whether to count the test item at the bound; otherwise this is the mean loss.
        where : slice or numpy.ndarray, optional
            Which of the candidates; all of them by default.

        Returns
        -------
        numpy.ndarray
            One risk per candidate; NaN for a rate among the selected where none are.
        """
        extra = self.test_weight if conservative else 0.0
        total = self.total_weight
        total = total if isinstance(total, float) else total[where]
        with np.errstate(invalid="ignore"):  # a rate among none selected is NaN
            return np.asarray((self.sums[where] + extra * self.bound) / (total + extra))


def require_selected_start(sweep: Sweep) -> None:
    """Raise for a walk that starts at +inf, where nothing is selected and no rate is defined."""
    if sweep.among_selected and sweep.exact:
        raise ValueError(
            f"loss = {sweep.loss!r} is a rate among the selected, and this walk starts at +inf, "
            "where nothing is selected: pass thresholds, the largest of which selects enough "
            "items, or loss = 'false_positive' or 'false_negative'"
        )


def checked_thresholds(thresholds: ArrayLike, safer: str) -> Floats:
    """Thresholds chosen beforehand, strictly increasing and without NaN; returned safest first."""
    array = validate.floats("thresholds", thresholds)
    if np.isnan(array).any():
        validate.reject("thresholds", array, np.isnan(array), "a number")
    if (np.diff(array) <= 0).any():
        i = int(np.flatnonzero(np.diff(array) <= 0)[0])
        raise ValueError(
            f"thresholds must be strictly increasing, got thresholds[{i}] = {array[i]} before "
            f"thresholds[{i + 1}] = {array[i + 1]}"
        )
    return array[::-1] if safer == "larger" else array


def costs_nothing(safest: float, safer: str, *, exact: bool) -> bool:
    """Whether a safest threshold keeps nothing, or everything where smaller thresholds are safer.

    Where every score is a candidate, the threshold served when none passes is infinite.
    """
    return exact or safest == (np.inf if safer == "larger" else -np.inf)


def passes(sweep: Sweep, sums: Floats, alpha: float, where: slice) -> Booleans:
    """Whether the conservative risk is at most alpha, compared as sums, at some candidates."""
    total = (
        sweep.total_weight if isinstance(sweep.total_weight, float) else sweep.total_weight[where]
    )
    limit = alpha * (total + sweep.test_weight)
    return np.asarray(within_limit(sums[where] + sweep.test_weight * sweep.bound, limit))


def before_first_violation(sweep: Sweep, sums: Floats, alpha: float) -> int:
    """The boldest candidate such that it and all safer ones pass; −1 where the safest fails."""
    for first in range(0, len(sums), CLAIMS_PER_BLOCK):
        passed = passes(sweep, sums, alpha, slice(first, first + CLAIMS_PER_BLOCK))
        if not passed.all():
            return first + int(np.argmin(passed)) - 1
    return len(sums) - 1


def boldest_passing(sweep: Sweep, sums: Floats, alpha: float) -> int:
    """The boldest candidate that passes, whether or not safer ones do; −1 where none does."""
    for stop in range(len(sums), 0, -CLAIMS_PER_BLOCK):
        start = max(0, stop - CLAIMS_PER_BLOCK)
        passed = passes(sweep, sums, alpha, slice(start, stop))
        if passed.any():
            return stop - 1 - int(np.argmax(passed[::-1]))
    return -1
