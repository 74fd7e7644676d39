"""Where betas stand on an axis: 0 at the bottom, infinity at the top, logarithmic in between."""

from __future__ import annotations

import math
from collections.abc import Sequence

from tether.report.beta_axis import beta_ticks
from tether.report.number_format import format_beta
from tether.service.dashboard.document import Level

LOWEST, HIGHEST, INFINITE = 0.15, 0.8, 0.97
"""The heights of the lower and the upper end of the axis of log beta, and of infinity."""
MIN_LOG_RANGE = 1.4
"""The axis of log beta extends at least this far."""


class BetaHeights:
    """The axis for some betas, given by their logarithms."""

    def __init__(self, log_betas: Sequence[float]) -> None:
        finite = [each for each in log_betas if math.isfinite(each)] or [0.0]
        missing = max(0.0, MIN_LOG_RANGE - (max(finite) - min(finite))) / 2
        self._low, self._high = min(finite) - missing, max(finite) + missing
        ticks = beta_ticks(self._low, self._high)
        self.ticks = [(0.0, "0"), *((self._height(log), text) for log, text in ticks.items())]
        if math.inf in log_betas:
            self.ticks.append((INFINITE, "∞"))

    def level(self, log_beta: float) -> Level:
        """A beta with its text and its height."""
        beta = math.exp(log_beta) if log_beta < 700 else math.inf
        return Level(beta, format_beta(log_beta), self._height(log_beta))

    def _height(self, log_beta: float) -> float:
        if math.isinf(log_beta):
            return INFINITE if log_beta > 0 else 0.0
        place = (log_beta - self._low) / (self._high - self._low)
        return LOWEST + (HIGHEST - LOWEST) * place
