"""The order of many scores, in about half the time of `numpy.argsort`.

Sorting plain integers is twice as fast as sorting with positions. So the leading bits of a score
and its position are packed into one integer; where scores differ only in the bits left out, the
few positions concerned are put right afterwards. The result is always exact.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tether._core.types import Booleans, Floats
from tether.risk.claims import BLOCK

SIGN = np.uint64(1 << 63)


def ascending(scores: Floats) -> tuple[Any, Booleans]:
    """Positions that put finite scores in rising order, and which close a run of equal ones."""
    size = len(scores)
    if size < BLOCK:
        order = np.argsort(scores)
        return order, _closes(scores, order)[0]
    bits = np.uint64(int(size - 1).bit_length())
    rest = np.uint64((1 << int(bits)) - 1)
    lowest, highest = _ordered_bits(np.array([scores.min(), scores.max()]))
    spare = np.uint64(64 - int(highest - lowest).bit_length())  # leading bits that all share
    keys = np.empty(size, dtype=np.uint64)
    for first in range(0, size, BLOCK):
        part = _ordered_bits(scores[first : first + BLOCK])
        part -= lowest
        part <<= min(spare, np.uint64(63))
        part &= ~rest
        part |= np.arange(first, first + len(part), dtype=np.uint64)
        keys[first : first + BLOCK] = part
    keys.sort()
    order = np.empty(size, dtype=np.int32 if size < 2**31 else np.int64)
    for first in range(0, size, BLOCK):
        order[first : first + BLOCK] = keys[first : first + BLOCK] & rest
    closes, falls = _closes(scores, order)
    if len(falls):
        keys >>= bits
        _put_right(scores, keys, order, keys[falls])
        closes, _ = _closes(scores, order)
    return order, closes


def _closes(scores: Floats, order: Any) -> tuple[Booleans, Any]:
    """Where the next score differs, and where it is smaller (nowhere, once in order)."""
    closes = np.ones(len(scores), dtype=np.bool_)
    falls = []
    for first in range(0, len(scores), BLOCK):
        run = scores[order[first : first + BLOCK + 1]]
        np.not_equal(run[1:], run[:-1], out=closes[first : first + len(run) - 1])
        falls.append(first + np.flatnonzero(run[1:] < run[:-1]))
    return closes, np.concatenate(falls)


def _ordered_bits(scores: Floats) -> Any:
    """Integers in the order of the floats: flip all bits of the negative, the sign of the rest."""
    bits = (scores + 0.0).view(np.uint64)  # −0 has other bits than 0 and must not: −0 + 0 is 0
    negative = bits >= SIGN
    flipped: Any = bits ^ np.where(negative, ~np.uint64(0), SIGN)
    return flipped


def _put_right(scores: Floats, heads: Any, order: Any, wrong: Any) -> None:
    """Sort the runs of equal leading bits with a fall in them.

    All at once: the runs themselves are in order, so their sorted scores fall into place.
    """
    wrong = np.unique(wrong)
    begin, end = np.searchsorted(heads, wrong), np.searchsorted(heads, wrong, side="right")
    lengths = end - begin
    places = np.repeat(end - np.cumsum(lengths), lengths) + np.arange(lengths.sum())
    index = order[places]
    order[places] = index[np.argsort(scores[index])]
