"""What thresholds are chosen from: scored claims with labels, scored labels, weights of items."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tether._core import frames, validate
from tether._core.row_indexes import check_row_indexes
from tether._core.types import Booleans, Floats, Frame, Integers
from tether._core.user_warnings import warn_user
from tether._core.warning_categories import AssumptionWarning

MIN_DOUBLED_ITEMS, MIN_DOUBLED_SHARE = 3, 0.01
"""How many items must have every claim twice, and which share of all items, for a warning."""

PerItem: TypeAlias = ArrayLike | Mapping[Any, Any]
"""One value per item: in the order of the items, or by item name where items have names."""


def finite_scores(name: str, values: ArrayLike) -> Floats:
    """Scores: real and finite. NaN cannot be ordered, and no threshold is safer than infinity."""
    _require_column(name, values)
    array = validate.floats(name, values)
    if not np.isfinite(array).all():
        validate.reject(name, array, ~np.isfinite(array), "a finite score")
    return array


def binary_labels(name: str, values: ArrayLike) -> Booleans:
    """Labels: booleans, or numbers that are 0 or 1."""
    _require_column(name, values)
    validate.reject_masked(name, values)
    array = np.asarray(values)
    if array.dtype == np.bool_ and array.ndim == 1 and array.size:
        return validate.frozen(array)
    first = array.reshape(-1)[0] if array.dtype.kind in "USO" and array.size else None
    if isinstance(first, (str, bytes)):
        one = "a true claim" if name == "supported" else "a positive label"
        raise TypeError(
            f"{name} must hold booleans, or 0 and 1, got text such as {str(first)!r}: compare the "
            f"column with the word that means {one}, as in column == 'yes'"
        )
    numbers = validate.floats(name, values)
    bad = (numbers != 0) & (numbers != 1)
    if bad.any():
        validate.reject(name, numbers, bad, "a label of 0 or 1")
    return validate.frozen(numbers.astype(np.bool_))


def _require_column(name: str, values: Any) -> None:
    names = [str(each) for each in getattr(values, "columns", ())]
    if names and np.ndim(values) == 2:
        raise TypeError(
            f"{name} must be one column, got a table with the columns {names[:6]}: pass one of "
            f"them, such as table[{names[0]!r}]"
        )


@dataclass(frozen=True, eq=False, repr=False, init=False)
class Claims:
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

    Raises
    ------
    TypeError
        If `scores` or `supported` do not hold real numbers.
    ValueError
        If a score is not finite, a label is not 0 or 1, the lengths differ, `offsets` do not
        delimit the claims, or two items have the same name.

    Examples
    --------
    >>> Claims([0.9, 0.4, 0.7], [1, 0, 1], offsets=[0, 2, 3])
    Claims(n_items=2, n_claims=3, n_supported=2)
    """

    scores: Floats
    supported: Booleans
    offsets: Integers
    items: NDArray[Any] | None
    _groups: dict[Any, Any] | None

    def __init__(
        self,
        scores: ArrayLike,
        supported: ArrayLike,
        offsets: ArrayLike,
        items: ArrayLike | None = None,
    ) -> None:
        check_row_indexes({"scores": scores, "supported": supported})
        checked = finite_scores("scores", scores)
        labels = binary_labels("supported", supported)
        validate.same_length("supported", labels, "scores", len(checked))
        bounds = _checked_offsets(offsets, len(checked))
        self._set(checked, labels, bounds, _checked_names(items, len(bounds) - 1), None)

    def _set(self, *values: Any) -> None:
        names = ("scores", "supported", "offsets", "items", "_groups")
        for name, value in zip(names, values, strict=True):
            value = validate.frozen(value) if isinstance(value, np.ndarray) else value
            object.__setattr__(self, name, value)

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
        weights are given by name too. An item without claims has no row and is missing from the
        result: pass `offsets` to the constructor instead.

        Parameters
        ----------
        frame : frame
            A pandas, polars or Arrow table, a dictionary of arrays, or a structured array.
        scores : str, default "score"
            The column of confidences, finite.
        supported : str, default "supported"
            The column that says whether each claim is true: booleans, or 0 and 1.
        items : str, default "item"
            The column that names the item of each claim: integers or strings.
        groups : str, optional
            The column of groups, the same for all claims of an item. The methods take
            `groups=claims.groups`.

        Returns
        -------
        Claims
            The claims, grouped by item.

        Raises
        ------
        TypeError
            If a column has the wrong type.
        ValueError
            If there is no such column, a value is out of range, or an item has several groups.

        Warns
        -----
        AssumptionWarning
            If every claim of several items occurs more than once, as after a join.

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
        order = np.argsort(owner, kind="stable")
        claims = object.__new__(cls)
        offsets = np.concatenate([[0], np.cumsum(sizes)])
        claims._set(checked[order], labels[order], offsets, distinct, None)
        if groups is not None:
            column = validate.labels(groups, frames.column(frame, "groups", groups), len(checked))
            object.__setattr__(claims, "_groups", _group_of_items(claims, column[order]))
        _warn_of_doubled_items(claims)
        return claims

    def __repr__(self) -> str:
        return (
            f"Claims(n_items={self.n_items}, n_claims={len(self.scores)}, "
            f"n_supported={int(self.supported.sum())})"
        )

    @property
    def n_items(self) -> int:
        """The number of items."""
        return len(self.offsets) - 1

    @property
    def owner(self) -> Integers:
        """The index of the item of each claim."""
        return np.repeat(np.arange(self.n_items), np.diff(self.offsets))

    @property
    def groups(self) -> dict[Any, Any]:
        """The group of each item by its name, where `from_frame` was given a column of groups."""
        if self._groups is None:
            raise ValueError("these claims have no groups: name a column in Claims.from_frame")
        return dict(self._groups)

    def take(self, items: ArrayLike) -> Claims:
        """Select the claims of some of the items.

        Parameters
        ----------
        items : array_like
            Item indices, in the order wanted, or one boolean per item.

        Returns
        -------
        Claims
            The claims of these items, with their names.
        """
        chosen = np.arange(self.n_items)[np.asarray(items, dtype=None if np.size(items) else int)]
        sizes = np.diff(self.offsets)[chosen]
        ends = np.cumsum(sizes)
        rows = np.repeat(self.offsets[chosen] - (ends - sizes), sizes) + np.arange(sizes.sum())
        names = None if self.items is None else self.items[chosen]
        offsets = np.concatenate([[0], ends])
        taken = object.__new__(Claims)
        taken._set(self.scores[rows], self.supported[rows], offsets, names, self._groups)
        return taken


