"""A loss matrix, items × thresholds: in memory, on disk, or arriving in chunks of items."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tether._core import validate
from tether._core.ties import TIE_TOLERANCE
from tether._core.types import Floats, Integers
from tether.risk.item_weights import ItemWeights
from tether.risk.risk_curve import CELLS_PER_BLOCK, LossReader, checked_thresholds


@dataclass(frozen=True, eq=False)
class MatrixSums:
    """Column sums, safest first; `read_losses` reads the matrix again, unless it was a stream."""

    thresholds: Floats
    sums: Floats
    envelope: Floats | None
    n_items: int
    nonmonotone_items: list[int]
    read_losses: LossReader | None


def chunks_of(losses: Any) -> Iterable[Any]:
    """The chunks of a matrix: itself, or each 2-D array of a list, or what an iterator yields."""
    if isinstance(losses, np.ndarray):
        return [losses]
    if isinstance(losses, (list, tuple)):
        return losses if all(getattr(part, "ndim", 0) == 2 for part in losses) else [losses]
    return losses if isinstance(losses, Iterator) else [losses]


def as_chunk(chunk: Any) -> NDArray[Any]:
    """One chunk as a matrix of real numbers, without a copy where it already is one."""
    _refuse_claims(chunk)
    validate.reject_masked("losses", chunk)
    try:
        chunk = np.asarray(chunk)
    except ValueError as error:
        raise ValueError(f"losses is not a matrix of items × thresholds: {error}") from error
    if chunk.dtype.kind not in "fiub":
        raise TypeError(f"losses must hold real numbers, got dtype {chunk.dtype}")
    if chunk.ndim != 2 or chunk.shape[1] == 0:
        raise ValueError(f"losses must be a matrix of items × thresholds, got shape {chunk.shape}")
    matrix: NDArray[Any] = chunk
    return matrix


def _refuse_claims(table: Any) -> None:
    """Refuse a frame with named columns: a table of claims, or of scores and labels, most likely.

    The columns of a frame of losses are one per threshold, and have numbers in their names.
    """
    names = list(getattr(table, "columns", ()))
    if not all(any(character.isdigit() for character in str(name)) for name in names):
        raise TypeError(
            f"losses must be a matrix of items × thresholds, got a frame with the columns "
            f"{names[:6]}: of a table of claims take tether.Claims.from_table(df['score'], "
            "df['supported'], df['item']), and of a table with one score per item "
            "tether.ScoredLabels(df['score'], df['label'])"
        )


def checked_blocks(chunks: Iterable[Any], bound: float) -> Iterator[Floats]:
    """Checked blocks of rows. Only one block is copied at a time, so memory maps stay on disk."""
    seen, width = 0, None
    for given in chunks:
        chunk = as_chunk(given)
        if width is not None and chunk.shape[1] != width:
            raise ValueError(
                f"every chunk of losses must have {width} thresholds, got shape {chunk.shape}"
            )
        width = chunk.shape[1]
        rows = max(1, CELLS_PER_BLOCK // width)
        for first in range(0, len(chunk), rows):
            block = np.asarray(chunk[first : first + rows], dtype=np.float64)
            bad = ~((block >= 0) & (block <= bound))
            if bad.any():
                i, j = (int(index) for index in np.argwhere(bad)[0])
                raise ValueError(
                    f"losses[{seen + i}, {j}] is {block[i, j]}: expected a loss in "
                    f"[0, bound = {bound:g}]"
                )
            seen += len(block)
            yield block
    if seen == 0:
        raise ValueError("losses is empty: at least one item is needed")


def matrix_sums(
    losses: Any,
    thresholds: ArrayLike | None,
    bound: float,
    weights: ItemWeights,
    *,
    envelope: bool,
) -> MatrixSums:
    """Sum the columns in one pass. Without thresholds, the columns are numbered from 0."""
    chunks = chunks_of(losses)
    readable_again = not isinstance(chunks, Iterator)
    sums = np.zeros(0)
    envelope_sums = np.zeros(0)
    nonmonotone_items: list[int] = []
    n_items = 0
    for block in checked_blocks(chunks, bound):
        block = block[:, ::-1]
        falls = (np.diff(block) < -TIE_TOLERANCE * bound).any(axis=1)  # by more than rounding
        nonmonotone_items.extend(n_items + int(i) for i in np.flatnonzero(falls))
        block_weights = None
        if weights.values is not None:
            block_weights = weights.values[n_items : n_items + len(block)]
            validate.same_length("weights", block_weights, "this part of losses", len(block))
        sums = _add_block(sums, block, block_weights)
        if envelope:
            envelope_sums = _add_block(
                envelope_sums, np.maximum.accumulate(block, axis=1), block_weights
            )
        n_items += len(block)

    def read_losses(where: slice, named: Integers | None = None) -> Iterator[Floats]:
        blocks = checked_blocks(chunks, bound) if named is None else _rows_of(chunks, named)
        return (block[:, ::-1][:, where] for block in blocks)

    return MatrixSums(
        thresholds=_column_thresholds(thresholds, len(sums)),
        sums=sums,
        envelope=envelope_sums if envelope else None,
        n_items=n_items,
        nonmonotone_items=nonmonotone_items,
        read_losses=read_losses if readable_again else None,
    )


def _rows_of(chunks: Iterable[Any], named: Integers) -> Iterator[Floats]:
    """Rows by their index across chunks, in the given order."""
    matrices = [as_chunk(chunk) for chunk in chunks]
    starts = np.cumsum([0] + [len(matrix) for matrix in matrices])
    width = matrices[0].shape[1]
    rows = max(1, CELLS_PER_BLOCK // width)
    for first in range(0, len(named), rows):
        part = named[first : first + rows]
        block = np.empty((len(part), width))
        for matrix, start in zip(matrices, starts, strict=False):
            inside = (part >= start) & (part < start + len(matrix))
            block[inside] = matrix[part[inside] - start]
        yield block


def _add_block(sums: Floats, block: Floats, weights: Floats | None) -> Floats:
    added = block.sum(axis=0) if weights is None else weights @ block
    return np.asarray(added if sums.size == 0 else sums + added)


def _column_thresholds(thresholds: ArrayLike | None, count: int) -> Floats:
    if thresholds is None:
        thresholds = np.arange(count)
    array = checked_thresholds(thresholds, "larger")
    if len(array) != count:
        raise ValueError(f"thresholds has {len(array)} values but losses has {count} columns")
    return array
