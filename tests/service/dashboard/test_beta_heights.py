"""Where betas stand on the axis."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tether.service.dashboard.beta_heights import BetaHeights

LOG_BETAS = st.one_of(st.floats(-2000, 2000), st.sampled_from([-math.inf, math.inf]))


@given(st.lists(LOG_BETAS, min_size=1, max_size=8))
def test_larger_betas_stand_higher_and_all_are_on_the_axis(log_betas):
    axis, ordered = BetaHeights(log_betas), sorted(log_betas)
    heights = [axis.level(each).height for each in ordered]
    assert heights == sorted(heights)
    assert 0 <= heights[0] <= heights[-1] < 1
    for each, height in zip(ordered, heights, strict=True):
        assert (height == 0) == (each == -math.inf)
    ticks = [height for height, _ in axis.ticks]
    assert ticks == sorted(set(ticks))
    assert 0 <= ticks[0] <= ticks[-1] < 1
    assert ("∞" in [text for _, text in axis.ticks]) == (math.inf in log_betas)


@pytest.mark.parametrize(
    ("log_beta", "value", "text"),
    [
        (-math.inf, 0, "0"),
        (math.log(2), 2, "2"),
        (math.inf, math.inf, "∞"),
        (2000, math.inf, "exp(2000)"),
    ],
)
def test_a_level_has_the_value_and_its_text(log_beta, value, text):
    found = BetaHeights([log_beta]).level(log_beta)
    assert (found.value, found.text) == (pytest.approx(value), text)
