import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.release.exact_releases import excess
from tests.release.test_share_formulas import calibrated
from tether.release.stability import worst_excess


@pytest.mark.parametrize(("alpha", "old"), [(0.02, 0.01), (0.1, 0.095), (0.5, 0.4)])
@pytest.mark.parametrize("rows", [1, 3, 20, 100])
def test_the_excess_is_the_largest_over_all_risks(alpha, old, rows):
    rule = lambda n, l: calibrated(n, l, old, alpha)  # noqa: E731, E741
    risks = np.concatenate((np.linspace(alpha, 1, 40)[1:], np.geomspace(alpha, 4 * alpha, 40)[1:]))
    relative = max(excess(rule, rows, min(risk, 1.0), old, alpha) for risk in risks)
    expected = max(relative - 1, 0.0) * (alpha - old)
    assert worst_excess(rows, old, alpha) == pytest.approx(expected, rel=0.03, abs=2e-6)


def test_it_scales_with_the_bound_and_vanishes_where_nothing_is_chosen():
    assert worst_excess(50, 0.05, 0.1, 5.0) == pytest.approx(5 * worst_excess(50, 0.01, 0.02))
    assert worst_excess(0, 0.01, 0.02) == worst_excess(50, 0.02, 0.02) == 0.0
    assert worst_excess(50, 0.0, 0.02) == pytest.approx(0.0, abs=1e-12)
    assert 0 < worst_excess(10**5, 0.01, 0.02) < 1e-5


@settings(deadline=None, max_examples=60)
@given(
    st.integers(1, 5),
    st.tuples(*[st.integers(0, 8)] * 3),
    st.tuples(*[st.integers(1, 6)] * 3),
    st.integers(2, 12),
    st.integers(1, 9),
)
def test_losses_between_0_and_the_bound_have_no_larger_excess(rows, values, weights, level, part):
    """Every outcome of up to five losses with three values each."""
    values, chances = np.array(values) / 8, np.array(weights) / sum(weights)
    alpha, mean = level / 16, float(chances @ values)
    old = alpha * part / 10
    if mean <= alpha:
        return
    expected = sum(
        np.prod(chances[list(outcome)]) * calibrated(rows, values[list(outcome)].sum(), old, alpha)
        for outcome in itertools.product(range(3), repeat=rows)
    )
    found = (mean - old) * expected - (alpha - old)
    assert found <= worst_excess(rows, old, alpha) + 2e-3 * alpha
