"""The losses of all items at every candidate threshold, safest first, and their sums.

The loss of an item is a step function of the threshold that changes only at its own scores. All
items together are one list of pieces, and every sum over items is one running sum over the pieces
in the order of the candidates: one sort, one pass, and no table of items × thresholds.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from tether._core import validate
from tether._core.arrays import TIE_TOLERANCE, Floats, Integers
from tether.thresholds.claims import Claims, ItemWeights, Scored, ScoredLabels
from tether.thresholds.losses import ClaimLoss, FalseAmongShown, LossFunction, find_loss

LossInput: TypeAlias = "ArrayLike | Claims | ScoredLabels | Sweep"
"""One loss: a matrix (items × thresholds), claims, scored labels or a sweep."""
LossName: TypeAlias = str | LossFunction
LossNames: TypeAlias = LossName | Sequence[LossName] | None
SAFEST = {"larger": np.inf, "smaller": -np.inf}
"""The threshold that keeps nothing, or everything, and so costs nothing."""
PerLoss: TypeAlias = float | Sequence[float] | Mapping[str, float]
"""One number for all losses, or one per loss, in order or by name."""


@dataclass(frozen=True, eq=False)
class Pieces:
    """Losses as step functions: `level` from candidate number `start` on, up to the next piece.

    The pieces of item i are `first[i]:first[i + 1]`; the first of them starts at candidate 0. A
    level of NaN is an item that a rate does not count there.
    """

    first: Integers
    start: Integers
    level: Floats
    n_candidates: int

    @cached_property
    def owner(self) -> Integers:
        """The item of each piece."""
        return np.repeat(np.arange(len(self.first) - 1), np.diff(self.first))

    @cached_property
    def end(self) -> Integers:
        """The candidate at which each piece ends."""
        end = np.append(self.start[1:], self.n_candidates)
        end[self.first[1:] - 1] = self.n_candidates
        return end

    def steps(self, values: Floats) -> Floats:
        """By how much values of the pieces exceed those of the pieces before, item by item."""
        steps = np.diff(values, prepend=0.0)
        steps[self.first[:-1]] = values[self.first[:-1]]
        return steps

    def sums(self, values: Floats, weights: Floats | None = None) -> Floats:
        """Sums over items of a value that each piece has, at every candidate."""
        steps = self.steps(values)
        if weights is not None:
            steps *= weights[self.owner]
        return np.cumsum(np.bincount(self.start, weights=steps, minlength=self.n_candidates))

    def at(self, items: Integers, candidates: Integers) -> Floats:
        """The losses of some items, each at a candidate of its own."""
        keys = self.owner * self.n_candidates + self.start
        wanted = items * self.n_candidates + candidates
        return np.asarray(self.level[np.searchsorted(keys, wanted, side="right") - 1])

    def table(self, where: slice) -> Floats:
        """The losses of all items at some consecutive candidates, items × candidates."""
        inside = (self.start < where.stop) & (self.end > where.start)
        column = np.maximum(self.start[inside], where.start) - where.start
        piece = np.zeros((len(self.first) - 1, where.stop - where.start), dtype=np.int64)
        piece[self.owner[inside], column] = np.flatnonzero(inside)
        return np.asarray(self.level[np.maximum.accumulate(piece, axis=1)])

    def monotone_levels(self) -> Floats:
        """Each item's largest loss at any threshold at least as safe."""
        values, rank = np.unique(self.level, return_inverse=True)
        shift = self.owner * len(values)
        return np.asarray(values[np.maximum.accumulate(rank + shift) - shift])


