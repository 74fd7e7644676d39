"""Checks of the scores of a shortlist against what calibration assumes of them."""

from __future__ import annotations

import numpy as np

from tether._core.types import Floats, Integers
from tether.control.refuted_log import Refutation, refute
from tether.policies.picker import Picker
from tether.policies.shortlist_rows import ShortlistRows

SCORE_ALONE_TOLERANCE = 1e-3
"""How far a score may be from that of the same row scored alone, relative and absolute."""
MIN_ROWS_OF_SCORES = 20
"""From fewer rows with different scores than this the scale of a score is not judged."""
ALMOST_UNIFORM = 0.05
"""How far the best candidate's ratio must be above 1, as a share of what is possible."""
ALMOST_ARGMAX = 0.99
"""The mean probability of the best candidate beyond which the pick is almost an argmax."""
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


def exchangeable_warning(scores: Floats, index: Integers) -> Refutation | None:
    """Say if logged actions rank too high or too low among the fresh candidates beside them.

    If the safe policy drew both, each rank is equally likely; ties only reduce the variance.
    """
    rows, size = scores.shape
    taken = scores[np.arange(rows), index][:, None]
    rank = (scores < taken).sum(axis=1) + ((scores == taken).sum(axis=1) + 1) / 2
    deviation = (rank - (size + 1) / 2).sum() / np.sqrt(rows * (size**2 - 1) / 12)
    if not abs(deviation) > MAX_RANK_DEVIATION:
        return None
    side = "higher" if deviation > 0 else "lower"
    return refute(
        f"the logged actions score {side} than fresh candidates of the safe policy (mean rank "
        f"{rank.mean():.3g} of {size}, expected {(size + 1) / 2:g}, {abs(deviation):.1f} standard "
        f"deviations off), so they do not come from the sampler that draws candidates"
    )


def temperature_warning(picker: Picker, scores: Floats) -> str | None:
    """Say if a score of the user's own has a scale that makes its pick uniform, or an argmax.

    A pick is proportional to e^(score / temperature), so its scale matters as much as its order. A
    log ratio of two policies has the right one by itself.
    """
    spread = scores.max(axis=1) - scores.min(axis=1)
    differ = spread > 0
    if picker.scores_are_log_ratios or picker.temperature == 0 or differ.sum() < MIN_ROWS_OF_SCORES:
        return None
    best = np.exp(picker.to_log_probabilities(scores[differ])).max(axis=1)
    largest, size = float(picker.size * best.mean()), picker.size
    facts = (
        f"the best of {size} candidates is {largest:.3g} times as likely as by chance, on average, "
        f"of a possible {size}, because the scores of a row differ by {np.median(spread):.3g} and "
        f"the temperature is {picker.temperature:g}"
    )
    if largest - 1 < ALMOST_UNIFORM * (size - 1):
        return (
            f"the optimized policy is almost a uniform pick: {facts}. Even an infinite beta is "
            f"only this soft pick: pass a lower temperature, or scores on the scale of "
            f"log-probabilities"
        )
    if best.mean() > ALMOST_ARGMAX:
        return (
            f"the optimized policy is almost an argmax: {facts}. Pass a higher temperature, or "
            f"scores on the scale of log-probabilities; temperature=0 says that an argmax is meant"
        )
    return None
