import dataclasses

from tests.report.example_histories import example
from tether.report.number_format import format_number
from tether.report.reward_over_rounds import reward_chart


def test_reward_is_compared_with_the_safe_policy_if_its_reward_is_known():
    history = example("ten_rounds")
    safe = format_number(history.safe_reward.mean)
    assert f", compared with {safe} of the safe policy" in reward_chart(history).caption
    unknown = reward_chart(dataclasses.replace(history, safe_reward=None))
    assert "safe policy" not in unknown.caption
