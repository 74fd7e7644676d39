"""The rate of decisions over the last seconds."""

from tether.service.dashboard.decision_rate import RATE_SECONDS, DecisionRate


def test_the_rate_is_of_the_last_seconds():
    now, count = 0.0, 0
    rate = DecisionRate(lambda: count, lambda: now)
    assert rate.per_second() is None
    now, count = 2.0, 10
    assert rate.per_second() == 5
    now, count = RATE_SECONDS + 1.0, 37
    assert rate.per_second() == 27 / (RATE_SECONDS - 1)
    now = 100.0
    assert rate.per_second() is None  # nobody has asked for long
