"""What is said of a calibration before it is deployed."""

import numpy as np

import tether


def test_a_row_with_the_largest_ratio_of_the_draws_is_covered():
    log = tether.Log(np.zeros(4), np.zeros(4), [0.5, 1.0, 1.5, -np.inf])
    found = tether.calibrate(log, tether.Proposals(np.zeros(2), [0.0, 1.0]), alpha=0.5)
    assert found.rows_beyond_draws == 1
    assert tether.calibrate(log, alpha=0.5).rows_beyond_draws == 0  # no draws were given
