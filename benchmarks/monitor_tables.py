"""What the tables of the monitors have in common: levels, verdicts and delays."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

DELTA, STEPS = 0.05, 10_000
Array = NDArray[np.float64]


def verdict(rate: float, streams: int) -> str:
    return "holds" if rate <= DELTA + 3 * (DELTA * (1 - DELTA) / streams) ** 0.5 else "BROKEN"


def summary(delays: Iterable[int | None]) -> str:
    """The share found, the median delay and its 90 % quantile; "-" is later than the end."""
    found = np.sort([np.inf if delay is None else delay for delay in delays])
    middle, late = (found[int(share * (len(found) - 1))] for share in (0.5, 0.9))
    shown = [f"{value:8.0f}" if np.isfinite(value) else f"{'-':>8s}" for value in (middle, late)]
    return f"{np.isfinite(found).mean():7.2f} {' '.join(shown)}"


def delay_of(alarm_at: int | None, quiet: int) -> int | None:
    return None if alarm_at is None else alarm_at - quiet
