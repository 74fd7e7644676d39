"""The losses of all items at every candidate threshold, safest first, and their sums.

The loss of an item is a step function of the threshold that changes only at its own scores. All
items together are one list of pieces, and every sum over items is one running sum over the pieces
in the order of the candidates: one sort, one pass, and no table of items × thresholds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from tether._core import validate
from tether._core.ties import TIE_TOLERANCE, within_limit
from tether._core.types import Booleans, Floats, Integers, Table
from tether.thresholds.claims import Claims, ItemWeights, ScoredLabels
from tether.thresholds.losses import (
    LABEL_LOSSES,
    ClaimLoss,
    FalseAmongShown,
    LossFunction,
    claim_loss,
)
from tether.thresholds.selection import KeptShare

LossInput: TypeAlias = "ArrayLike | Table | Claims | ScoredLabels | Sweep"
"""One loss: a matrix (items × thresholds), claims, scored labels or a sweep."""
LossName: TypeAlias = str | LossFunction
LossNames: TypeAlias = LossName | Sequence[LossName] | None
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
        return self.level[np.maximum.accumulate(piece, axis=1)]

    def monotone_levels(self) -> Floats:
        """Each item's largest loss at any threshold at least as safe."""
        values, rank = np.unique(self.level, return_inverse=True)
        shift = self.owner * len(values)
        return np.asarray(values[np.maximum.accumulate(rank + shift) - shift])


@dataclass(frozen=True, eq=False, repr=False)
class Sweep:
    """Losses and their sums at every candidate threshold, from the safest to the boldest.

    Made by `sweep`. Pass it to any of the four methods in place of the losses, so that several
    methods or levels share one sort.

    Parameters
    ----------
    thresholds : numpy.ndarray
        The candidate thresholds, safest first.
    sums : numpy.ndarray
        Σ w·loss at each candidate.
    total : float or numpy.ndarray
        The weight that the sums are divided by: one number, or one per threshold for a rate among
        the selected.
    test_weight : float
        The weight of the test item.
    bound : float
        The largest possible loss.
    loss : str
        The name of the loss.
    safer : str
        Which thresholds are safer: "larger" or "smaller" ones.
    pieces : Pieces
        The losses of the items.
    weights : ItemWeights
        The weights of the items.
    exact : bool
        Whether every distinct score is a candidate, rather than thresholds chosen beforehand.
    can_fall : bool, default False
        Whether losses of such items can fall as the threshold gets bolder, also where none of these
        does: the share of false claims of an item with several claims can.
    binary : bool, default False
        Whether a loss is 0 or the bound, by its definition.
    harmless : bool, default False
        Whether the safest threshold costs nothing by definition, such as one that keeps nothing.
    shown : FalseAmongShown, optional
        The loss, if it is one about all that is shown.
    kept : KeptCounts, optional
        How many claims or items each candidate keeps. None for a loss matrix, which does not tell.
    owners : numpy.ndarray, optional
        The item that has all claims of a candidate's score, −1 where several have; only where every
        score is a candidate.

    Examples
    --------
    >>> import tether
    >>> tether.thresholds.sweep(tether.Claims([0.9, 0.4, 0.7], [1, 0, 1], offsets=[0, 2, 3]))
    Sweep(loss='fdr', n_items=2, n_candidates=4, monotone=False)
    """

    thresholds: Floats
    sums: Floats
    total: float | Floats
    test_weight: float
    bound: float
    loss: str
    safer: str
    pieces: Pieces
    weights: ItemWeights
    exact: bool
    can_fall: bool = False
    binary: bool = False
    harmless: bool = False
    shown: FalseAmongShown | None = None
    kept: KeptCounts | None = None
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
        return self.weights.logs is not None

    @property
    def effective_sample_size(self) -> float:
        """How many equally weighted items the weighted ones are worth: (Σ w)² / Σ w²."""
        values, _ = self.weights.scaled(self.n_items)
        relative = values / values.max()
        return float(relative.sum() ** 2 / np.square(relative).sum())

    @property
    def among_selected(self) -> bool:
        """Whether this is a rate among the selected, whose number depends on the threshold."""
        return not isinstance(self.total, float)

    @cached_property
    def n_nonmonotone(self) -> int:
        """The number of items whose loss falls somewhere as the threshold gets bolder."""
        if self.among_selected:  # (false − alpha)·selected falls when a true item is selected
            return int((self.pieces.level == 0).sum())
        falls = self.pieces.steps(self.pieces.level) < -TIE_TOLERANCE * self.bound
        return len(np.unique(self.pieces.owner[falls]))

    @property
    def monotone(self) -> bool:
        """Whether no item's loss falls as the threshold gets bolder, and none can."""
        return self.n_nonmonotone == 0 and not self.can_fall and not self.among_selected

    @cached_property
    def envelope(self) -> Floats:
        """The sums for losses made monotone: each item's largest loss at any safer threshold."""
        if self.among_selected:
            raise ValueError(
                f"monotonized_crc needs losses of single items, and {self.loss!r} is a rate among "
                "the selected: use ltt, or gcrc with alpha"
            )
        weights = self.weights.scaled(self.n_items)[0] if self.weighted else None
        return self.pieces.sums(self.pieces.monotone_levels(), weights)

    def risks(self, *, conservative: bool = True, where: Any = slice(None)) -> Floats:
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
        total = self.total if isinstance(self.total, float) else self.total[where]
        with np.errstate(invalid="ignore"):  # a rate among none selected is NaN
            return np.asarray((self.sums[where] + extra * self.bound) / (total + extra))

    def passes(self, alpha: float, sums: Floats | None = None) -> Booleans:
        """Tell at which candidates the conservative risk is at most alpha, compared as sums.

        Parameters
        ----------
        alpha : float
            The tolerated risk.
        sums : numpy.ndarray, optional
            Other sums than those of the losses.

        Returns
        -------
        numpy.ndarray
            One boolean per candidate.
        """
        limit = alpha * (self.total + self.test_weight)
        sums = self.sums if sums is None else sums
        return np.asarray(within_limit(sums + self.test_weight * self.bound, limit))


