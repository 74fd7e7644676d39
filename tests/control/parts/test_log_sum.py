"""Sums of exponentials that merge in any order to the same bits."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tether.control.parts.log_sum import LogSum

LOGS = st.lists(st.floats(-2000, 2000) | st.just(-np.inf), max_size=30)


@given(LOGS, st.integers(0, 2**32 - 1))
def test_any_order_and_grouping_gives_the_same_bits(logs, seed):
    rng = np.random.default_rng(seed)
    values = np.array(logs)
    shuffled = rng.permutation(values)
    cut = rng.integers(0, len(values) + 1)
    one = LogSum.of(values).log
    other = LogSum.of(shuffled[:cut]).merge(LogSum.of(shuffled[cut:])).log
    assert one == other


@given(LOGS)
def test_the_log_is_that_of_the_sum(logs):
    expected = np.logaddexp.reduce(np.array(logs)) if logs else -np.inf
    assert LogSum.of(np.array(logs)).log == pytest.approx(expected, abs=1e-11)


def test_a_sum_that_floats_would_round_is_exact():
    one, tiny = LogSum.of(np.zeros(1)), LogSum.of(np.log(np.full(2**10, 2.0**-53)))
    expected = float(Fraction(1) + Fraction(2**10, 2**53))
    assert np.exp(one.merge(tiny).log) == pytest.approx(expected, rel=2e-16)
    assert one.merge(tiny).log > 0  # adding them one by one to a float leaves 1
