"""Monitors of losses: their definitions, exact expectations, false alarms, and what breaks them."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.monitor import definitions
from tether.monitor import KeyMonitor, RiskMonitor, ShiftMonitor
from tether.monitor.loss_monitors import confidence_interval

DELTA, STREAMS, STEPS = 0.05, 600, 600
ALLOWED = DELTA + 3 * (DELTA * (1 - DELTA) / STREAMS) ** 0.5
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


def provoked(rng, alpha):
    """A risk of alpha at every step, whose spread depends on what was lost just before."""
    losses, bad = np.empty((STREAMS, STEPS)), np.zeros(STREAMS, dtype=bool)
    for step in range(STEPS):
        hit = rng.random(STREAMS) < np.where(bad, alpha, alpha / 0.2)
        losses[:, step] = np.where(bad, 1.0, 0.2) * hit
        bad = losses[:, step] > 0
    return losses


def test_false_alarms_are_rare_but_not_of_a_z_test_at_every_step():
    rng, steps = np.random.default_rng(11), np.arange(1, STEPS + 1)
    for losses in (provoked(rng, 0.1), rng.random((STREAMS, STEPS)) < 0.1):
        alarms = sum(
            RiskMonitor(0.1, false_alarm_probability=DELTA).update(s).alarm for s in losses
        )
        assert alarms / STREAMS <= ALLOWED
    z = (losses.cumsum(axis=1) / steps - 0.1) / np.sqrt(0.09 / steps)
    assert (z[:, 30:] > 1.645).any(axis=1).mean() > 3 * ALLOWED


def harmed_again(rng, keys=60, alpha=0.2):
    """Who was harmed is harmed again with 0.9, and the others make up for it."""
    harmed = rng.random(keys) < alpha
    for _ in range(12):
        again = min(0.9, alpha * keys / max(1, harmed.sum()))
        others = (alpha * keys - again * harmed.sum()) / max(1, (~harmed).sum())
        harmed = rng.random(keys) < np.where(harmed, again, others)
        yield np.repeat(np.arange(keys), 8), np.repeat(harmed, 8).astype(float)


def test_false_alarms_about_keys_are_rare_but_not_of_bets_on_all_losses():
    rng, by_key, by_loss = np.random.default_rng(1), 0, 0
    for _ in range(200):
        keys, losses = KeyMonitor(0.2), RiskMonitor(0.2)
        for window in harmed_again(rng):
            keys.update(*window)
            losses.update(window[1])
        by_key, by_loss = by_key + keys.status.alarm, by_loss + losses.status.alarm
    assert by_key / 200 <= DELTA + 3 * math.sqrt(DELTA * (1 - DELTA) / 200)
    assert by_loss / 200 > 0.5


def test_a_late_rise_is_found_and_where_its_evidence_began():
    rng, delays, errors = np.random.default_rng(5), [], []
    for _ in range(40):
        losses = np.concatenate([rng.random(2000) < 0.05, rng.random(500) < 0.4])
        status = RiskMonitor(0.1).update(losses)
        delays.append(status.alarm_at - 2000)
        errors.append(abs(status.evidence_from - 2001))
    assert min(delays) > 0
    assert np.median(delays) < 60
    assert np.median(errors) < 10
    later = RiskMonitor(0.1)
    alarm = later.update([1.0] * 5).alarm_at
    assert later.update([0.0] * 5000).alarm_at == alarm  # never withdrawn


def test_the_interval_holds_at_all_times_for_a_risk_that_moves():
    rng, steps = np.random.default_rng(13), np.arange(1, STEPS + 1)
    risk = 0.2 + 0.15 * np.sin(steps / 100)
    losses = (rng.random((STREAMS, STEPS)) < risk).astype(float)
    totals = losses.cumsum(axis=1)
    squares = ((losses - (0.1 + totals - losses) / steps) ** 2).cumsum(axis=1)
    lower, upper = confidence_interval(steps, totals, squares, DELTA)
    truth = risk.cumsum() / steps
    assert ((lower > truth) | (upper < truth)).any(axis=1).mean() <= ALLOWED
    assert (upper - lower)[:, -1].max() < 0.16


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
        assert {"alarm", "p_value", "mean"} < monitor.status.to_dict().keys()
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
