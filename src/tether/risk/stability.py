"""Replace-one stability of gCRC: how far its threshold moves when one item is another."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from tether._core.ties import TIE_TOLERANCE
from tether._core.types import Floats
from tether.risk.loss_gap import first_true, loss_gaps, measurable, require_collected
from tether.risk.replaced_items import first_violations
from tether.risk.risk_curve import Sweep, before_first_violation
from tether.risk.selection_stability import Stability


def threshold_moves(sweep: Sweep, alpha: float) -> Floats | None:
    """How far gCRC's threshold moves when an item is replaced by a constant one, item by item.

    The larger of the moves for b = 0 and b = bound. None where it is not defined or cannot be
    computed: weighted items, a rate among the selected, or a stream.
    """
    if not measurable(sweep):
        return None
    assert isinstance(sweep.total_weight, float)
    sums, bound = sweep.sums, sweep.bound
    limit = alpha * (sweep.total_weight + 1) * (1 + TIE_TOLERANCE) - bound
    start, stop = first_true(sums > limit - bound), first_true(sums > limit + bound)
    if start == len(sums):
        return np.zeros(sweep.n_separate)
    require_collected(sweep, start)
    window = slice(start, min(stop + 1, len(sums)))
    violations = first_violations(sweep, window, limit, (0.0, bound))
    # The threshold is the candidate before the violation; where there is none, the safest.
    chosen = sweep.thresholds[max(before_first_violation(sweep, sums, alpha), 0)]
    moves = np.zeros(sweep.n_separate)
    for violation in violations:
        moved_to = sweep.thresholds[np.maximum(start + violation - 1, 0)]
        differs = moved_to != chosen  # from +inf to +inf is not a move
        moves[differs] = np.maximum(moves[differs], np.abs(moved_to[differs] - chosen))
    return moves


def replace_one(
    sweeps: Sequence[Sweep], alphas: Sequence[float], lipschitz: float | None = None
) -> list[Stability | None]:
    """Replace-one stability of gCRC, one per loss; None where it is not measured.

    With several losses, which share a threshold, only the gap is measured.
    """
    if len(sweeps) > 1:
        gaps = loss_gaps(sweeps, alphas)
        return [None if gap is None else Stability(math.nan, math.nan, gap) for gap in gaps]
    moves, gap = threshold_moves(sweeps[0], alphas[0]), loss_gaps(sweeps, alphas)[0]
    if moves is None or gap is None:
        return [None]
    epsilon = sweeps[0].total_over_items(moves) / (
        sweeps[0].n_items + 1
    )  # the test item is its own replacement
    return [Stability(epsilon, float(moves.max()), gap, lipschitz)]
