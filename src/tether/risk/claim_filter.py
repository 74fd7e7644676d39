"""Filtering new claims by a calibrated threshold."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from tether._core import validate
from tether._core.types import Booleans
from tether.risk.claim_columns import finite_scores
from tether.risk.selection import Selection


def filter_claims(
    selection: Selection, scores: ArrayLike, *, groups: ArrayLike | None = None
) -> Booleans:
    """Mark the claims to keep: those with score ≥ threshold.

    The promise of the selection is for complete items: score and filter every claim of an item.
    Where `selection.exists` is False nothing is promised, although the safest of the thresholds
    passed by the user may still keep claims.

    Parameters
    ----------
    selection : Selection
        The result of `gcrc`, `crc`, `monotonized_crc` or `ltt`.
    scores : array_like
        One score per claim. May be empty, for an item without claims.
    groups : array_like, optional
        The group of each claim. Required where the selection has one threshold per group.

    Returns
    -------
    numpy.ndarray
        One boolean per claim: whether to keep it.

    Raises
    ------
    TypeError
        If `selection` is not a `Selection`.
    ValueError
        If a score is not finite, `groups` is missing, or a group was not calibrated.

    Examples
    --------
    >>> import tether
    >>> claims = tether.Claims([0.9, 0.8, 0.3] * 20, [1, 1, 0] * 20, range(0, 61, 3))
    >>> filter_claims(tether.gcrc(claims, alpha=0.1), [0.95, 0.85, 0.1])
    array([ True,  True, False])
    """
    if not isinstance(selection, Selection):
        raise TypeError(
            "selection must be a Selection returned by gcrc, crc, monotonized_crc or ltt, got "
            f"{selection!r}; for a threshold of your own use scores >= threshold"
        )
    if np.size(scores) == 0:  # an item without claims
        return np.zeros(0, dtype=np.bool_)
    checked = finite_scores("scores", scores)
    if groups is None:
        if selection.groups:
            raise ValueError(
                "groups is required: this selection has one threshold per group "
                f"({', '.join(map(repr, selection.groups))})"
            )
        return np.asarray(checked >= selection.threshold)
    labels = validate.labels("groups", groups, len(checked))
    names, group_of_claim = np.unique(labels, return_inverse=True)
    thresholds = np.array([selection.for_group(name).threshold for name in names])
    return np.asarray(checked >= thresholds[group_of_claim])
