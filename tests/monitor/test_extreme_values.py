"""Monitors with the smallest and largest numbers, and with saved content that was forged."""

import copy
import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tether.monitor import RiskMonitor, ShiftMonitor
from tether.monitor.betting import Wealth
from tether.monitor.confidence_sequence import confidence_interval, deviation_bound
from tether.monitor.e_process import EProcess

TINY, HUGE = 5e-324, 1.7976931348623157e308
PROBABILITIES = (TINY, 1e-320, 1e-300, 1e-16, 0.05, 0.5, 1 - 2.0**-53)
BOUNDS = (2 * TINY, 1e-320, 1e-300, 1e-6, 1.0, 1e6, 1e300, 1e308, HUGE)
SHARES = (TINY, 1e-300, 1e-16, 0.1, 0.5, 1 - 2.0**-53)
FORGED = (
    None, True, False, 0, 1, -1, 7, 2**53 + 1, 2**63, 2**70, -(2**70), 10**400, -(10**400),
    0.5, -0.5, 1e308, -1e308, TINY, math.inf, -math.inf, math.nan, "inf", "-inf", "nan",
    "x", "", "5", "\x1b", [], [1], [[1]], [None], ["x"], [math.nan], [10**400], [1, [2]], {},
    {"kind": "e-process"}, {"bit_generator": "PCG64"}, b"x", 1j, (), {1, 2},
)  # fmt: skip


def levels():
    """A bound and an alpha below it, at the ends of the range of floats."""
    return st.tuples(st.sampled_from(BOUNDS), st.sampled_from(SHARES)).map(
        lambda pair: (pair[0], max(TINY, min(pair[0] * pair[1], math.nextafter(pair[0], 0))))
    )


@given(
    levels(),
    st.sampled_from(PROBABILITIES) | st.floats(0, 1, exclude_min=True, exclude_max=True),
    st.lists(st.sampled_from([0.0, TINY, 1e-16, 0.3, 0.5, 1 - 2.0**-53, 1.0]), max_size=40),
    st.integers(0, 40),
)
def test_a_status_is_always_made_of_numbers_in_their_ranges(level, probability, shares, split):
    bound, alpha = level
    monitor = RiskMonitor(alpha, bound, probability)
    losses = [share * bound for share in shares]
    for part in (losses[:split], losses[split:]):
        if part:
            monitor.update(part)
    status = monitor.status
    assert str(status)
    assert 0 <= status.lower <= status.upper <= bound
    assert status.p_value <= 1
    assert status.log_peak >= max(0, status.log_wealth)
    assert math.isfinite(status.log_wealth)
    assert status.alarm == (status.log_peak >= -math.log(probability))
    if losses:
        assert min(losses) * (1 - 1e-9) - TINY * 9 <= status.mean <= max(losses) * (1 + 1e-9)
    restored = RiskMonitor.from_dict(json.loads(json.dumps(monitor.to_dict())))
    if losses:
        assert restored.status == status


def test_the_smallest_false_alarm_probability_raises_an_alarm_in_the_end():
    """Its level, exp(744), is beyond what a float can hold but not its logarithm."""
    monitor = RiskMonitor(0.1, false_alarm_probability=TINY)
    status = monitor.update(np.ones(2000))
    assert status.alarm
    assert status.lower > 0.1
    assert not RiskMonitor(0.1, false_alarm_probability=TINY).update(np.ones(100)).alarm
    rng = np.random.default_rng(0)
    shift = ShiftMonitor(rng.normal(size=500), TINY, rng=rng)
    assert shift.update(np.arange(9.0, 3009.0)).alarm


@pytest.mark.parametrize("probability", PROBABILITIES)
def test_intervals_grow_as_the_error_probability_falls_and_stay_finite(probability):
    reach = deviation_bound([0.0, 1.0, 1e6, 1e13], probability)
    assert np.isfinite(reach).all()
    assert (np.diff(reach) > 0).all()
    assert (reach >= deviation_bound([0.0, 1.0, 1e6, 1e13], 1 - 2.0**-53) - 1e-6).all()
    lower, upper = confidence_interval([1, 10**6], [0.5, 5e5], [0.25, 2.5e5], probability)
    assert (lower <= upper).all()


