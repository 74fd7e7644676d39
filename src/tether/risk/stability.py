"""Replace-one stability of gCRC, and a level that pays for it.

Replacing item i by one that costs a constant b turns the sum S into S − L_i + b. Since losses lie
in [0, bound], only candidates where S is within one bound of the limit can become the new first
violation: a window of the sweep, often short. Most items have no claim in it, so that their loss is
constant there. The others have a constant loss on each of a few pieces of it, and a tree of maxima
finds where the sum first exceeds a level from a given place on: O(N log N) in all, even where the
sum stays close to the limit for long.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from tether._core import validate
from tether._core.first_passage import first_past
from tether._core.ties import TIE_TOLERANCE
from tether._core.types import Booleans, Floats, Integers
from tether.risk.item_weights import ItemWeights
from tether.risk.loss_inputs import LossInput, LossName
from tether.risk.risk_curve import CELLS_PER_BLOCK, DEFAULT_BOUND, Sweep, before_first_violation
from tether.risk.selection import Stability
from tether.risk.sweep_losses import prepare


def threshold_moves(sweep: Sweep, alpha: float) -> Floats | None:
    """How far gCRC's threshold moves when an item is replaced by a constant one, item by item.

    The larger of the moves for b = 0 and b = bound. None where it is not defined or cannot be
    computed: weighted items, a rate among the selected, or a stream.
    """
    if sweep.read_losses is None or sweep.weighted or not isinstance(sweep.total_weight, float):
        return None
    sums, bound = sweep.sums, sweep.bound
    limit = alpha * (sweep.total_weight + 1) * (1 + TIE_TOLERANCE) - bound
    start, stop = _first_true(sums > limit - bound), _first_true(sums > limit + bound)
    if start == len(sums):
        return np.zeros(sweep.n_items)
    window = slice(start, min(stop + 1, len(sums)))
    violations = _first_violations(sweep, window, limit)
    # The threshold is the candidate before the violation; where there is none, the safest.
    chosen = sweep.thresholds[max(before_first_violation(sweep, sums, alpha), 0)]
    moves = np.zeros(sweep.n_items)
    for violation in violations:
        moved_to = sweep.thresholds[np.maximum(start + violation - 1, 0)]
        differs = moved_to != chosen  # from +inf to +inf is not a move
        moves[differs] = np.maximum(moves[differs], np.abs(moved_to[differs] - chosen))
    return moves


def _first_true(condition: Booleans) -> int:
    return int(np.argmax(condition)) if condition.any() else len(condition)


def _first_violations(sweep: Sweep, window: slice, limit: float) -> Integers:
    """First violations in the window for b = 0 and b = bound, per item (its length: none)."""
    assert sweep.read_losses is not None
    sums, bound = sweep.sums[window], sweep.bound
    violations = np.empty((2, sweep.n_items), dtype=np.int64)
    if sweep.claims is None:
        rows = 0
        for block in sweep.read_losses(window, None):
            violations[:, rows : rows + len(block)] = _violations_of_rows(sums, block, limit, bound)
            rows += len(block)
        return violations
    first_candidate = slice(window.start, window.start + 1)
    constant = np.concatenate([block[:, 0] for block in sweep.read_losses(first_candidate, None)])
    peaks = np.maximum.accumulate(sums)
    for row, b in enumerate((0.0, bound)):
        violations[row] = np.searchsorted(peaks, limit - b + constant, side="right")
    affected = _items_inside(sweep, window)
    items_per_block = max(1, CELLS_PER_BLOCK // (1 + len(sweep.claims.scores) // sweep.n_items))
    for first in range(0, len(affected), items_per_block):
        items = affected[first : first + items_per_block]
        violations[:, items] = _violations_of_claims(sweep, window, items, limit)
    return violations


def _violations_of_rows(sums: Floats, losses: Floats, limit: float, bound: float) -> Integers:
    """First violations from a block of losses, items × candidates in the window."""
    violations = np.empty((2, len(losses)), dtype=np.int64)
    for row, b in enumerate((0.0, bound)):
        fails = sums - losses + b > limit
        violations[row] = np.where(fails.any(axis=1), fails.argmax(axis=1), len(sums))
    return violations


def _violations_of_claims(sweep: Sweep, window: slice, items: Integers, limit: float) -> Integers:
    """First violations of items with claims, from one query per piece of their losses."""
    assert sweep.read_pieces is not None
    sums, pieces = sweep.sums[window], sweep.read_pieces(window, items)
    nonempty = np.flatnonzero(pieces.start < pieces.end)
    start, end, level = pieces.start[nonempty], pieces.end[nonempty], pieces.level[nonempty]
    violations = np.empty((2, len(items)), dtype=np.int64)
    for row, b in enumerate((0.0, sweep.bound)):
        in_piece = np.full(len(pieces.start), len(sums))
        past = first_past(sums, limit - b + level, start)
        in_piece[nonempty] = np.where(past < end, past, len(sums))
        violations[row] = np.minimum.reduceat(in_piece, pieces.first)
    return violations


def _items_inside(sweep: Sweep, window: slice) -> Integers:
    """Items with a claim that meets the threshold inside the window."""
    assert sweep.claims is not None
    ends = sweep.thresholds[window][[0, -1]]
    scores = sweep.claims.scores
    claims = np.flatnonzero((scores >= ends.min()) & (scores < ends.max()))
    return np.unique(np.searchsorted(sweep.claims.offsets, claims, side="right") - 1)


def replace_one(sweep: Sweep, alpha: float, lipschitz: float | None = None) -> Stability | None:
    """Replace-one stability of gCRC's threshold, and alpha + K·epsilon where K is known."""
    moves = threshold_moves(sweep, alpha)
    if moves is None:
        return None
    epsilon = float(moves.sum() / (sweep.n_items + 1))  # the test item is its own replacement
    promise = None if lipschitz is None else min(sweep.bound, alpha + lipschitz * epsilon)
    return Stability(epsilon, float(moves.max()), lipschitz, promise)


