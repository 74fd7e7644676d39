"""The e-process: its alarm, and how it is saved."""

import math

import numpy as np
import pytest

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


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("seen", -1, "seen must be an integer from 0 to 9007199254740992, got -1"),
        ("seen", "5", "seen must be an integer from 0 to 9007199254740992, got '5'"),
        ("log_bets", ["nan"] * 8, "log_bets must hold 8 numbers"),
        ("log_wealth", "inf", "log_wealth must be above -inf and below inf, got inf"),
        ("log_peak", None, "log_peak must be a number, got None"),
        ("alarm_at", 7, "alarm_at must be an integer from 1 to 2, got 7"),
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
