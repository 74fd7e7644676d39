"""Scored claims: the individual statements of an answer, each with a confidence and a label."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tether._core import validate
from tether._core.row_indexes import check_row_indexes
from tether._core.types import Booleans, Floats, Integers
from tether._core.user_warnings import warn_user
from tether._core.warning_categories import AssumptionWarning
from tether.risk.claim_columns import (
    CLAIMS_PER_BLOCK,
    binary_labels,
    checked_offsets,
    finite_scores,
)

if TYPE_CHECKING:
    from tether.risk.scanned_claims import ScannedClaims


@dataclass(frozen=True, eq=False)
class Claims:
    """The scored claims of many items: those of item i are `offsets[i]:offsets[i + 1]`.

    An item (an answer, a document) may have no claims at all. Items are assumed exchangeable (for
    `ltt`: independent and identically distributed); claims within an item need not be.

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
        object.__setattr__(self, "scores", checked)
        object.__setattr__(self, "supported", labels)
        object.__setattr__(self, "offsets", checked_offsets(offsets, len(checked)))
        object.__setattr__(self, "items", _checked_names(items, self.n_items))
        object.__setattr__(self, "_groups", None)

    @classmethod
    def from_table(
        cls,
        scores: ArrayLike,
        supported: ArrayLike,
        items: ArrayLike,
        groups: ArrayLike | None = None,
    ) -> Claims:
        """Build claims from columns with one row per claim.

        The rows of an item need not be adjacent. Items are ordered by name, so that groups and
        weights are given by name too. An item without claims has no row and is missing from the
        result: pass `offsets` to the constructor instead.

        Parameters
        ----------
        scores : array_like
            The confidence in each claim, finite.
        supported : array_like
            Whether each claim is true: booleans, or numbers that are 0 or 1.
        items : array_like
            The name of the item that each claim belongs to: integers or strings.
        groups : array_like, optional
            The group of the item that each claim belongs to, the same for all claims of an item.
            The methods take `groups=claims.groups`.

        Returns
        -------
        Claims
            The claims, grouped by item.

        Raises
        ------
        TypeError
            If a column has the wrong type.
        ValueError
            If a value is out of range, the lengths differ, or an item has several groups.

        Warns
        -----
        AssumptionWarning
            If all claims of several items occur more than once, as in a table of files that
            overlap, or several items have exactly the scores of others.

        Examples
        --------
        >>> Claims.from_table([0.9, 0.7, 0.4], [1, 1, 0], ["b", "a", "b"]).scores
        array([0.7, 0.9, 0.4])
        """
        from tether.risk.repeated_claims import repeated_claims_warning

        claims = cls._from_columns(scores, supported, items, groups)
        if (repeated := repeated_claims_warning(claims)) is not None:
            warn_user(repeated, AssumptionWarning)
        return claims

    @classmethod
    def _from_columns(
        cls,
        scores: ArrayLike,
        supported: ArrayLike,
        items: ArrayLike,
        groups: ArrayLike | None,
    ) -> Claims:
        """The same, without a look at whether rows are repeated."""
        columns = {"scores": scores, "supported": supported, "items": items, "groups": groups}
        check_row_indexes(columns)
        checked = finite_scores("scores", scores)
        labels = binary_labels("supported", supported)
        names = validate.labels("items", items, len(checked))
        validate.same_length("supported", labels, "scores", len(checked))
        distinct, item_of_row, sizes = np.unique(names, return_inverse=True, return_counts=True)
        order = np.argsort(item_of_row, kind="stable")
        offsets = np.concatenate([[0], np.cumsum(sizes)])
        claims = cls(checked[order], labels[order], offsets, distinct)
        if groups is not None:
            column = validate.labels("groups", groups, len(checked))[order]
            object.__setattr__(claims, "_groups", _group_of_items(claims, column))
        return claims

    @classmethod
    def scan(
        cls,
        source: Any,
        *,
        scores: str,
        supported: str,
        items: str,
        groups: str | None = None,
        weights: str | None = None,
        log_weights: str | None = None,
        where: Any = None,
    ) -> ScannedClaims:
        """Name claims that are larger than memory, one row per claim, and are read in parts.

        `gcrc`, `crc`, `monotonized_crc` and `ltt` take the result like claims in memory, and find
        the same threshold. All claims of one item must be in one part: a file, or a partition of an
        engine; this is checked. Frames of an engine are sorted or partitioned by item first. Needs
        the extra `scan`.

        Parameters
        ----------
        source : path, frame, callable or tether.scan.Source
            A Parquet file, a folder or a glob of them, or a list of these, also as addresses such
            as s3://bucket/folder; a DuckDB relation, a
            Polars lazy frame or a Spark data frame; or a function that applies a kernel to
            partitions and returns its summaries.
        scores : str
            The column of confidences.
        supported : str
            The column of labels: booleans, or numbers that are 0 or 1.
        items : str
            The column that names the item of each claim: integers or strings.
        groups : str, optional
            The column of groups, the same in all claims of an item; for `groups=claims.groups`.
        weights : str, optional
            The column of importance weights, likewise; for `weights=claims.weights`.
        log_weights : str, optional
            The column of their logarithms; for `log_weights=claims.log_weights`.
        where : pyarrow.compute.Expression, optional
            Which rows of Parquet files to read.

        Returns
        -------
        ScannedClaims
            The claims, of which nothing is read yet but the names of the columns.

        Raises
        ------
        TypeError
            If the source is none of these.
        ValueError
            If it has no such column, or both kinds of weights are named.
        """
        from tether.scan import scan_claims

        return scan_claims(
            source,
            scores=scores,
            supported=supported,
            items=items,
            groups=groups,
            weights=weights,
            log_weights=log_weights,
            where=where,
        )

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
    def groups(self) -> dict[Any, Any]:
        """The group of each item by its name, where `from_table` was given a column of groups."""
        if self._groups is None:
            raise ValueError("these claims have no groups: pass a column to Claims.from_table")
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

        Raises
        ------
        TypeError
            If `items` holds neither integers nor booleans.
        ValueError
            If an index is out of range or the mask has the wrong length.
        """
        chosen = _item_indices(items, self.n_items)
        sizes = np.diff(self.offsets)[chosen]
        ends = np.cumsum(sizes)
        rows = np.repeat(self.offsets[chosen] - (ends - sizes), sizes) + np.arange(sizes.sum())
        names = None if self.items is None else self.items[chosen]
        offsets = np.concatenate([[0], ends])
        return _unchecked(self.scores[rows], self.supported[rows], offsets, names, self._groups)

    def between(self, first: int, stop: int) -> Claims:
        """Select the claims of consecutive items, without a copy.

        Parameters
        ----------
        first : int
            The index of the first item.
        stop : int
            The index after the last item.

        Returns
        -------
        Claims
            A view of the claims of these items.
        """
        offsets = self.offsets[first : stop + 1]
        rows = slice(int(offsets[0]), int(offsets[-1]))
        names = None if self.items is None else self.items[first:stop]
        shifted = offsets - offsets[0]
        return _unchecked(self.scores[rows], self.supported[rows], shifted, names, self._groups)

    def blocks(self) -> Iterator[tuple[Integers, slice | Integers]]:
        """Iterate over blocks of items that have the same number of claims.

        Items without claims are in no block.

        Yields
        ------
        items : numpy.ndarray
            The indices of the items in the block.
        rows : slice or numpy.ndarray
            Where their claims are: a slice if they are consecutive (so that they can be read
            without a copy), otherwise an array of positions with one row per item.
        """
        sizes = np.diff(self.offsets)
        same_size = bool((sizes == sizes[0]).all())
        for size in np.unique(sizes[sizes > 0]):
            members = np.arange(len(sizes)) if same_size else np.flatnonzero(sizes == size)
            items_per_block = max(1, CLAIMS_PER_BLOCK // int(size))
            for start in range(0, len(members), items_per_block):
                items = members[start : start + items_per_block]
                first = self.offsets[items]
                if same_size:
                    yield items, slice(int(first[0]), int(first[-1] + size))
                else:
                    yield items, first[:, None] + np.arange(size)


def _unchecked(
    scores: Floats,
    supported: Booleans,
    offsets: Integers,
    items: NDArray[Any] | None,
    groups: dict[Any, Any] | None,
) -> Claims:
    """Claims from arrays that are already known to be valid (and may be empty)."""
    claims = object.__new__(Claims)
    for name, value in (("scores", scores), ("supported", supported), ("offsets", offsets)):
        object.__setattr__(claims, name, validate.frozen(value))
    object.__setattr__(claims, "items", items)
    object.__setattr__(claims, "_groups", groups)
    return claims


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
    """The group of each item by name, from a column aligned with its claims."""
    assert claims.items is not None
    first = groups[claims.offsets[:-1]]
    differs = groups != np.repeat(first, np.diff(claims.offsets))
    if differs.any():
        row = int(np.argmax(differs))
        item = int(np.searchsorted(claims.offsets, row, side="right")) - 1
        raise ValueError(
            "groups must be the same for all claims of an item, got "
            f"{first[item].item()!r} and {groups[row].item()!r} for item "
            f"{claims.items[item].item()!r}"
        )
    return dict(zip(claims.items.tolist(), first.tolist(), strict=True))


def _item_indices(items: ArrayLike, n_items: int) -> Integers:
    array = np.asarray(items)
    if array.dtype == np.bool_:
        validate.same_length("items", array, "claims", n_items)
        return np.flatnonzero(array)
    if array.size == 0:
        return np.zeros(0, dtype=np.int64)
    if array.dtype.kind not in "iu" or array.ndim != 1:
        raise TypeError(
            "items must be one-dimensional: item indices, or one boolean per item, got dtype "
            f"{array.dtype} and shape {array.shape}"
        )
    if array.min() < 0 or array.max() >= n_items:
        bad = (array < 0) | (array >= n_items)
        validate.reject("items", array, bad, f"an index from 0 to {n_items - 1}")
    return array
