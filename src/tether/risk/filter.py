"""Using a threshold: which claims to keep."""

from __future__ import annotations

from typing import Any

import numpy as np

from tether import _check
from tether.risk.claims import Booleans, finite
from tether.risk.selection import Selection


def filter_claims(selection: Selection, scores: Any, *, groups: Any = None) -> Booleans:
    """Which claims to keep: those with score ≥ threshold. `groups` names the group of each claim.

    The promise of the selection is for whole items: score and filter every claim of an item.

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
    labels = _check.labels("groups", groups, len(scores))
    names, of_claim = np.unique(labels, return_inverse=True)
    thresholds = np.array([selection.for_group(name).threshold for name in names])
    return np.asarray(scores >= thresholds[of_claim])
