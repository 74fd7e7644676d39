"""Breaking ties at random, when the user asks for it and at deployment too."""

from __future__ import annotations

from typing import Any

import numpy as np

from tether import _check
from tether._check import Floats
from tether.risk.claims import finite


def spread_ties(scores: Any, rng: np.random.Generator, *, width: float) -> Floats:
    """Scores with a uniformly random amount in [0, width) added: equal ones get a random order.

    No method does this by itself: claims of equal score enter together. With few distinct scores a
    single one may hold a large share of all claims, and spread ties let a threshold admit part of
    them. What is promised then holds for claims whose scores are spread in the same way, so do it
    at deployment as well. Scores that differ keep their order: `width` must be below their gaps.

    >>> spread_ties([0.5, 0.5, 0.9], np.random.default_rng(0), width=0.1).round(3)
    array([0.564, 0.527, 0.904])
    """
    scores = finite("scores", scores)
    width = _check.number("width", width, above=0, below=np.inf)
    rng = _check.generator("rng", rng)
    finest = float(np.spacing(np.abs(scores).max() + width)) * len(scores)
    if width < finest:
        raise ValueError(
            f"width must be at least {finest:g} to part {len(scores)} scores of this size, which "
            f"floating point cannot tell apart more finely, got {width:g}"
        )
    gaps = np.diff(np.unique(scores))
    if len(gaps) and gaps.min() <= width:
        raise ValueError(
            f"width must be below the smallest gap between distinct scores, {gaps.min():g}, "
            f"got {width:g}"
        )
    return _check.frozen(scores + rng.uniform(0, width, len(scores)))
