"""The moments that a plan of clip rests on."""

import math

import numpy as np
import pytest
from scipy.stats import norm

from tether.control.plan_clip import ClipModel


def test_clipped_moments_are_those_of_a_lognormal_ratio():
    model = ClipModel(1.0, 0.1, 0.25, 0.8)
    ratio = np.exp(
        math.log(0.25 / 0.1) - 0.32 + 0.8 * norm.ppf((np.arange(100_000) + 0.5) / 100_000)
    )
    for log_beta in (-2.0, 0.0, 1.5):
        place = int(np.argmin(np.abs(model._grid - log_beta)))
        clipped = np.minimum(ratio, math.exp(model._grid[place]))
        found = model._of_harmful
        assert found.mean[place] == pytest.approx(clipped.mean(), rel=1e-3)
        assert found.square[place] == pytest.approx(np.square(clipped).mean(), rel=1e-3)
        assert found.tail[place] == pytest.approx((ratio > math.exp(log_beta)).mean(), abs=1e-3)
