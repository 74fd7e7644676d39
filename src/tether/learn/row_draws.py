"""Draws that depend on a seed and on the content of a row alone.

The same row gets the same draw, alone or among others and in any order, as scikit-learn expects of
`predict`. Over the seed each draw is uniform, so an action drawn by it has the probabilities of the
policy.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Any

import numpy as np

from tether._core.contexts import as_contexts, labels
from tether._core.plain_arrays import plain_array
from tether._core.types import Floats, Integers


def uniform_by_row(X: Any, seed: int) -> Floats:
    """One number in [0, 1) for each row."""
    key = seed.to_bytes(8, "little")
    digests = b"".join(
        blake2b(label.tobytes(), key=key, digest_size=8).digest() for label in _row_labels(X)
    )
    return np.asarray(
        (np.frombuffer(digests, dtype="<u8") >> np.uint64(11)) * 2.0**-53, dtype=np.float64
    )


def draw_by_row(probabilities: Floats, X: Any, seed: int) -> Integers:
    """One column of a table of probabilities for each row."""
    below = np.cumsum(probabilities, axis=1)
    below /= below[:, -1:]
    place = (uniform_by_row(X, seed)[:, None] >= below).sum(axis=1)
    return np.asarray(np.minimum(place, probabilities.shape[1] - 1), dtype=np.int64)


def _row_labels(X: Any) -> Integers:
    """A label of the content of each row, the same for an array and a frame of its numbers."""
    if not hasattr(X, "tocsr"):
        array = plain_array(X)
        if array.dtype.kind in "biuf":
            return labels(array.astype(np.float64))
    return labels(as_contexts(X))
