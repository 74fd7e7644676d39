"""The comparison of a risk with its limit."""

import numpy as np

from tether._core.arrays import TIE_TOLERANCE, within_limit


def test_a_tie_that_rounding_breaks_passes():
    assert (10 * 0.23 + 1) / 11 > 0.3
    assert within_limit(10 * 0.23 + 1, 0.3 * 11)


def test_the_tolerance_is_relative_and_small():
    limit = np.array([1e-9, 1.0, 1e9])
    assert within_limit(limit * (1 + TIE_TOLERANCE / 2), limit).all()
    assert not within_limit(limit * (1 + 2 * TIE_TOLERANCE), limit).any()
    assert within_limit(0.0, 0.0)
    assert not within_limit(1e-300, 0.0)