@dataclass(frozen=True, eq=False, repr=False)
class Sweep:
    """Losses and their sums at every candidate threshold, from the safest to the boldest.

    Made by `sweep`; the methods take it in place of the losses. `exact` says that every distinct
    score is a candidate, rather than thresholds chosen beforehand; `among_selected` that this is a
    rate among the selected; `can_fall` that losses of such items can fall as the threshold gets
    bolder, also where none of these does; `binary` that a loss is 0 or 1, and `harmless` that the
    safest threshold costs nothing, by definition. `owners` has, where every score is a candidate,
    the item that has all claims of a score, −1 where several do.

    Examples
    --------
    >>> import tether
    >>> tether.thresholds.sweep(tether.Claims([0.9, 0.4, 0.7], [1, 0, 1], offsets=[0, 2, 3]))
    Sweep(loss='fdr', n_items=2, n_candidates=4, monotone=False)
    """

    thresholds: Floats
    pieces: Pieces
    weights: ItemWeights
    bound: float
    loss: str
    safer: str = "larger"
    exact: bool = False
    among_selected: bool = False
    can_fall: bool = False
    binary: bool = False
    harmless: bool = False
    shown: FalseAmongShown | None = None
    scored: Scored | None = None
    owners: Integers | None = None

    def __repr__(self) -> str:
        return (
            f"Sweep(loss={self.loss!r}, n_items={self.n_items}, "
            f"n_candidates={len(self.thresholds)}, monotone={self.monotone})"
        )

    @property
    def n_items(self) -> int:
        """The number of items."""
        return len(self.pieces.first) - 1

    @property
    def weighted(self) -> bool:
        """Whether the items are weighted."""
        return self.weights.values is not None

    @cached_property
    def item_weights(self) -> Floats:
        """The weight of each item."""
        values = np.ones(self.n_items) if self.weights.values is None else self.weights.values
        if not values.any():
            raise ValueError("weights are all 0: no item counts")
        return values

    @property
    def test_weight(self) -> float:
        """The weight of the test item."""
        return float(self.item_weights.max()) if self.weights.test is None else self.weights.test

    @property
    def effective_sample_size(self) -> float:
        """How many equally weighted items the weighted ones are worth: (Σ w)² / Σ w²."""
        return float(self.item_weights.sum() ** 2 / np.square(self.item_weights).sum())

    def _summed(self, values: Floats) -> Floats:
        return self.pieces.sums(values, self.weights.values)

    @cached_property
    def sums(self) -> Floats:
        """Σ w·loss at each candidate."""
        return self._summed(np.nan_to_num(self.pieces.level))

    @cached_property
    def envelope(self) -> Floats:
        """The sums for losses made monotone: each item's largest loss at any safer threshold."""
        return self._summed(self.pieces.monotone_levels())

    @cached_property
    def total(self) -> Floats:
        """The weight that the sums are divided by: that of all items, or of those selected."""
        if self.among_selected:
            return self._summed((~np.isnan(self.pieces.level)).astype(np.float64))
        return np.full(len(self.thresholds), self.item_weights.sum())

    @cached_property
    def n_nonmonotone(self) -> int:
        """The number of items whose loss falls somewhere as the threshold gets bolder."""
        falls = self.pieces.steps(self.pieces.level) < -TIE_TOLERANCE * self.bound
        return len(np.unique(self.pieces.owner[falls]))

    @property
    def monotone(self) -> bool:
        """Whether no item's loss falls as the threshold gets bolder, and none can."""
        return self.n_nonmonotone == 0 and not self.can_fall

    def risks(self, *, conservative: bool = True, envelope: bool = False) -> Floats:
        """Return the risk at the candidates, with the test item at the bound if `conservative`."""
        extra = self.test_weight if conservative else 0.0
        with np.errstate(invalid="ignore"):
            summed = (self.envelope if envelope else self.sums) + extra * self.bound
            return np.asarray(summed / (self.total + extra))