def conservative_alpha(
    losses: LossInput,
    thresholds: ArrayLike | None = None,
    *,
    alpha: float,
    lipschitz: float,
    bound: float = DEFAULT_BOUND,
    loss: LossName | None = None,
    levels: int = 200,
) -> float:
    """Find the largest level at which gCRC keeps the expected loss at most alpha.

    For losses K-Lipschitz in the threshold: the largest level α' ≤ alpha with
    α' + K·epsilon(α') ≤ alpha, among evenly spaced ones. Below bound / (n + 1) no threshold passes
    whatever the losses, so a level always exists; there gCRC keeps the safest threshold. Epsilon is
    estimated from the items.

    Parameters
    ----------
    losses : array_like, Claims, ScoredLabels or Sweep
        The losses, as for `gcrc`: unweighted, and readable more than once.
    thresholds : array_like, optional
        Candidate thresholds, strictly increasing. By default every distinct score, and for a matrix
        the column numbers.
    alpha : float
        The tolerated expected loss.
    lipschitz : float
        K: the losses are K-Lipschitz in the threshold.
    bound : float, optional
        The largest possible loss, 1 by default.
    loss : str or callable, optional
        The loss of claims or labels, as for `gcrc`.
    levels : int, default 200
        How many evenly spaced levels to try.

    Returns
    -------
    float
        The level to pass to `gcrc` as its alpha.

    Raises
    ------
    TypeError
        If an argument has the wrong type.
    ValueError
        If an argument is out of range, or the stability of these losses cannot be measured.

    References
    ----------
    "Conformal Policy Control", ICML 2026.

    Examples
    --------
    >>> import numpy as np
    >>> grid = np.linspace(0, 1, 21)
    >>> losses = np.abs(np.sin(np.arange(50)))[:, None] * (1 - grid)
    >>> conservative_alpha(losses, grid, alpha=0.3, lipschitz=1.0)
    0.2895
    """
    sweep = prepare(losses, thresholds, loss, bound, ItemWeights())
    alpha = validate.number("alpha", alpha, above=0, below=sweep.bound)
    lipschitz = validate.number("lipschitz", lipschitz, above=0, below=float("inf"))
    if isinstance(levels, bool) or not isinstance(levels, int) or levels < 1:
        raise ValueError(f"levels must be an integer of at least 1, got {levels!r}")
    for step in range(levels, 0, -1):
        level = alpha * step / levels
        moves = threshold_moves(sweep, level)
        if moves is None:
            raise ValueError(
                "conservative_alpha needs unweighted losses that can be read more than once: an "
                "array, a list of chunks, claims, or labels with a rate among one class"
            )
        if level + lipschitz * float(moves.sum()) / (sweep.n_items + 1) <= alpha:
            return level
    return min(alpha / levels, sweep.bound / (sweep.n_items + 2))
