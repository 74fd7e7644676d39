import dataclasses
import math

import pytest

from tests.report.example_histories import example
from tether.report.chart_canvas import matplotlib_defaults
from tether.report.number_format import format_number
from tether.report.reward_over_rounds import reward_chart
from tether.rounds.history import Estimate


def test_reward_is_compared_with_the_safe_policy_if_its_reward_is_known():
    history = example("ten_rounds")
    safe = format_number(history.safe_reward.mean)
    assert f", compared with {safe} of the safe policy" in reward_chart(history).caption
    unknown = reward_chart(dataclasses.replace(history, safe_reward=None))
    assert "safe policy" not in unknown.caption


@pytest.mark.parametrize("size", [1e308, 1.7e308, math.inf, math.nan, 5e-324])
def test_rewards_of_any_size_can_be_drawn(size):
    """Axes leave room above the largest value, which a float cannot hold."""
    history = example("ten_rounds")
    reward = Estimate(5, size, -size, size)
    rounds = [dataclasses.replace(record, reward=reward) for record in history.rounds]
    large = dataclasses.replace(history, rounds=tuple(rounds), safe_reward=reward)
    with matplotlib_defaults():
        figure = reward_chart(large).figure()
    assert ("in units of 1e+100" in figure) == (1e300 < size < math.inf)
    assert "nan" not in figure