@dataclass(frozen=True, eq=False)
class KeptCounts:
    """How many scores each candidate keeps, and the scores item by item."""

    unit: str
    scores: Floats
    offsets: Integers
    counts: Integers

    def at(self, index: int, threshold: float) -> KeptShare:
        """Count at one candidate, which keeps what scores at least the threshold."""
        sizes = np.diff(self.offsets)
        starts = self.offsets[:-1][sizes > 0]
        if not len(starts):
            return KeptShare(self.unit, 0, 0, 0, 0, 0, None, None)
        emptied = int((np.maximum.reduceat(self.scores, starts) < threshold).sum())
        return KeptShare(
            self.unit,
            len(self.scores),
            int(self.counts[index]),
            len(starts),
            emptied,
            int(np.square(sizes).sum()),
            float(self.scores.min()),
            float(self.scores.max()),
        )


def sweep(
    losses: LossInput,
    thresholds: ArrayLike | None = None,
    *,
    loss: LossName | None = None,
    bound: float = 1.0,
    weights: ArrayLike | None = None,
    log_weights: ArrayLike | None = None,
    test_weight: float | None = None,
    log_test_weight: float | None = None,
) -> Sweep:
    """Sort and sum the losses at every candidate threshold once, for several methods or levels.

    O(N log N) for N claims or labels, without a table of items × thresholds.

    Parameters
    ----------
    losses : array_like, Claims or ScoredLabels
        A loss matrix (items × thresholds, with the safest threshold last), claims, or scored
        labels.
    thresholds : array_like, optional
        Candidate thresholds, strictly increasing. By default every distinct score, and for a
        matrix the column numbers.
    loss : str or callable, optional
        The loss of claims ("fdr", "any_false", "miss", `FalseAmongShown`, or a function of two
        boolean arrays, `loss(supported, kept)`) or of labels ("false_discovery", "false_positive",
        "false_negative"). The first of each is the default.
    bound : float, default 1.0
        The largest possible loss.
    weights : array_like, optional
        One importance weight per item, for a known shift; only proportions matter.
    log_weights : array_like, optional
        The logarithms of the weights, instead of `weights`.
    test_weight : float, optional
        An upper bound on the weight of the test item, on the scale of `weights`. By default the
        largest of them, and then nothing is promised.
    log_test_weight : float, optional
        Its logarithm, on the scale of `log_weights`.

    Returns
    -------
    Sweep
        The sums at every candidate, to pass to any of the four methods in place of the losses.

    Raises
    ------
    TypeError
        If an argument has the wrong type.
    ValueError
        If an argument is out of range, or a loss lies outside [0, bound].

    Examples
    --------
    >>> claims = Claims([0.9, 0.4, 0.7], [1, 0, 1], offsets=[0, 2, 3])
    >>> swept = sweep(claims)
    >>> swept.thresholds, swept.sums
    (array([inf, 0.9, 0.7, 0.4]), array([0. , 0. , 0. , 0.5]))
    """
    checked = ItemWeights.of(weights, log_weights, test_weight, log_test_weight)
    return prepare(losses, thresholds, loss, bound, checked)


