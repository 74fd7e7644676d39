"""What is reported of the actions of one round."""

from __future__ import annotations

import numpy as np

from experiments.ehrlich.policy import Language
from experiments.ehrlich.rows import Actions


def outcome(language: Language, actions: Actions, best: float) -> dict[str, float]:
    """Shares and means over the actions, and the best value so far, which was `best` before."""
    values = language.values(actions)
    return {
        "infeasible": float(np.isneginf(values).mean()),
        "unread": float(1 - language.read(actions)[1].mean()),
        "objective": float(np.maximum(values, 0).mean()),
        "best": float(max(best, values.max())),
        "distinct": len(np.unique(actions, axis=0)) / len(actions),
    }