def test_numbers_that_no_float_can_hold_are_refused():
    for name in ("alpha", "bound", "false_alarm_probability"):
        settings = {"alpha": 0.1, "bound": 1.0, "false_alarm_probability": 0.05}
        with pytest.raises(ValueError, match=f"{name} must be a number that a float can hold"):
            RiskMonitor(**(settings | {name: 10**400}))
    with pytest.raises(ValueError, match="false_alarm_probability must be above 0 and below 1"):
        RiskMonitor(0.1, false_alarm_probability=1 - 1e-17)


def risk_monitor():
    monitor = RiskMonitor(0.1)
    monitor.update([0.0, 1.0, 0.5])
    return monitor


def shift_monitor(generator=np.random.PCG64):
    rng = np.random.Generator(generator(3))
    monitor = ShiftMonitor(rng.normal(size=20), rng=rng)
    monitor.update(rng.normal(size=5))
    return monitor


MONITORS = {
    "risk": risk_monitor,
    **{
        name: lambda name=name: shift_monitor(getattr(np.random, name))
        for name in ("MT19937", "PCG64", "PCG64DXSM", "Philox", "SFC64")
    },
}


def places(content, path=()):
    """The path of every entry, those inside dictionaries and at the ends of lists included."""
    for name, value in content.items():
        yield (*path, name)
        if isinstance(value, dict):
            yield from places(value, (*path, name))
        if isinstance(value, list) and value:
            yield (*path, name, len(value) - 1)


def forge(content, path, value, *, missing=False):
    forged = copy.deepcopy(content)
    inner = forged
    for name in path[:-1]:
        inner = inner[name]
    if missing:
        del inner[path[-1]]
    else:
        inner[path[-1]] = value
    return forged


@pytest.mark.parametrize("name", MONITORS)
def test_forged_content_is_a_value_error_or_a_monitor_that_works(name):
    """Every entry replaced by every forged value, removed, and lengthened."""
    monitor = MONITORS[name]()
    good, refused = monitor.to_dict(), 0
    for path in places(good):
        for value in FORGED:
            refused += judge(type(monitor), forge(good, path, value))
        refused += judge(type(monitor), forge(good, path, None, missing=True), missing=path)
        entry = good
        for step in path:
            entry = entry[step]
        if isinstance(entry, list):
            assert judge(type(monitor), forge(good, path, [*entry, *entry])) == 1
            assert judge(type(monitor), forge(good, path, entry[1:])) == 1
    assert refused > 10 * len(FORGED) // 2


def judge(kind, content, missing=()):
    """1 if the content was refused by a ValueError; otherwise the monitor must work."""
    message = ""
    try:
        monitor = kind.from_dict(content)
    except ValueError as error:
        message = str(error)
    if message:
        assert len(missing) != 1 or missing[0] in message
        return 1
    status = monitor.update([0.5, 1.0])
    assert str(status)
    assert 0 <= status.p_value <= 1
    assert math.isfinite(status.log_wealth)
    return 0


@pytest.mark.parametrize("content", [None, 5, [], "x", b"", {}, {"kind": 3}, {"kind": []}])
def test_content_that_is_no_monitor_is_refused(content):
    for kind in (RiskMonitor, ShiftMonitor):
        with pytest.raises(ValueError, match="content"):
            kind.from_dict(content)


@given(
    st.sampled_from(["seen", "log_wealth", "log_peak", "alarm_at"]),
    st.sampled_from(FORGED) | st.floats() | st.integers(),
)
def test_a_forged_e_process_never_hides_an_alarm(name, value):
    """A wealth that was changed contradicts the bets, and a peak without its alarm is refused."""
    monitor = RiskMonitor(0.1)
    status = monitor.update(np.ones(30))
    assert status.alarm
    content = monitor.to_dict()
    content["e_process"] = content["e_process"] | {name: value}
    try:
        restored = RiskMonitor.from_dict(content)
    except ValueError:
        return
    assert restored.status.alarm
    assert restored.status.log_wealth == pytest.approx(status.log_wealth)


def test_the_total_of_a_saved_wealth_is_that_of_the_path():
    rng = np.random.default_rng(0)
    process = EProcess(0.05, Wealth.start(6))
    for _ in range(4):
        process = process.update(np.log1p(rng.uniform(-0.4, 0.6, size=(6, 700))))
        assert process.wealth.log_total == pytest.approx(process.log_wealth, rel=1e-12)