def prepare(
    losses: Any, thresholds: Any, loss: Any, bound: float | None, weights: ItemWeights
) -> Sweep:
    """The sweep of any kind of input; a bound of None is 1, or that of a sweep."""
    if isinstance(losses, Sweep):
        passed = {"thresholds": thresholds, "loss": loss, "bound": bound, "weights": weights.logs}
        for name, value in passed.items():
            if value is not None:
                raise ValueError(f"{name} cannot be passed with a sweep, which fixes it: {losses}")
        return losses
    bound = validate.number("bound", 1.0 if bound is None else bound, above=0, below=1e300)
    if isinstance(losses, Claims):
        return _sweep_claims(losses, thresholds, claim_loss(loss, bound), bound, weights)
    if isinstance(losses, ScoredLabels):
        return _sweep_labels(losses, thresholds, loss, bound, weights)
    if loss is not None:
        raise ValueError(
            f"loss = {loss!r} is for Claims and ScoredLabels; a loss matrix holds the losses"
        )
    return _sweep_matrix(losses, thresholds, bound, weights)


def _candidates(
    scores: Floats, thresholds: ArrayLike | None, safer: str
) -> tuple[Floats, Integers]:
    """Candidates, safest first, and the number of the first that each score has passed.

    Where larger is safer, +inf comes first and then each score admits the claims at it. Where
    smaller is safer the lowest score, which keeps everything, comes first and +inf last: moving
    past a score drops the claims at it.
    """
    larger = safer == "larger"
    if thresholds is None:
        distinct, rank = np.unique(scores, return_inverse=True)
        if larger:
            return np.append(np.inf, distinct[::-1]), len(distinct) - rank
        return np.append(distinct, np.inf), rank + 1
    increasing = _checked_thresholds(thresholds)
    passed = np.searchsorted(increasing, scores, side="right")
    if larger:
        return increasing[::-1], len(increasing) - passed
    return increasing, passed


def _checked_thresholds(thresholds: ArrayLike) -> Floats:
    array = validate.floats("thresholds", thresholds)
    if np.isnan(array).any():
        validate.reject("thresholds", array, np.isnan(array), "a number")
    if (np.diff(array) <= 0).any():
        i = int(np.flatnonzero(np.diff(array) <= 0)[0])
        raise ValueError(
            f"thresholds must be strictly increasing, got thresholds[{i}] = {array[i]} before "
            f"thresholds[{i + 1}] = {array[i + 1]}"
        )
    return array


def _kept_counts(place: Integers, count: int, total: int, safer: str) -> Integers:
    passed = np.cumsum(np.bincount(place, minlength=count + 1)[:count])
    return np.asarray(passed if safer == "larger" else total - passed)


def _sole_owners(place: Integers, owner: Integers, count: int) -> Integers:
    lowest, highest = np.full(count, len(owner)), np.full(count, -1)
    inside = place < count
    np.minimum.at(lowest, place[inside], owner[inside])
    np.maximum.at(highest, place[inside], owner[inside])
    return np.where(lowest == highest, lowest, -1)


def _pieces(owner: Integers, place: Integers, level: Floats, before: Floats, count: int) -> Pieces:
    """Pieces from events in the order of items and candidates; `before` is each item's first level.

    Of events that meet the threshold together, the last has the level after all of them.
    """
    n = len(before)
    at = np.arange(len(owner)) + owner + 1
    owners, start, levels = (np.empty(len(owner) + n, dtype) for dtype in (int, int, float))
    first = np.searchsorted(owner, np.arange(n)) + np.arange(n)
    owners[at], start[at], levels[at] = owner, place, level
    owners[first], start[first], levels[first] = np.arange(n), 0, before
    keep = start < count
    keep[:-1] &= (owners[1:] != owners[:-1]) | (start[1:] != start[:-1])
    owners, start, levels = owners[keep], start[keep], levels[keep]
    return Pieces(np.searchsorted(owners, np.arange(n + 1)), start, levels, count)


