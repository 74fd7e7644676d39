import pytest

from tether.report.beta_axis import beta_ticks


@pytest.mark.parametrize("limits", [(-1.0, 1.0), (-40.0, 3.0), (-700.0, 900.0), (0.0, 0.1)])
def test_ticks_are_few_and_distinct_and_within_the_limits(limits):
    low, high = limits
    ticks = beta_ticks(low, high)
    assert len(ticks) <= 7
    assert high - low < 1 or len(ticks) >= 2
    assert len(set(ticks.values())) == len(ticks)
    assert all(low - 0.21 <= tick <= high + 0.21 for tick in ticks)
