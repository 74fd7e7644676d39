"""Scores of a model rounded down, so that a threshold does not sit on the last bits of a score.

A model may give the same row another last bit alone than among others: matrix products add in
another order. Where many rows share a score, as with a few categories, and a calibrated threshold
is that very score, the last bit would decide for all of them. A threshold that is a rounded score
is a little below the scores that it stands for, and score ≥ threshold says the same of a score and
of its rounded value, so predictions need no rounding.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tether._core.types import Floats

BITS_OF_A_SCORE = {2: 6, 4: 16, 8: 36}
"""How many leading bits of a float of so many bytes stay."""
SHARE_BELOW = 1 / 3
SCALE_BEGINS = 0.5**0.5
"""Where simple fractions, which many models predict, lie between two rounded values, and where the
distance of rounded values doubles: both away from those fractions."""


def lowered_scores(scores: NDArray[Any]) -> Floats:
    """The scores, each rounded down to one of the values that are kept apart."""
    bits = BITS_OF_A_SCORE.get(scores.dtype.itemsize if scores.dtype.kind == "f" else 8, 36)
    values = scores.astype(np.float64)
    fraction, exponent = np.frexp(values)
    scale = np.maximum(exponent - (fraction < SCALE_BEGINS), -900)
    spacing = np.ldexp(1.0, scale - bits)
    lowered = (np.floor(values / spacing + SHARE_BELOW) - SHARE_BELOW) * spacing
    lowered = np.maximum(lowered, np.ldexp(SCALE_BEGINS, scale))
    return np.asarray(np.where(values < np.ldexp(SCALE_BEGINS, -900), 0.0, lowered))
