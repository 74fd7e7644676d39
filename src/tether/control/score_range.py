"""What one pass over two columns of scores tells: where they are −inf, and the range of ratios."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tether._core.blocks import map_blocks
from tether._core.types import Floats


@dataclass(frozen=True)
class ScoreRange:
    """Facts about the scores of rows or draws under both policies."""

    lowest_safe: float
    """The smallest log-probability under the safe policy."""
    optimized_zeros: bool
    """Whether the optimized policy never takes some action that the safe policy can take."""
    overlaps: bool
    """Whether some action is possible under both policies."""
    lowest_ratio: float
    """The smallest finite log ratio; +inf if there is none."""
    highest_ratio: float
    """The largest finite log ratio; −inf if there is none."""


def score_range(log_safe: Floats, log_optimized: Floats) -> ScoreRange:
    """Look at all scores once."""

    def look(block: slice) -> ScoreRange:
        return _range_of_block(log_safe[block], log_optimized[block])

    parts = map_blocks(look, len(log_safe))
    return ScoreRange(
        min(part.lowest_safe for part in parts),
        any(part.optimized_zeros for part in parts),
        any(part.overlaps for part in parts),
        min(part.lowest_ratio for part in parts),
        max(part.highest_ratio for part in parts),
    )


def _range_of_block(log_safe: Floats, log_optimized: Floats) -> ScoreRange:
    lowest_safe = float(log_safe.min())
    with np.errstate(invalid="ignore", over="ignore"):
        ratio = log_optimized - log_safe
    lowest, highest = float(ratio.min()), float(ratio.max())
    if -np.inf < lowest <= highest < np.inf:  # neither NaN nor infinite: neither are the scores
        return ScoreRange(lowest_safe, False, True, lowest, highest)
    possible = log_safe > -np.inf
    taken = log_optimized > -np.inf
    finite = np.isfinite(ratio)
    return ScoreRange(
        lowest_safe,
        bool((possible & ~taken).any()),
        bool((possible & taken).any()),
        float(ratio.min(initial=np.inf, where=finite)),
        float(ratio.max(initial=-np.inf, where=finite)),
    )
