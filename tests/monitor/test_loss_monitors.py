"""Monitors of losses: their definitions, exact expectations, and what they find."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.monitor import definitions
from tether.monitor import KeyMonitor, RiskMonitor, ShiftMonitor

LOSSES = st.lists(st.one_of(st.sampled_from([0.0, 1.0]), st.floats(0, 1)), min_size=1, max_size=40)
ALPHAS, BOUNDS = st.sampled_from([0.001, 0.1, 0.5, 0.95]), st.sampled_from([0.5, 1.0, 40.0])


@given(losses=LOSSES, alpha=ALPHAS, bound=BOUNDS, cut=st.integers(0, 40))
def test_the_risk_monitor_equals_its_definition_in_any_batches(losses, alpha, bound, cut):
    factors = definitions.risk_factors(losses, alpha)
    monitor = RiskMonitor(alpha * bound, bound)
    for part in (losses[:cut], losses[cut:]):
        if part:
            monitor.update(bound * np.array(part))
    status = monitor.status
    path = [definitions.wealth(factors[: step + 1]) for step in range(len(losses))]
    assert math.exp(status.log_wealth) == pytest.approx(path[-1], rel=1e-9)
    assert status.p_value == pytest.approx(1 / max(1, *path), rel=1e-9)
    assert status.mean == pytest.approx(bound * np.mean(losses))
    assert 0 <= status.lower <= status.mean * (1 + 1e-9)
    assert status.mean <= status.upper * (1 + 1e-9) <= bound * (1 + 2e-9)
    if not any(abs(each - 20) < 1e-6 for each in path):
        assert (status.alarm_at, status.lowest_at) == definitions.alarm_and_lowest(factors, 20)


@given(
    st.lists(st.lists(st.floats(0, 1), min_size=1, max_size=6), min_size=1, max_size=5),
    st.floats(0.01, 0.9),
)
def test_the_key_monitor_equals_its_definition(windows, alpha):
    monitor = KeyMonitor(alpha)
    for window in windows:
        keys = [str(key) for key in range(len(window))] * 3
        monitor.update(keys, window * 3)  # three equal losses of each key count once
    expected = definitions.wealth(definitions.key_factors(windows, alpha))
    assert math.exp(monitor.status.log_wealth) == pytest.approx(expected)
    assert monitor.status.mean == pytest.approx(np.mean([np.mean(window) for window in windows]))


@pytest.mark.parametrize("alpha", [0.1, 0.5, 0.8])
def test_the_expected_wealth_is_one_at_a_risk_of_alpha(alpha):
    """Over all sequences of losses 0 and 1: no luck involved."""
    expected = 0.0
    for losses in itertools.product([0, 1], repeat=9):
        chance = math.prod(alpha if loss else 1 - alpha for loss in losses)
        expected += chance * math.exp(RiskMonitor(alpha).update(losses).log_wealth)
    assert expected == pytest.approx(1, rel=1e-10)


def expected_wealth(first, later, wealth, alpha=0.2):
    """Over all outcomes of two windows of three keys; the first decides on the second's risks."""

    def scaled(risks):
        return np.asarray(risks) * min(1.0, alpha * len(risks) / max(sum(risks), 1e-9))

    expected, outcomes = 0.0, list(itertools.product((0.0, 1.0), repeat=3))
    for one, other in itertools.product(outcomes, outcomes):
        risks = scaled(later[int(sum(one)) % len(later)])
        chance = np.prod(np.where(one, scaled(first), 1 - scaled(first)))
        expected += chance * np.prod(np.where(other, risks, 1 - risks)) * wealth(one, other)
    return expected


RISKS = st.lists(st.floats(0, 1), min_size=3, max_size=3)


@given(RISKS, st.lists(RISKS, min_size=1, max_size=4))
def test_the_expected_wealth_of_keys_is_at_most_one_however_they_differ(first, later):
    def by_key(*windows):
        monitor = KeyMonitor(0.2)
        for window in windows:
            monitor.update(["ann", "bob", "eve"] * 4, window * 4)
        return math.exp(monitor.status.log_wealth)

    def by_loss(*windows):  # must fail
        return math.exp(RiskMonitor(0.2).update(np.repeat(windows, 4)).log_wealth)

    assert expected_wealth(first, later, by_key) <= 1 + 1e-9
    assert expected_wealth([0.2] * 3, [[0.2] * 3], by_loss) > 3


def test_a_saved_monitor_continues_exactly(tmp_path):
    for number, monitor in enumerate((RiskMonitor(3.0, 40.0, 0.01), KeyMonitor(3.0, 40.0))):
        path = tmp_path / f"{number}.json"
        keys = ([b"1", 1, "1"],) * (type(monitor) is KeyMonitor)
        type(monitor)(3.0, 40.0).save(path)
        assert math.isnan(type(monitor).load(path).status.mean)
        monitor.update(*keys, [0, 40, 2.5])
        monitor.save(path, overwrite=True)
        again = type(monitor).load(path)
        assert (repr(again), again.status) == (repr(monitor), monitor.status)
        assert again.update(*keys, [40, 40, 0]) == monitor.update(*keys, [40, 40, 0])
        with pytest.raises(ValueError, match="shift monitor"):
            ShiftMonitor.load(path)


def test_wrong_arguments_are_refused_and_change_nothing():
    for name, wrong in (("alpha", (0,)), ("bound", (1, math.inf)), ("false_alarm", (0.1, 1, 1))):
        with pytest.raises(ValueError, match=name):
            RiskMonitor(*wrong)
    risk, keys = RiskMonitor(0.1, bound=2.0), KeyMonitor(0.1, bound=2.0)
    for losses in ([0.5, 2.5], [-0.5], [0.5, math.nan], [], 0.5, ["high"], [None]):
        with pytest.raises((ValueError, TypeError), match="losses"):
            risk.update(losses)
        with pytest.raises((ValueError, TypeError), match="losses"):
            keys.update(["ann", "bob", "eve"], losses)
    assert risk.status.seen == keys.update([], []).seen == 0