def _checked_offsets(values: ArrayLike, n_claims: int) -> Integers:
    array = np.asarray(values)
    if array.dtype.kind not in "iu" or array.ndim != 1 or len(array) < 2:
        raise ValueError(
            "offsets must be one-dimensional integers, one more than there are items, "
            f"got dtype {array.dtype} and shape {array.shape}"
        )
    array = array.astype(np.int64)
    if array[0] != 0 or array[-1] != n_claims or (np.diff(array) < 0).any():
        raise ValueError(
            f"offsets must start at 0, not decrease, and end at the number of claims, {n_claims}, "
            f"got {array[:3].tolist()} … {array[-1]}"
        )
    return array


def _checked_names(items: ArrayLike | None, n_items: int) -> NDArray[Any] | None:
    if items is None:
        return None
    names = validate.labels("items", items, n_items)
    distinct, counts = np.unique(names, return_counts=True)
    if (counts > 1).any():
        raise ValueError(
            f"items must be all different, got {distinct[counts > 1][0].item()!r} twice"
        )
    return names


def _group_of_items(claims: Claims, groups: NDArray[Any]) -> dict[Any, Any]:
    assert claims.items is not None
    first = groups[claims.offsets[:-1]]
    differs = groups != first[claims.owner]
    if differs.any():
        row = int(np.argmax(differs))
        item = int(claims.owner[row])
        raise ValueError(
            "groups must be the same for all claims of an item, got "
            f"{first[item].item()!r} and {groups[row].item()!r} for item "
            f"{claims.items[item].item()!r}"
        )
    return dict(zip(claims.items.tolist(), first.tolist(), strict=True))


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
            "the same score and label: was the table joined to itself, or do files overlap? "
            "Remove the copies, since they count as evidence",
            AssumptionWarning,
        )


@dataclass(frozen=True, eq=False, repr=False, init=False)
class ScoredLabels:
    """One score and one binary label per item; an item is selected when score ≥ threshold.

    Items are assumed exchangeable, and independent for `promise=` and `ltt`.

    Parameters
    ----------
    scores : array_like
        One finite score per item.
    labels : array_like
        One label per item: booleans, or numbers that are 0 or 1.

    Raises
    ------
    TypeError
        If `scores` or `labels` do not hold real numbers.
    ValueError
        If a score is not finite, a label is not 0 or 1, or the lengths differ.

    Examples
    --------
    >>> ScoredLabels([0.9, 0.4, 0.7], [1, 0, 1])
    ScoredLabels(n_items=3, n_positive=2)
    """

    scores: Floats
    labels: Booleans

    def __init__(self, scores: ArrayLike, labels: ArrayLike) -> None:
        check_row_indexes({"scores": scores, "labels": labels})
        object.__setattr__(self, "scores", finite_scores("scores", scores))
        object.__setattr__(self, "labels", binary_labels("labels", labels))
        validate.same_length("labels", self.labels, "scores", len(self.scores))

    def __repr__(self) -> str:
        return f"ScoredLabels(n_items={self.n_items}, n_positive={int(self.labels.sum())})"

    @property
    def n_items(self) -> int:
        """The number of items."""
        return len(self.scores)

    def take(self, items: ArrayLike) -> ScoredLabels:
        """Select some of the items, in the given order.

        Parameters
        ----------
        items : array_like
            Item indices, or one boolean per item.

        Returns
        -------
        ScoredLabels
            The selected items.
        """
        chosen = np.asarray(items)
        return ScoredLabels(self.scores[chosen], self.labels[chosen])


