"""The e-process: its alarm, and how it is saved."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.monitor.slow_definitions import wealth
from tether.monitor import RiskMonitor
from tether.monitor.betting import Wealth
from tether.monitor.e_process import EProcess


def test_the_alarm_is_the_first_step_at_the_threshold_and_is_never_withdrawn():
    log_factors = np.log(np.repeat([[3.0, 0.5]], [10, 2000], axis=1))
    _, path = Wealth.start(1).play(log_factors)
    e_process = EProcess(0.05, Wealth.start(1))
    for column in log_factors.T:
        e_process = e_process.update(column[:, None])
    assert e_process.alarm_at == 1 + int(np.argmax(path >= math.log(20)))
    assert e_process.log_peak == pytest.approx(path.max())
    assert e_process.log_wealth == pytest.approx(path[-1])
    assert e_process.log_wealth < math.log(20)


def test_without_enough_wealth_there_is_no_alarm():
    e_process = EProcess(0.05, Wealth.start(2)).update(np.zeros((2, 100)))
    assert e_process.alarm_at is None
    assert e_process.log_peak == pytest.approx(0, abs=1e-9)


FACTORS = st.lists(st.sampled_from([0.5, 0.8, 1.0, 1.25, 2.0, 6.0]), min_size=1, max_size=60)


def lowest_before_alarm(factors: list[float]) -> tuple[int | None, int]:
    """The alarm, and the last step before it after which the wealth was the smallest so far."""
    path = [1.0, *(wealth([[f] for f in factors[:end]]) for end in range(1, 1 + len(factors)))]
    alarm_at = next((step for step, each in enumerate(path) if each >= 20), None)
    before = path[:alarm_at]
    lows = [step for step, each in enumerate(before) if each <= min(before[: step + 1]) + 1e-10]
    return alarm_at, lows[-1]


@settings(deadline=None)
@given(factors=FACTORS, cut=st.integers(0, 60))
def test_the_minimum_before_the_alarm_equals_the_definition_in_any_batches(factors, cut):
    whole = EProcess(0.05, Wealth.start(1)).update(np.log([factors]))
    assert (whole.alarm_at, whole.lowest_at) == lowest_before_alarm(factors)
    parts = EProcess(0.05, Wealth.start(1))
    for part in (factors[:cut], factors[cut:]):
        if part:
            parts = parts.update(np.log([part]))
    assert (parts.alarm_at, parts.lowest_at) == (whole.alarm_at, whole.lowest_at)


def test_of_equal_minima_the_last_counts():
    """Bets that neither win nor lose leave the wealth at 1, up to rounding."""
    e_process = EProcess(0.05, Wealth.start(2)).update(np.zeros((2, 1000)))
    assert e_process.lowest_at == 1000
    risen = e_process.update(np.full((2, 100), math.log(2)))
    assert risen.lowest_at == 1000 < risen.alarm_at
    later = risen.update(np.full((2, 100), math.log(0.5)))
    assert later.lowest_at == 1000


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("seen", -1, "seen must be an integer from 0 to 9007199254740992, got -1"),
        ("seen", "5", "seen must be an integer from 0 to 9007199254740992, got '5'"),
        ("log_bets", ["nan"] * 8, "log_bets must hold 8 numbers"),
        ("log_wealth", "inf", "log_wealth must be above -inf and below inf, got inf"),
        ("log_peak", None, "log_peak must be a number, got None"),
        ("alarm_at", 7, "alarm_at must be an integer from 1 to 2, got 7"),
        ("log_lowest", 0.5, "log_lowest must be at most 0, and at most log_wealth = .*, got 0.5"),
        ("log_lowest", "nan", "log_lowest must be above -inf and below inf, got nan"),
        ("lowest_at", 3, "lowest_at must be an integer from 0 to 2, got 3"),
    ],
)
def test_an_invalid_saved_e_process_is_refused(name, value, message):
    monitor = RiskMonitor(0.1)
    monitor.update([0.0, 1.0])
    good = monitor.to_dict()
    with pytest.raises((ValueError, TypeError), match=message):
        RiskMonitor.from_dict(good | {"e_process": good["e_process"] | {name: value}})
    lacking = {key: good["e_process"][key] for key in good["e_process"] if key != name}
    with pytest.raises(ValueError, match=f"incomplete e-process: {name} missing"):
        RiskMonitor.from_dict(good | {"e_process": lacking})
