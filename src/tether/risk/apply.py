"""Using a threshold: which claims to keep, with ties broken at random for who asks for it."""

from __future__ import annotations

from typing import Any

import numpy as np

from tether._core import validate
from tether._core.types import Booleans, Floats
from tether.risk.claims import finite
from tether.risk.selection import Selection


def filter_claims(selection: Selection, scores: Any, *, groups: Any = None) -> Booleans:
    """Which claims to keep: those with score ≥ threshold. `groups` names the group of each claim.

    The promise of the selection is for whole items: score and filter every claim of an item. Where
    its `exists` is False nothing is promised, though a safest threshold given may keep claims.

    >>> import tether
    >>> claims = tether.Claims([0.9, 0.8, 0.3] * 20, [1, 1, 0] * 20, range(0, 61, 3))
    >>> filter_claims(tether.gcrc(claims, alpha=0.1), [0.95, 0.85, 0.1])
    array([ True,  True, False])
    """
    if not isinstance(selection, Selection):
        raise TypeError(
            f"selection must be a Selection, from gcrc or its peers, got {selection!r}; with a "
            "threshold of your own, scores >= threshold is all there is"
        )
    if np.size(scores) == 0:  # an item without claims
        return np.zeros(0, dtype=np.bool_)
    scores = finite("scores", scores)
    if groups is None:
        if selection.groups:
            raise ValueError(
                "groups is needed: this selection has one threshold a group "
                f"({', '.join(map(repr, selection.groups))})"
            )
        return np.asarray(scores >= selection.threshold)
    labels = validate.labels("groups", groups, len(scores))
    names, of_claim = np.unique(labels, return_inverse=True)
    thresholds = np.array([selection.for_group(name).threshold for name in names])
    return np.asarray(scores >= thresholds[of_claim])


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
    width = validate.number("width", width, above=0, below=np.inf)
    rng = validate.generator("rng", rng)
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
    return validate.frozen(scores + rng.uniform(0, width, len(scores)))