def _sweep_claims(
    claims: Claims, thresholds: Any, loss: ClaimLoss, bound: float, weights: ItemWeights
) -> Sweep:
    sizes = np.diff(claims.offsets)
    if loss.shown is not None:
        loss.shown.require_sizes(sizes, claims.items)
        if thresholds is None:
            raise ValueError(
                "thresholds are needed for FalseAmongShown, such as numpy.linspace(0.4, 0.9, 51), "
                "chosen before the labels are seen: above all scores nothing is shown, and no room "
                "is left for the next item; at the largest at least most_claims · (1 − share) / "
                f"share = {loss.shown.needed_shown:g} claims must be shown"
            )
    candidates, place = _candidates(claims.scores, thresholds, loss.safer)
    count, owner = len(candidates), claims.owner
    order = np.lexsort((place, owner))
    true = claims.supported[order]
    before = np.full(claims.n_items, loss.before)
    if loss.function is not None:
        level, before = _called(loss, bound, claims)
    else:
        assert loss.level is not None
        running = np.concatenate([[0], np.cumsum(true)])
        n_true = running[1:] - running[claims.offsets[:-1]][owner]
        n_passed = np.arange(1, len(true) + 1) - claims.offsets[:-1][owner]
        all_true = np.diff(running[claims.offsets])[owner]
        level = loss.level(n_true, n_passed - n_true, all_true)
    pieces = _pieces(owner, place[order], level, before, count)
    values, test = weights.scaled(claims.n_items)
    infinite = candidates[0] == (np.inf if loss.safer == "larger" else -np.inf)
    counts = _kept_counts(place, count, len(owner), loss.safer)
    return Sweep(
        thresholds=validate.frozen(candidates),
        sums=pieces.sums(pieces.level, None if weights.logs is None else values),
        total=float(values.sum()),
        test_weight=test,
        bound=bound,
        loss=loss.name,
        safer=loss.safer,
        pieces=pieces,
        weights=weights,
        exact=thresholds is None,
        can_fall=loss.can_fall and bool((sizes > 1).any()),
        binary=loss.binary and bound == 1,
        harmless=loss.harmless and bool(thresholds is None or infinite),
        shown=loss.shown,
        kept=KeptCounts("claims", claims.scores, claims.offsets, counts),
        owners=_sole_owners(place, owner, count) if thresholds is None else None,
    )


def _called(loss: ClaimLoss, bound: float, claims: Claims) -> tuple[Floats, Floats]:
    """The losses of a user's function after each claim, highest scores first, and before any."""
    assert loss.function is not None
    order = np.lexsort((-claims.scores, claims.owner))
    level, before = np.empty(len(order)), np.empty(claims.n_items)
    for i, (first, stop) in enumerate(zip(claims.offsets[:-1], claims.offsets[1:], strict=True)):
        true, number = claims.supported[order[first:stop]], np.arange(stop - first)
        for k in range(-1, stop - first):
            value: Any = loss.function(true, number <= k)
            try:
                found = float(value)
            except (TypeError, ValueError) as error:
                raise TypeError(
                    f"loss {loss.name!r} must return a number, got {value!r}"
                ) from error
            if not 0 <= found <= bound:
                raise ValueError(
                    f"loss {loss.name!r} is {found:g} for item {i}: expected a loss in "
                    f"[0, bound = {bound:g}]"
                )
            if k < 0:
                before[i] = found
            else:
                level[first + k] = found
    return level, before


