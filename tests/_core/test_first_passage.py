"""First passages, against a loop."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tether._core.first_passage import first_past

NUMBERS = st.sampled_from([-np.inf, -1.0, 0.0, 0.5, 1.0, np.inf])


@given(st.lists(NUMBERS, min_size=1, max_size=40), st.data())
def test_each_level_is_first_exceeded_where_a_loop_finds_it(values, data):
    queries = data.draw(
        st.lists(st.tuples(NUMBERS, st.integers(0, len(values))), min_size=1, max_size=8)
    )
    level, start = (np.array(column) for column in zip(*queries, strict=True))
    found = first_past(np.array(values), level, start.astype(np.int64))
    for threshold, begin, index in zip(level, start, found, strict=True):
        later = range(begin, len(values))
        expected = next((k for k in later if values[k] > threshold), len(values))
        assert index == expected


def test_a_single_value_and_a_start_past_the_end():
    one = np.array([2.0])
    start = np.array([0, 0, 1])
    assert first_past(one, np.array([1.0, 2.0, 1.0]), start).tolist() == [0, 1, 1]
