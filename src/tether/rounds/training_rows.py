"""What an optimizer may learn from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tether._core.types import Floats


@dataclass(frozen=True)
class TrainingRows:
    """Rows of the training share, oldest first, as columns."""

    ids: NDArray[np.int64]
    round: NDArray[np.int32]
    contexts: Any
    """As they were given to `act`; their number where there are no contexts."""
    actions: NDArray[Any]
    loss: Floats
    reward: Floats
    """NaN where none was reported."""
    log_prob: Floats
    """Under the policy that took the action; NaN where it would take draws to tell."""

    def __len__(self) -> int:
        return len(self.ids)