def _sweep_labels(
    items: ScoredLabels, thresholds: Any, loss: Any, bound: float, weights: ItemWeights
) -> Sweep:
    """Rates of a yes-or-no decision, each among the items that it is a rate of."""
    loss = validate.choice("loss", "false_discovery" if loss is None else loss, LABEL_LOSSES)
    if bound < 1:
        raise ValueError(f"bound must be at least 1 for {loss!r}, got {bound:g}")
    safer, among_selected = LABEL_LOSSES[loss], loss == "false_discovery"
    weights.scaled(items.n_items)  # checks the number of weights
    among = np.arange(items.n_items)
    if not among_selected:
        among = np.flatnonzero(items.labels == (loss == "false_negative"))
    if not len(among):
        kind = int(loss == "false_negative")
        raise ValueError(f"labels has no {kind}: the {loss} rate is undefined")
    candidates, all_places = _candidates(items.scores, thresholds, safer)
    count, place, weights = len(candidates), all_places[among], weights.take(among)
    values, test = weights.scaled(len(among))
    level = (~items.labels).astype(float) if among_selected else np.ones(len(among))
    before = np.full(len(among), np.nan if among_selected else 0.0)
    pieces = _pieces(np.arange(len(among)), place, level, before, count)
    sums, counts = (
        np.cumsum(np.bincount(place, weights=step, minlength=count + 1)[:count])
        for step in (values * level, values)
    )
    infinite = candidates[0] == (np.inf if safer == "larger" else -np.inf)
    kept = _kept_counts(all_places, count, items.n_items, safer)
    return Sweep(
        thresholds=validate.frozen(candidates),
        sums=sums,
        total=counts if among_selected else float(values.sum()),
        test_weight=test,
        bound=bound,
        loss=loss,
        safer=safer,
        pieces=pieces,
        weights=weights,
        exact=thresholds is None,
        binary=bound == 1,
        harmless=not among_selected and bool(thresholds is None or infinite),
        kept=KeptCounts("items", items.scores, np.arange(items.n_items + 1), kept),
        owners=_sole_owners(place, np.arange(len(among)), count) if thresholds is None else None,
    )


def as_matrix(losses: Any, bound: float | None = None) -> Any:
    """A loss matrix: real numbers in [0, bound], items × thresholds."""
    names = [str(name) for name in getattr(losses, "columns", ())]
    if not all(any(character.isdigit() for character in name) for name in names):
        raise TypeError(
            f"losses must be a matrix of items × thresholds, got a frame with the columns "
            f"{names[:6]}: of a table of claims take tether.Claims.from_frame(frame), and of one "
            "with one score per item tether.ScoredLabels(frame['score'], frame['label'])"
        )
    validate.reject_masked("losses", losses)
    try:
        matrix = np.asarray(losses)
    except ValueError as error:
        raise ValueError(f"losses is not a matrix of items × thresholds: {error}") from error
    if matrix.dtype.kind not in "fiub":
        raise TypeError(
            f"losses must be a matrix of real numbers, got {type(losses).__name__} of dtype "
            f"{matrix.dtype}"
        )
    if matrix.ndim != 2 or 0 in matrix.shape:
        raise ValueError(f"losses must be a matrix of items × thresholds, got shape {matrix.shape}")
    if bound is not None:
        bad = ~((matrix >= 0) & (matrix <= bound))
        if bad.any():
            validate.reject("losses", matrix, bad, f"a loss in [0, bound = {bound:g}]")
    return matrix


def _sweep_matrix(losses: Any, thresholds: Any, bound: float, weights: ItemWeights) -> Sweep:
    matrix = as_matrix(losses, bound)
    n_items, count = matrix.shape
    increasing = _checked_thresholds(np.arange(count) if thresholds is None else thresholds)
    if len(increasing) != count:
        raise ValueError(f"thresholds has {len(increasing)} values but losses has {count} columns")
    safest_first = matrix[:, ::-1]
    begins = np.ones(matrix.shape, dtype=np.bool_)
    np.not_equal(safest_first[:, 1:], safest_first[:, :-1], out=begins[:, 1:])
    first = np.concatenate([[0], np.cumsum(begins.sum(axis=1))])
    level = safest_first[begins].astype(np.float64)
    pieces = Pieces(first, np.nonzero(begins)[1], level, count)
    values, test = weights.scaled(n_items)
    sums = matrix.sum(axis=0, dtype=np.float64) if weights.logs is None else values @ matrix
    return Sweep(
        thresholds=validate.frozen(increasing[::-1]),
        sums=np.asarray(sums, dtype=np.float64)[::-1],
        total=float(values.sum()),
        test_weight=test,
        bound=bound,
        loss="loss matrix",
        safer="larger",
        pieces=pieces,
        weights=weights,
        exact=False,
        binary=matrix.dtype == np.bool_ and bound == 1,
    )


def renamed(swept: Sweep, name: str) -> Sweep:
    """The same losses by the name that the user gave them."""
    return replace(swept, loss=name)