def sweep(
    losses: LossInput,
    thresholds: ArrayLike | None = None,
    *,
    loss: LossName | None = None,
    bound: float = 1.0,
    weights: ArrayLike | None = None,
    test_weight: float | None = None,
) -> Sweep:
    """Sort and sum the losses at every candidate threshold once, for several methods or levels.

    O(N log N) for N claims or labels, without a table of items × thresholds. The arguments are
    those of `gcrc`, for one loss; pass the result to any of the methods in place of the losses.

    Examples
    --------
    >>> swept = sweep(Claims([0.9, 0.4, 0.7], [1, 0, 1], offsets=[0, 2, 3]))
    >>> swept.thresholds, swept.sums
    (array([inf, 0.9, 0.7, 0.4]), array([0. , 0. , 0. , 0.5]))
    """
    return prepare(losses, thresholds, loss, bound, ItemWeights.of(weights, test_weight))


def prepare(
    losses: Any, thresholds: Any, loss: Any, bound: float | None, weights: ItemWeights
) -> Sweep:
    """The sweep of any kind of input; a bound of None is 1, or that of a sweep."""
    if isinstance(losses, Sweep):
        passed = {"thresholds": thresholds, "loss": loss, "bound": bound, "weights": weights.values}
        for name, value in passed.items():
            if value is not None:
                raise ValueError(f"{name} cannot be passed with a sweep, which fixes it: {losses}")
        return losses
    bound = validate.number("bound", 1.0 if bound is None else bound, above=0, below=1e300)
    if weights.values is not None:
        count = losses.n_items if isinstance(losses, Scored) else len(losses)
        validate.same_length("weights", weights.values, "losses", count)
    if isinstance(losses, Scored):
        found = find_loss(loss, bound, of_labels=isinstance(losses, ScoredLabels))
        return _sweep_scored(losses, thresholds, found, bound, weights)
    if loss is not None:
        raise ValueError(f"loss must be None for a loss matrix, got {loss!r}")
    return _sweep_matrix(losses, thresholds, bound, weights)


def _candidates(scores: Floats, thresholds: Any, safer: str) -> tuple[Floats, Integers]:
    """Candidates, safest first, and the number of the first that each score has passed."""
    if thresholds is None:
        distinct, rank = np.unique(scores, return_inverse=True)
        increasing, passed = np.append(distinct, np.inf), rank + 1
    else:
        increasing = _checked_thresholds(thresholds)
        passed = np.searchsorted(increasing, scores, side="right")
    if safer == "larger":
        return increasing[::-1], len(increasing) - passed
    return increasing, passed


def _checked_thresholds(thresholds: ArrayLike) -> Floats:
    array = validate.floats("thresholds", thresholds)
    falls = np.append(~(array[1:] > array[:-1]), np.isnan(array[-1]))
    if falls.any():
        validate.reject("thresholds", array, falls, "numbers that increase strictly")
    return array


def _sole_owners(place: Integers, owner: Integers, count: int) -> Integers:
    lowest, highest = np.full(count, len(owner)), np.full(count, -1)
    np.minimum.at(lowest, place, owner)
    np.maximum.at(highest, place, owner)
    return np.where(lowest == highest, lowest, -1)


def _pieces(owner: Integers, place: Integers, level: Floats, before: Floats, count: int) -> Pieces:
    """Pieces from events in the order of items and candidates; `before` is each item's first level.

    Of events that meet the threshold together, the last has the level after all of them.
    """
    n = len(before)
    at = np.arange(len(owner)) + owner + 1
    first = np.searchsorted(owner, np.arange(n)) + np.arange(n)
    owners, start, levels = (np.empty(len(owner) + n, dtype) for dtype in (int, int, float))
    owners[at], start[at], levels[at] = owner, place, level
    owners[first], start[first], levels[first] = np.arange(n), 0, before
    keep = start < count
    keep[:-1] &= (owners[1:] != owners[:-1]) | (start[1:] != start[:-1])
    owners, start, levels = owners[keep], start[keep], levels[keep]
    return Pieces(np.searchsorted(owners, np.arange(n + 1)), start, levels, count)


