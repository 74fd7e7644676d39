"""What is reported of the actions of one round."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from experiments.ehrlich.policy import Language
from experiments.ehrlich.rows import Actions


def outcome(
    language: Language, actions: Actions, table: Sequence[Mapping[str, Any]]
) -> dict[str, float]:
    """Shares and means over the actions, and the best value since the first round of the table."""
    values = language.values(actions)
    best = max((row["best"] for row in table), default=-np.inf)
    return {
        "infeasible": float(np.isneginf(values).mean()),
        "unread": float(1 - language.read(actions)[1].mean()),
        "objective": float(np.maximum(values, 0).mean()),
        "best": float(max(best, values.max())),
        "distinct": len(np.unique(actions, axis=0)) / len(actions),
    }
