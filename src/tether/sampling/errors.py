"""What a sampler raises when it gives up."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


class CapError(RuntimeError):
    """An action took more draws than the cap allows: the policies hardly overlap.

    `missing` are the contexts, counted from 0, that were left without an action; none are named
    where there are no contexts. What was kept elsewhere does not depend on how long it took.
    """

    def __init__(self, message: str, missing: NDArray[np.int64] | None = None) -> None:
        super().__init__(message)
        self.missing = missing