def _sweep_scored(
    given: Scored, thresholds: Any, loss: ClaimLoss, bound: float, weights: ItemWeights
) -> Sweep:
    candidates, place = _candidates(given.scores, thresholds, loss.safer)
    claims = given
    if loss.among is not None:  # each item has one score
        own = np.flatnonzero(given.supported == loss.among)
        if not len(own):
            raise ValueError(f"labels are all the same: the {loss.name} rate is undefined")
        claims, place, weights = given.take(own), place[own], weights.take(own)
    sizes, owner, begin = np.diff(claims.offsets), claims.owner, claims.offsets[:-1]
    if loss.shown is not None:
        loss.shown.require(sizes, claims.items, thresholds)
    order = np.argsort(owner * (len(candidates) + 1) + place, kind="stable")
    before = np.full(claims.n_items, loss.before)
    if loss.level is None:
        level, before = _called(loss, bound, claims)
    else:
        running = np.concatenate([[0], np.cumsum(claims.supported[order])])
        n_true = running[1:] - running[begin][owner]
        n_passed = np.arange(1, len(owner) + 1) - begin[owner]
        level = loss.level(n_true, n_passed - n_true, np.diff(running[claims.offsets])[owner])
    return Sweep(
        candidates,
        _pieces(owner, place[order], level, before, len(candidates)),
        weights,
        bound,
        loss.name,
        loss.safer,
        exact=thresholds is None,
        among_selected=math.isnan(loss.before),
        can_fall=bool((sizes >= loss.falls_with).any()),
        binary=loss.binary and bound == 1,
        harmless=loss.harmless and (thresholds is None or candidates[0] == SAFEST[loss.safer]),
        shown=loss.shown,
        scored=given,
        owners=_sole_owners(place, owner, len(candidates)) if thresholds is None else None,
    )


def _called(loss: ClaimLoss, bound: float, claims: Scored) -> tuple[Floats, Floats]:
    """The losses of a user's function after each claim, highest scores first, and before any."""
    assert loss.function is not None
    order = np.lexsort((-claims.scores, claims.owner))
    levels: tuple[list[float], list[float]] = [], []
    for i, (first, stop) in enumerate(zip(claims.offsets[:-1], claims.offsets[1:], strict=True)):
        true, number = claims.supported[order[first:stop]], np.arange(stop - first)
        for k in range(-1, stop - first):
            value = validate.real(f"loss {loss.name!r}", loss.function(true, number <= k))
            if not 0 <= value <= bound:
                raise ValueError(
                    f"loss {loss.name!r} is {value:g} for item {i}: expected one in [0, {bound:g}]"
                )
            levels[k >= 0].append(value)
    return np.array(levels[1]), np.array(levels[0])


def _sweep_matrix(losses: Any, thresholds: Any, bound: float, weights: ItemWeights) -> Sweep:
    names = [str(name) for name in getattr(losses, "columns", ())]
    if not all(any(character.isdigit() for character in name) for name in names):
        raise TypeError(
            "losses must be a matrix of items × thresholds, Claims.from_frame(frame) or "
            f"ScoredLabels, got a frame with the columns {names[:6]}"
        )
    matrix = validate.floats("losses", losses, ndim=2)
    bad = ~((matrix >= 0) & (matrix <= bound))
    if bad.any():
        validate.reject("losses", matrix, bad, f"a loss in [0, bound = {bound:g}]")
    count = matrix.shape[1]
    increasing = _checked_thresholds(np.arange(count) if thresholds is None else thresholds)
    if len(increasing) != count:
        raise ValueError(f"thresholds has {len(increasing)} values but losses has {count} columns")
    safest_first = matrix[:, ::-1]
    begins = np.ones(matrix.shape, dtype=np.bool_)
    np.not_equal(safest_first[:, 1:], safest_first[:, :-1], out=begins[:, 1:])
    first = np.concatenate([[0], np.cumsum(begins.sum(axis=1))])
    pieces = Pieces(first, np.nonzero(begins)[1], safest_first[begins], count)
    binary = getattr(losses, "dtype", None) == np.bool_ and bound == 1
    return Sweep(increasing[::-1], pieces, weights, bound, "loss matrix", binary=binary)
