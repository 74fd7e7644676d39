"""A loss matrix, items × thresholds: in memory, on disk, or arriving in chunks of items."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from tether._core import validate
from tether._core.ties import TIE_TOLERANCE
from tether._core.types import Floats
from tether.risk.item_weights import ItemWeights
from tether.risk.risk_curve import CELLS, Dense, given_thresholds


@dataclass(frozen=True, eq=False)
class MatrixSums:
    """Column sums, safest first; `dense` reads the matrix again, unless it was a passing stream."""

    thresholds: Floats
    sums: Floats
    envelope: Floats | None
    items: int
    faulty: list[int]
    dense: Dense | None


def chunks_of(losses: Any) -> Any:
    """The chunks of a matrix: itself, or each 2-D array of a list, or what an iterator yields."""
    if isinstance(losses, np.ndarray):
        return [losses]
    if isinstance(losses, (list, tuple)):
        return losses if all(getattr(part, "ndim", 0) == 2 for part in losses) else [losses]
    return losses if isinstance(losses, Iterator) else [losses]


def as_chunk(chunk: Any) -> Any:
    """One chunk as a matrix of real numbers, without a copy where it is one already."""
    validate.reject_masked("losses", chunk)
    try:
        chunk = np.asarray(chunk)
    except ValueError as error:
        raise ValueError(f"losses is no matrix of items × thresholds: {error}") from error
    if chunk.dtype.kind not in "fiub":
        raise TypeError(f"losses must hold real numbers, got dtype {chunk.dtype}")
    if chunk.ndim != 2 or chunk.shape[1] == 0:
        raise ValueError(f"losses must be a matrix of items × thresholds, got shape {chunk.shape}")
    return chunk


def blocks(chunks: Any, bound: float) -> Iterator[Floats]:
    """Checked blocks of rows. Nothing larger than a block is copied, so a memory map stays one."""
    seen, width = 0, None
    for chunk in chunks:
        chunk = as_chunk(chunk)
        if width is not None and chunk.shape[1] != width:
            raise ValueError(
                f"every chunk of losses must have {width} thresholds, got shape {chunk.shape}"
            )
        width = chunk.shape[1]
        rows = max(1, CELLS // width)
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
        raise ValueError("losses are empty: at least one item is needed")


def matrix_sums(
    losses: Any,
    thresholds: Any,
    bound: float,
    weights: ItemWeights,
    *,
    envelope: bool,
) -> MatrixSums:
    """Sum the columns in one pass. Without thresholds, the columns are numbered from 0."""
    chunks = chunks_of(losses)
    again = not isinstance(chunks, Iterator)
    sums = np.zeros(0)
    above = np.zeros(0)
    faulty: list[int] = []
    items = 0
    for block in blocks(chunks, bound):
        block = block[:, ::-1]
        falls = (np.diff(block) < -TIE_TOLERANCE * bound).any(axis=1)  # not by mere rounding
        faulty.extend(items + int(i) for i in np.flatnonzero(falls))
        share: Any = slice(None)
        if weights.values is not None:
            share = weights.values[items : items + len(block)]
            validate.same_length("weights", share, "this part of losses", len(block))
        sums = _added(sums, block, share)
        if envelope:
            above = _added(above, np.maximum.accumulate(block, axis=1), share)
        items += len(block)

    def dense(where: slice, named: Any = None) -> Iterator[Floats]:
        parts = blocks(chunks, bound) if named is None else _picked(chunks, named)
        return (block[:, ::-1][:, where] for block in parts)

    candidates = _columns(thresholds, len(sums))
    return MatrixSums(
        candidates, sums, above if envelope else None, items, faulty, dense if again else None
    )


def _picked(chunks: Any, named: Any) -> Iterator[Floats]:
    """Rows by their number, across chunks, in the order asked for."""
    chunks = [as_chunk(chunk) for chunk in chunks]
    begins = np.cumsum([0] + [len(chunk) for chunk in chunks])
    rows = max(1, CELLS // chunks[0].shape[1])
    for first in range(0, len(named), rows):
        part = named[first : first + rows]
        block = np.empty((len(part), chunks[0].shape[1]))
        for chunk, begin in zip(chunks, begins, strict=False):
            inside = (part >= begin) & (part < begin + len(chunk))
            block[inside] = chunk[part[inside] - begin]
        yield block


def _added(sums: Floats, block: Floats, share: Any) -> Floats:
    part = block.sum(axis=0) if isinstance(share, slice) else share @ block
    return np.asarray(part if sums.size == 0 else sums + part)


def _columns(thresholds: Any, count: int) -> Floats:
    if thresholds is None:
        thresholds = np.arange(count)
    array = given_thresholds(thresholds, "larger")
    if len(array) != count:
        raise ValueError(f"thresholds has {len(array)} values but losses has {count} columns")
    return array
