"""Whether logged actions were drawn with a classifier's probabilities, as a log of it must be."""

from __future__ import annotations

import numpy as np

from tether._core.types import Floats

LARGEST_LOG_CHANCE = np.log(1e-6)
"""Most likely classes all along are refused if drawing them has at most this log-probability."""


def refuse_most_likely_classes(log_safe_all: Floats, log_safe: Floats) -> None:
    """Refuse actions that are the most likely class in every row: `predict`, and no draws.

    Their losses are those of another policy, and smaller ones: every promise would be wrong.
    """
    largest = log_safe_all.max(axis=1)
    if (log_safe < largest).any():
        return
    ties = (log_safe_all == largest[:, None]).sum(axis=1)
    log_chance = float((largest + np.log(ties)).sum())
    if log_chance <= LARGEST_LOG_CHANCE:
        raise ValueError(
            f"actions is the safe classifier's most likely class in each of {len(log_safe):,} "
            f"rows, which draws would give with a probability of e^{log_chance:.0f}: the losses "
            f"of its predict say nothing about draws of its predict_proba; pass drawn actions, or "
            f"the right classes y"
        )