def in_item_order(name: str, values: PerItem | None, losses: Any) -> Any:
    """The values in the order of the items; by name where items have names.

    Claims from a frame are ordered by item name, not by row: a value by position would be that of
    another item, and nothing in the numbers would show it.
    """
    if values is None:
        return None
    inputs = list(losses.values()) if isinstance(losses, Mapping) else [losses]
    named = [part.items if isinstance(part, Claims) else None for part in inputs]
    known = [names for names in named if names is not None]
    if not isinstance(values, Mapping):
        if known:
            raise ValueError(
                f"{name} must be a mapping from item name to value for claims whose items have "
                f"names, which are ordered by name and not by row; got {type(values).__name__} of "
                f"length {np.size(values)}. For groups, name a column in Claims.from_frame and "
                "pass claims.groups"
            )
        for part in inputs:
            check_row_indexes({name: values, "losses": part})
        return values
    if len(known) < len(named):
        raise ValueError(
            f"{name} is a mapping, which needs items with names: Claims.from_frame, or Claims with "
            "items; without them pass one value per item, in their order"
        )
    if not all(np.array_equal(names, known[0]) for names in known):
        raise ValueError(f"{name} needs losses of the same items, and their names differ")
    ordered = known[0].tolist()
    if missing := [item for item in ordered if item not in values]:
        raise ValueError(
            f"{name} has no value for {len(missing)} of {len(ordered)} items, the first of which "
            f"is {missing[0]!r}"
        )
    return [values[item] for item in ordered]


def group_names(labels: NDArray[Any]) -> NDArray[np.str_]:
    """The names of groups as a selection has them: texts; bytes are read as UTF-8.

    >>> group_names(np.array([b"en", b"de"])).tolist(), group_names(np.array([7, 12])).tolist()
    (['en', 'de'], ['7', '12'])
    """
    if labels.dtype.kind == "S":
        return np.char.decode(labels, "utf-8", "backslashreplace")
    return labels.astype(np.str_)


@dataclass(frozen=True, eq=False)
class ItemWeights:
    """Importance weights for a known shift, by their logs, and the weight of the test item.

    With weights w_i ∝ (density of future items) / (density of these items), every sum over items
    becomes a weighted one, and the test item enters with a weight that must not be underestimated.
    Only proportions matter: all are divided by the largest, so that no sum can overflow.
    """

    logs: Floats | None = None
    log_test: float | None = None  # None: the largest of the logs, which bounds nothing

    @classmethod
    def of(
        cls, weights: Any, log_weights: Any, test_weight: Any, log_test_weight: Any
    ) -> ItemWeights:
        """Check what the user passed: weights or their logs, with a test weight on their scale."""
        for name, value, scale, given in (
            ("test_weight", test_weight, "weights", weights),
            ("log_test_weight", log_test_weight, "log_weights", log_weights),
        ):
            if value is not None and given is None:
                raise ValueError(
                    f"{name} = {value!r} needs {scale}, which set its scale; without weights every "
                    "item, the test item included, has weight 1"
                )
        if weights is not None and log_weights is not None:
            raise ValueError("pass weights or log_weights, not both")
        log_test = log_test_weight
        if weights is not None:
            values = validate.floats("weights", weights)
            valid = (values >= 0) & (values < np.inf)
            if not valid.all():
                validate.reject("weights", values, ~valid, "a finite weight of at least 0")
            with np.errstate(divide="ignore"):
                log_weights = np.log(values)
            if test_weight is not None:
                test = validate.number("test_weight", test_weight, above=0, below=np.inf)
                log_test = float(np.log(test))
        if log_weights is None:
            return cls()
        logs = validate.log_probabilities("log_weights", log_weights, zero=True)
        if log_test is not None:
            log_test = validate.number("log_test_weight", log_test, above=-np.inf, below=np.inf)
        return cls(logs, log_test)

    @property
    def is_test_assumed(self) -> bool:
        """Whether the weight of the test item is only the largest that was seen."""
        return self.logs is not None and self.log_test is None

    def scaled(self, n_items: int) -> tuple[Floats, float]:
        """The weights of the items and of the test item, the largest of them 1."""
        if self.logs is None:
            return np.ones(n_items), 1.0
        validate.same_length("weights", self.logs, "losses", n_items)
        largest = float(self.logs.max(initial=-np.inf))
        test = largest if self.log_test is None else self.log_test
        values = np.exp(self.logs - max(largest, test)) if largest > -np.inf else np.zeros(1)
        if values.sum() == 0:
            raise ValueError("weights are all 0, beside that of the test item: no item counts")
        return values, float(np.exp(test - max(largest, test)))

    def take(self, items: Integers) -> ItemWeights:
        """The weights of some items; the test item keeps its own, or gets the largest of these."""
        return self if self.logs is None else ItemWeights(self.logs[items], self.log_test)
