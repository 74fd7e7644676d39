"""Importance weights of mix without a logarithm: one exponential per row, or two with a mixture.

A weight is (1 + β·ρ)·(safe/mixture) / (1 + β). Its numerator is a sum of two positive terms, so it
can be scaled by its largest log and summed as plain numbers, without overflow.
"""

from __future__ import annotations

import numpy as np

from tether._core.blocks import map_blocks
from tether._core.types import Floats


def mix_weights(
    log_ratio: Floats, log_base: Floats | float, log_beta: float
) -> tuple[Floats, float]:
    """The numerators over e^top, between 0 and 2, and top itself."""
    bases = None if isinstance(log_base, float) else log_base
    constant = log_base if isinstance(log_base, float) else 0.0

    def highest(block: slice) -> float:
        larger = np.maximum(log_ratio[block] + log_beta, 0.0)
        if bases is not None:
            larger += bases[block]
        return float(larger.max())

    top = float(np.max(map_blocks(highest, len(log_ratio)))) + constant
    weights = np.empty(len(log_ratio))
    if top == -np.inf:
        weights[:] = 0.0
        return weights, top

    def weigh(block: slice) -> None:
        part = weights[block]
        np.add(log_ratio[block], log_beta + constant - top, out=part)
        if bases is None:
            np.exp(part, out=part)
            part += np.exp(constant - top)
        else:
            part += bases[block]
            np.exp(part, out=part)
            part += np.exp(bases[block] - top)

    map_blocks(weigh, len(log_ratio))
    return weights, top
