"""Checks of the scores of a shortlist against what calibration assumes of them."""

from __future__ import annotations

import warnings

import numpy as np

from tether._core.types import Floats, Integers
from tether._core.warning_categories import AssumptionWarning
from tether.policies.picker import Picker
from tether.policies.shortlist_rows import ShortlistRows

SCORE_ALONE_TOLERANCE = 1e-3
"""How far a score may be from that of the same row scored alone, relative and absolute."""
MAX_RANK_DEVIATION = 5.0
"""Standard deviations of the mean rank of logged actions beyond which a warning is given."""


def check_scored_alone(picker: Picker, rows: ShortlistRows, scores: Floats) -> None:
    """Refuse a score of a row that depends on the other rows of the call, or on chance.

    The picked action would then have another distribution in another batch, and the log would say
    nothing about it.
    """
    alone = picker.scores(rows[:1])[0]
    together = scores[0]
    same_zero = np.isneginf(alone) & np.isneginf(together)
    with np.errstate(invalid="ignore"):
        near = np.abs(alone - together) <= SCORE_ALONE_TOLERANCE * (1 + np.abs(together))
    if not (near | same_zero).all():
        where = int(np.argmin(near | same_zero))
        raise ValueError(
            f"the score of candidate {where} of the first row is {together[where]:.6g} among "
            f"{len(rows):,} rows but {alone[where]:.6g} when the row is scored alone: scores must "
            f"depend on their own row alone and not on chance. Candidates have shape "
            f"{rows.candidates.shape}, so write contexts[:, None] to compare contexts with them, "
            f"and switch a model's dropout and batch normalization off"
        )


def check_exchangeable(scores: Floats, index: Integers) -> None:
    """Warn if logged actions rank too high or too low among the fresh candidates beside them.

    If the safe policy drew both, each rank is equally likely; ties only reduce the variance.
    """
    rows, size = scores.shape
    taken = scores[np.arange(rows), index][:, None]
    rank = (scores < taken).sum(axis=1) + ((scores == taken).sum(axis=1) + 1) / 2
    deviation = (rank - (size + 1) / 2).sum() / np.sqrt(rows * (size**2 - 1) / 12)
    if abs(deviation) > MAX_RANK_DEVIATION:
        side = "higher" if deviation > 0 else "lower"
        warnings.warn(
            f"the logged actions score {side} than fresh candidates of the safe policy (mean rank "
            f"{rank.mean():.3g} of {size}, expected {(size + 1) / 2:g}, {abs(deviation):.1f} "
            f"standard deviations off): they do not come from the sampler that draws candidates, "
            f"and a calibration on this log does not hold",
            AssumptionWarning,
            stacklevel=4,
        )
