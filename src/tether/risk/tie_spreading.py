"""Breaking ties between scores at random, for users who choose to."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from tether._core import validate
from tether._core.types import Floats
from tether.risk.claim_columns import finite_scores


def spread_ties(scores: ArrayLike, rng: np.random.Generator, *, width: float) -> Floats:
    """Add a uniform random amount in [0, width) to every score, so that no two are equal.

    No method does this on its own: claims with equal scores enter together. With few distinct
    scores, a single one may hold a large share of all claims, and spread ties let a threshold admit
    part of them. The promise then holds for claims whose scores are spread in the same way, so do
    the same at deployment. Scores that differ keep their order.

    Parameters
    ----------
    scores : array_like
        One finite score per claim or item.
    rng : numpy.random.Generator
        The source of randomness.
    width : float
        The width of the interval. Must be smaller than every gap between distinct scores, and large
        enough for floating point to tell the spread scores apart.

    Returns
    -------
    numpy.ndarray
        The spread scores, in the same order, read-only.

    Raises
    ------
    TypeError
        If `rng` is not a generator.
    ValueError
        If a score is not finite, or `width` is too large or too small for these scores.

    Examples
    --------
    >>> spread_ties([0.5, 0.5, 0.9], np.random.default_rng(0), width=0.1).round(3)
    array([0.564, 0.527, 0.904])
    """
    checked = finite_scores("scores", scores)
    width = validate.number("width", width, above=0, below=np.inf)
    rng = validate.generator("rng", rng)
    smallest_width = float(np.spacing(np.abs(checked).max() + width)) * len(checked)
    if width < smallest_width:
        raise ValueError(
            f"width must be at least {smallest_width:g} to separate {len(checked)} scores of this "
            f"magnitude in floating point, got {width:g}"
        )
    gaps = np.diff(np.unique(checked))
    if len(gaps) and gaps.min() <= width:
        raise ValueError(
            f"width must be below the smallest gap between distinct scores, {gaps.min():g}, "
            f"got {width:g}"
        )
    return validate.frozen(checked + rng.uniform(0, width, len(checked)))
