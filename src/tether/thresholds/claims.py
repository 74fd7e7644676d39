"""What thresholds are chosen from: scored claims with labels, scored labels, weights of items."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Self, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tether._core import frames, validate
from tether._core.arrays import Booleans, Floats, Frame, Integers, check_row_indexes
from tether._core.words import AssumptionWarning, warn_user

MIN_DOUBLED_ITEMS, MIN_DOUBLED_SHARE = 3, 0.01
"""How many items must have every claim twice, and which share of all items, for a warning."""
PerItem: TypeAlias = ArrayLike | Mapping[Any, Any]
"""One value per item: in the order of the items, or by item name where items have names."""


def finite_scores(name: str, values: ArrayLike) -> Floats:
    """Scores: real and finite. NaN cannot be ordered, and no threshold is safer than infinity."""
    return validate.floats(name, values, meaning="score", finite=True)


def binary_labels(name: str, values: ArrayLike) -> Booleans:
    """Labels: booleans, or numbers that are 0 or 1."""
    numbers = validate.floats(name, values, meaning="label")
    bad = (numbers != 0) & (numbers != 1)
    if bad.any():
        validate.reject(name, numbers, bad, "a label of 0 or 1")
    return validate.frozen(numbers.astype(np.bool_))


def _scored(scores: ArrayLike, name: str, labels: ArrayLike) -> tuple[Floats, Booleans]:
    """Scores and labels, checked."""
    check_row_indexes({"scores": scores, name: labels})
    checked, known = finite_scores("scores", scores), binary_labels(name, labels)
    validate.same_length(name, known, "scores", len(checked))
    return checked, known


class Scored:
    """Scores with labels; those of item i are `offsets[i]:offsets[i + 1]`."""

    unit = "claims"
    items: NDArray[Any] | None = None
    _groups: dict[Any, Any] | None = None

    def _set(self, scores: Floats, supported: Booleans, offsets: Integers) -> Self:
        self.scores, self.supported = validate.frozen(scores), validate.frozen(supported)
        self.offsets = validate.frozen(offsets)
        return self

    @property
    def n_items(self) -> int:
        """The number of items."""
        return len(self.offsets) - 1

    @property
    def owner(self) -> Integers:
        """The index of the item of each score."""
        return np.repeat(np.arange(self.n_items), np.diff(self.offsets))

    def take(self, items: ArrayLike) -> Self:
        """Select some of the items: by their indices, or one boolean per item."""
        chosen = np.arange(self.n_items)[np.asarray(items, dtype=None if np.size(items) else int)]
        sizes = self.offsets[chosen + 1] - self.offsets[chosen]
        ends = np.cumsum(sizes)
        rows = np.repeat(self.offsets[chosen] - (ends - sizes), sizes) + np.arange(sizes.sum())
        taken = type(self).__new__(type(self))
        taken.items, taken._groups = self.items, self._groups
        if self.items is not None:
            taken.items = validate.frozen(self.items[chosen])
        return taken._set(self.scores[rows], self.supported[rows], np.append(0, ends))


class Claims(Scored):
    """The scored claims of many items: those of item i are `offsets[i]:offsets[i + 1]`.

    An item (an answer, a document) may have no claims at all. Items are assumed exchangeable, and
    independent for `promise=` and `ltt`; claims within an item need not be.

    Parameters
    ----------
    scores : array_like
        The confidence in each claim, finite.
    supported : array_like
        Whether each claim is true: booleans, or numbers that are 0 or 1.
    offsets : array_like
        Where the claims of each item begin, and the number of claims at the end: integers that
        start at 0 and do not decrease, one more than there are items.
    items : array_like, optional
        The name of each item, all different: integers or strings. Groups and weights are then
        given by name.

    Examples
    --------
    >>> Claims([0.9, 0.4, 0.7], [1, 0, 1], offsets=[0, 2, 3])
    Claims(n_items=2, n_claims=3, n_supported=2)
    """

    def __init__(
        self,
        scores: ArrayLike,
        supported: ArrayLike,
        offsets: ArrayLike,
        items: ArrayLike | None = None,
    ) -> None:
        checked, labels = _scored(scores, "supported", supported)
        bounds = np.asarray(offsets)
        right = bounds.dtype.kind in "iu" and bounds.ndim == 1 and len(bounds) > 1
        right = right and (bounds[0], bounds[-1]) == (0, len(checked))
        if not right or (bounds[1:] < bounds[:-1]).any():
            raise ValueError(
                "offsets must be integers from 0 to the number of claims, one more than there are "
                f"items, that do not decrease, got {offsets!r:.80}"
            )
        if items is not None:
            names = validate.labels("items", items, len(bounds) - 1)
            if len(np.unique(names)) < len(names):
                raise ValueError(f"items must be all different, got {len(np.unique(names))} names")
            self.items = names
        self._set(checked, labels, bounds.astype(np.int64))

    @classmethod
    def from_frame(
        cls,
        frame: Frame,
        *,
        scores: str = "score",
        supported: str = "supported",
        items: str = "item",
        groups: str | None = None,
    ) -> Claims:
        """Build claims from a table with one row per claim.

        The rows of an item need not be adjacent. Items are ordered by name, so that groups and
        weights are given by name too. An item without claims has no row, and is missing. Warns
        where every claim of several items occurs more than once, as after a join.

        Parameters
        ----------
        frame : frame
            A pandas, polars or Arrow table, a dictionary of arrays, or a structured array.
        scores, supported, items : str
            The columns of confidences, of labels, and of the names of the items that claims belong
            to, integers or strings.
        groups : str, optional
            The column of groups, the same for all claims of an item, for `groups=claims.groups`.

        Examples
        --------
        >>> rows = {"score": [0.9, 0.7, 0.4], "supported": [1, 1, 0], "item": ["b", "a", "b"]}
        >>> Claims.from_frame(rows).scores
        array([0.7, 0.9, 0.4])
        """
        checked = finite_scores(scores, frames.column(frame, "scores", scores))
        labels = binary_labels(supported, frames.column(frame, "supported", supported))
        names = validate.labels(items, frames.column(frame, "items", items), len(checked))
        distinct, owner, sizes = np.unique(names, return_inverse=True, return_counts=True)
        order, offsets = np.argsort(owner, kind="stable"), np.concatenate([[0], np.cumsum(sizes)])
        claims = cls.__new__(cls)._set(checked[order], labels[order], offsets)
        claims.items = validate.frozen(distinct)
        if groups is not None:
            column = validate.labels(groups, frames.column(frame, "groups", groups), len(checked))
            column = column[order]
            first = column[offsets[:-1]]
            if (odd := np.flatnonzero(column != np.repeat(first, sizes))).size:
                raise ValueError(
                    "groups must be the same for all claims of an item, got another, "
                    f"{column[odd[0]].item()!r}, for item {names[order][odd[0]].item()!r}"
                )
            claims._groups = dict(zip(distinct.tolist(), first.tolist(), strict=True))
        _warn_of_doubled_items(claims)
        return claims

    def __repr__(self) -> str:
        return (
            f"Claims(n_items={self.n_items}, n_claims={len(self.scores)}, "
            f"n_supported={int(self.supported.sum())})"
        )

    @property
    def groups(self) -> dict[Any, Any]:
        """The group of each item by its name, where `from_frame` was given a column of groups."""
        if self._groups is None:
            raise ValueError("these claims have no groups: name a column in Claims.from_frame")
        return dict(self._groups)


def _warn_of_doubled_items(claims: Claims) -> None:
    """Warn where all claims of some items, with three scores or more, occur twice or more."""
    order = np.lexsort((claims.supported, claims.scores, claims.owner))
    columns = claims.owner[order], claims.scores[order], claims.supported[order]
    new = np.append(True, np.any([each[1:] != each[:-1] for each in columns], axis=0))
    times = np.diff(np.append(np.flatnonzero(new), len(order)))
    owner = columns[0][new]
    distinct = np.bincount(owner, minlength=claims.n_items)
    odd = np.bincount(owner[times % 2 == 1], minlength=claims.n_items)
    doubled = int(((distinct >= 3) & (odd == 0)).sum())
    if doubled >= max(MIN_DOUBLED_ITEMS, MIN_DOUBLED_SHARE * claims.n_items):
        warn_user(
            f"every claim of {doubled:,} of {claims.n_items:,} items occurs at least twice with "
            "the same score and label: remove copies, as of a join, since they count as evidence",
            AssumptionWarning,
        )


class ScoredLabels(Scored):
    """One score and one binary label per item; an item is selected when score ≥ threshold.

    Items are assumed exchangeable, and independent for `promise=` and `ltt`.

    Parameters
    ----------
    scores : array_like
        One finite score per item.
    labels : array_like
        One label per item: booleans, or numbers that are 0 or 1.

    Examples
    --------
    >>> ScoredLabels([0.9, 0.4, 0.7], [1, 0, 1])
    ScoredLabels(n_items=3, n_positive=2)
    """

    unit = "items"

    def __init__(self, scores: ArrayLike, labels: ArrayLike) -> None:
        checked, known = _scored(scores, "labels", labels)
        self._set(checked, known, np.arange(len(checked) + 1))

    def __repr__(self) -> str:
        return f"ScoredLabels(n_items={self.n_items}, n_positive={int(self.labels.sum())})"

    @property
    def labels(self) -> Booleans:
        """The label of each item."""
        return self.supported


def in_item_order(name: str, values: PerItem | None, losses: Any) -> Any:
    """The values in the order of the items; by name where items have names, ordered by it."""
    if values is None:
        return None
    inputs = list(losses.values()) if isinstance(losses, Mapping) else [losses]
    named = [part.items for part in inputs if isinstance(part, Scored) and part.items is not None]
    if not named and not isinstance(values, Mapping):
        check_row_indexes({name: values, **{f"losses[{k}]": each for k, each in enumerate(inputs)}})
        return values
    if not isinstance(values, Mapping) or len(named) < len(inputs):
        raise ValueError(
            f"{name} must be a mapping from item name to value, such as claims.groups, where items "
            f"have names, and one value per item elsewhere, got {type(values).__name__}"
        )
    if not all(np.array_equal(names, named[0]) for names in named):
        raise ValueError(f"{name} needs losses of the same items, and their names differ")
    ordered = named[0].tolist()
    if missing := [item for item in ordered if item not in values]:
        number = f"{len(missing)} of {len(ordered)} items"
        raise ValueError(f"{name} has no value for {number}, such as {missing[0]!r}")
    return [values[item] for item in ordered]


def rows_of_groups(groups: Any, count: int) -> dict[str, Integers]:
    """The indices of the rows of each group, by its name as a text."""
    names = validate.labels("groups", groups, count).astype(np.str_)
    distinct, place, sizes = np.unique(names, return_inverse=True, return_counts=True)
    rows = np.split(np.argsort(place, kind="stable"), np.cumsum(sizes)[:-1])
    return dict(zip(distinct.tolist(), rows, strict=True))


class ItemWeights(NamedTuple):
    """Importance weights for a known shift, and an upper bound on that of the test item.

    Every sum over items becomes a weighted one, and the test item has a weight that must not be
    underestimated: without a bound the largest weight stands for it, and nothing is promised.
    """

    values: Floats | None = None
    test: float | None = None

    @classmethod
    def of(cls, weights: Any, test_weight: Any) -> ItemWeights:
        """Check what the user passed."""
        if weights is None:
            if test_weight is not None:
                raise ValueError(f"test_weight = {test_weight!r} needs weights, for its scale")
            return cls()
        values = validate.floats("weights", weights)
        valid = (values >= 0) & (values < np.inf)
        if not valid.all():
            validate.reject("weights", values, ~valid, "a finite weight of at least 0")
        if test_weight is not None:
            test_weight = validate.number("test_weight", test_weight, above=0, below=np.inf)
            if test_weight < (largest := float(values.max())):
                raise ValueError(
                    f"test_weight must be at least the largest of weights, {largest:g}, since it "
                    f"bounds the weight of any item, got {test_weight:g}"
                )
        return cls(values, test_weight)

    def take(self, items: Integers) -> ItemWeights:
        """The weights of some items; the test item keeps its own, or gets the largest of these."""
        return self if self.values is None else ItemWeights(self.values[items], self.test)
