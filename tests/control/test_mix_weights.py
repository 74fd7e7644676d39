"""Weights of mix without logarithms are those from log-densities."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tether.control.families import Mix
from tether.control.mix_weights import mix_weights

RATIO = st.one_of(st.floats(-900, 900), st.just(-np.inf))


@given(
    st.lists(st.tuples(RATIO, st.floats(-300, 300)), min_size=1, max_size=30),
    st.floats(-900, 900),
    st.booleans(),
)
def test_weights_are_those_of_the_log_density(rows, log_beta, mixed):
    ratio, base = np.array(rows, dtype=float).T
    base = base if mixed else 0.0
    weights, top = mix_weights(ratio, base, log_beta)
    expected = Mix().log_density(np.zeros(len(ratio)), ratio, log_beta, 0.0) + base
    expected += np.logaddexp(0.0, log_beta)
    assert weights == pytest.approx(np.exp(expected - top), rel=1e-9, abs=1e-300)
    assert 0.9 < weights.max() <= 2.0
