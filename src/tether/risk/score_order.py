"""The order of many scores, in about half the time of `numpy.argsort`.

Sorting plain integers is twice as fast as sorting with positions. So the leading bits of a score
and its position are packed into one integer; where scores differ only in the omitted bits, the
few affected positions are corrected afterwards. The result is always exact.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tether._core.types import Booleans, Floats, Integers
from tether.risk.claim_columns import CLAIMS_PER_BLOCK

SIGN_BIT = np.uint64(1 << 63)


def ascending(scores: Floats) -> tuple[NDArray[np.integer], Booleans]:
    """Positions that sort finite scores, and which of them end a run of equal scores."""
    size = len(scores)
    if size < CLAIMS_PER_BLOCK:
        order: NDArray[np.integer] = np.argsort(scores)
        return order, _run_ends(scores, order)[0]
    position_bits = np.uint64(int(size - 1).bit_length())
    position_mask = np.uint64((1 << int(position_bits)) - 1)
    lowest, highest = ordered_bits(np.array([scores.min(), scores.max()]))
    spare_bits = np.uint64(64 - int(highest - lowest).bit_length())  # leading bits that all share
    keys = np.empty(size, dtype=np.uint64)
    for first in range(0, size, CLAIMS_PER_BLOCK):
        block = ordered_bits(scores[first : first + CLAIMS_PER_BLOCK])
        block -= lowest
        block <<= min(spare_bits, np.uint64(63))
        block &= ~position_mask
        block |= np.arange(first, first + len(block), dtype=np.uint64)
        keys[first : first + CLAIMS_PER_BLOCK] = block
    keys.sort()
    order = np.empty(size, dtype=np.int32 if size < 2**31 else np.int64)
    for first in range(0, size, CLAIMS_PER_BLOCK):
        block = keys[first : first + CLAIMS_PER_BLOCK]
        order[first : first + CLAIMS_PER_BLOCK] = block & position_mask
    run_ends, misplaced = _run_ends(scores, order)
    if len(misplaced):
        keys >>= position_bits
        moved = _sort_runs(scores, keys, order, keys[misplaced])
        for place in (moved, moved - 1):
            place = place[(place >= 0) & (place < size - 1)]
            run_ends[place] = scores[order[place]] != scores[order[place + 1]]
    return order, run_ends


def _run_ends(scores: Floats, order: NDArray[np.integer]) -> tuple[Booleans, Integers]:
    """Where the next score differs, and where it is smaller (nowhere, once sorted)."""
    run_ends = np.ones(len(scores), dtype=np.bool_)
    misplaced = []
    for first in range(0, len(scores), CLAIMS_PER_BLOCK):
        block = scores[order[first : first + CLAIMS_PER_BLOCK + 1]]
        np.not_equal(block[1:], block[:-1], out=run_ends[first : first + len(block) - 1])
        misplaced.append(first + np.flatnonzero(block[1:] < block[:-1]))
    return run_ends, np.concatenate(misplaced)


def ordered_bits(scores: Floats) -> NDArray[np.uint64]:
    """Integers in the order of the floats: flip all bits of negative ones, the sign of the rest."""
    bits = (scores + 0.0).view(np.uint64)  # adding 0 turns −0, which has other bits, into 0
    negative = bits >= SIGN_BIT
    flipped: NDArray[np.uint64] = bits ^ np.where(negative, ~np.uint64(0), SIGN_BIT)
    return flipped


def _sort_runs(
    scores: Floats,
    leading_bits: NDArray[np.uint64],
    order: NDArray[np.integer],
    unsorted: NDArray[np.uint64],
) -> Integers:
    """Sort, in place, the runs of equal leading bits that are not in order, and return where.

    All at once: the runs themselves are in order, so a joint sort keeps each run in its place.
    """
    unsorted = np.unique(unsorted)
    begin = np.searchsorted(leading_bits, unsorted)
    end = np.searchsorted(leading_bits, unsorted, side="right")
    lengths = end - begin
    places = np.repeat(end - np.cumsum(lengths), lengths) + np.arange(lengths.sum())
    index = order[places]
    order[places] = index[np.argsort(scores[index])]
    return np.asarray(places)
