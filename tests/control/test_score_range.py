"""One pass over the scores says the same as the definitions, one by one."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tether.control.score_range import score_range

SCORES = st.one_of(st.floats(-800, 50), st.just(-np.inf), st.sampled_from([-1e308, 1e308, 0.0]))


@given(st.lists(st.tuples(SCORES, SCORES), min_size=1, max_size=40))
def test_a_range_is_what_the_definitions_say(pairs):
    safe, optimized = np.array(pairs, dtype=float).T
    found = score_range(safe, optimized)
    with np.errstate(all="ignore"):
        ratio = [b - a for a, b in zip(safe, optimized, strict=True)]
    ratio = [each for each in ratio if np.isfinite(each)]
    assert found.lowest_safe == min(safe)
    assert found.optimized_zeros == any(a > -np.inf == b for a, b in pairs)
    assert found.overlaps == any(a > -np.inf and b > -np.inf for a, b in pairs)
    assert found.lowest_ratio == min(ratio, default=np.inf)
    assert found.highest_ratio == max(ratio, default=-np.inf)
