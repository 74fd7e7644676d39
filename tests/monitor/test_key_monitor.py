"""Keys that come back: what is promised, in exact sums and on many streams, and what breaks it."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tether.monitor import KeyMonitor, RiskMonitor
from tether.monitor.betting import log_cash, log_entry
from tether.monitor.loss_monitor import stakes

ALPHA, DELTA = 0.2, 0.05
STREAMS, WINDOWS, KEYS = 300, 12, 60
ALLOWED = DELTA + 3 * math.sqrt(DELTA * (1 - DELTA) / STREAMS)


def slow_wealth(windows, alpha):
    """The definition: each part waits as cash, and then stakes all it has in every window."""
    bets, total = stakes(alpha), math.exp(log_cash(np.array(float(len(windows)))))
    for start in range(1, len(windows) + 1):
        entered = math.exp(log_entry(np.array(float(start)))) / len(bets)
        for stake in bets:
            factors = [1 + stake * (x - alpha) for window in windows[start - 1 :] for x in window]
            total += entered * math.prod(factors)
    return total


windows_of_losses = st.lists(
    st.lists(st.floats(0, 1), min_size=1, max_size=6), min_size=1, max_size=5
)


@given(windows_of_losses, st.floats(0.01, 0.9))
def test_the_wealth_is_that_of_the_definition(windows, alpha):
    monitor = KeyMonitor(alpha)
    for window in windows:
        monitor.update(range(len(window)), window)
    assert math.exp(monitor.status.log_wealth) == pytest.approx(slow_wealth(windows, alpha))


def scaled_down(risks):
    """Risks of keys whose mean is at most alpha."""
    return np.asarray(risks) * min(1.0, ALPHA * len(risks) / max(sum(risks), 1e-9))


risks_of_keys = st.lists(st.floats(0, 1), min_size=3, max_size=3)


def expected_wealth(first, later, wealth):
    """Over all outcomes of two windows; the risks of the second depend on what the first was."""
    expected, outcomes = 0.0, list(itertools.product((0.0, 1.0), repeat=3))
    for one in outcomes:
        risks = scaled_down(later[int(sum(one)) % len(later)])
        for other in outcomes:
            chance = np.prod(np.where(one, scaled_down(first), 1 - scaled_down(first)))
            chance *= np.prod(np.where(other, risks, 1 - risks))
            expected += chance * wealth(one, other)
    return expected


@given(risks_of_keys, st.lists(risks_of_keys, min_size=1, max_size=4))
def test_the_expected_wealth_is_at_most_one_however_keys_differ(first, later):
    def wealth(*windows):
        monitor = KeyMonitor(ALPHA)
        for window in windows:
            monitor.update(["ann", "bob", "eve"] * 4, window * 4)  # four equal losses of each
        return math.exp(monitor.status.log_wealth)

    assert expected_wealth(first, later, wealth) <= 1 + 1e-9


def test_a_bet_for_each_loss_of_a_key_has_no_such_limit():
    def wealth(*windows):
        monitor = RiskMonitor(ALPHA)
        for window in windows:
            monitor.update(np.repeat(window, 4))
        return math.exp(monitor.status.log_wealth)

    assert expected_wealth([0.2] * 3, [[0.2] * 3], wealth) > 3


def unequal(rng):
    """One key in five is always harmed, has twenty losses a window, and comes first."""
    harmed = np.arange(KEYS) < ALPHA * KEYS
    for _ in range(WINDOWS):
        counts = np.where(harmed, 20, 2)
        yield np.repeat(np.arange(KEYS), counts), np.repeat(harmed, counts)


def moody(rng):
    """Other keys are harmed in every window, and all losses of a key in a window are equal."""
    for _ in range(WINDOWS):
        risks = np.minimum(1, rng.dirichlet(np.full(KEYS, 0.3)) * ALPHA * KEYS)
        yield np.repeat(np.arange(KEYS), 8), np.repeat(rng.random(KEYS) < risks, 8)


def provoked(rng):
    """Who was harmed is harmed again with 0.9, and the others make up for it."""
    harmed = rng.random(KEYS) < ALPHA
    for _ in range(WINDOWS):
        again = min(0.9, ALPHA * KEYS / max(1, harmed.sum()))
        others = (ALPHA * KEYS - again * harmed.sum()) / max(1, (~harmed).sum())
        harmed = rng.random(KEYS) < np.where(harmed, again, others)
        yield np.repeat(np.arange(KEYS), 8), np.repeat(harmed, 8)


NULLS = {"unequal": unequal, "moody": moody, "provoked": provoked}


@pytest.mark.parametrize("null", NULLS)
def test_false_alarms_are_rare_however_the_losses_of_a_key_depend(null):
    rng, alarms = np.random.default_rng(1), 0
    for _ in range(STREAMS):
        monitor = KeyMonitor(ALPHA, false_alarm_probability=DELTA)
        for keys, losses in NULLS[null](rng):
            monitor.update(keys, losses.astype(float))
        alarms += monitor.status.alarm
    assert alarms / STREAMS <= ALLOWED


@pytest.mark.parametrize("null", NULLS)
def test_bets_on_all_losses_raise_false_alarms(null):
    rng, alarms = np.random.default_rng(1), 0
    for _ in range(30):
        monitor = RiskMonitor(ALPHA, false_alarm_probability=DELTA)
        for _, losses in NULLS[null](rng):
            monitor.update(losses.astype(float))
        alarms += monitor.status.alarm
    assert alarms / 30 > 0.5


def test_a_system_that_becomes_bad_is_found_in_the_same_window():
    rng, delays = np.random.default_rng(2), []
    for _ in range(50):
        monitor = KeyMonitor(0.03)
        for number in range(20):
            risk = 0.01 if number < 15 else 0.15
            status = monitor.update(range(300), rng.random(300) < risk)
        delays.append(status.alarm_at - 15)
    assert min(delays) >= 1
    assert np.mean(delays) < 1.2


def test_a_key_counts_once_and_the_order_of_losses_does_not_matter():
    rng = np.random.default_rng(3)
    keys, losses = rng.integers(0, 40, 500), 2 * rng.random(500)
    order = rng.permutation(500)
    one, other = KeyMonitor(0.5, bound=2.0), KeyMonitor(0.5, bound=2.0)
    first = one.update([str(key) for key in keys], losses)
    second = other.update(keys[order], losses[order])
    assert first.log_wealth == pytest.approx(second.log_wealth, rel=1e-12)
    assert first.keys == second.keys == len(np.unique(keys))
    means = [losses[keys == key].mean() for key in np.unique(keys)]
    assert first.mean == pytest.approx(np.mean(means))
    assert first.latest == pytest.approx(np.mean(means))
    again = one.update([b"1", 1, "1"], [2.0, 0.0, 1.0])
    assert (again.seen, again.latest) == (2, pytest.approx(1.0))
    assert again.keys == first.keys + 1


def test_many_keys_are_bet_on_at_once():
    losses = (np.arange(50_000) % 50 == 0).astype(float)  # 2 %, in parts of the memory
    assert not KeyMonitor(0.03).update(range(50_000), losses).alarm
    status = KeyMonitor(0.01).update(range(50_000), losses)
    assert status.alarm_at == 1
    assert str(status).startswith("ALARM at window 1: the evidence grew from window 1 on")
    with np.errstate(all="raise", under="ignore"):
        monitor = KeyMonitor(0.3)
        for _ in range(3):
            monitor.update(range(50_000), losses)
        assert monitor.status.p_value == 1.0


def test_it_continues_where_it_was_saved(tmp_path):
    fresh = KeyMonitor.from_dict(KeyMonitor(0.1).to_dict())
    assert math.isnan(fresh.status.mean)
    assert math.isnan(fresh.status.latest)
    monitor = KeyMonitor(0.1, 2.0, 0.01)
    monitor.update(["ann", "bob"], [0.0, 1.5])
    monitor.save(tmp_path / "monitor.json")
    loaded = KeyMonitor.load(tmp_path / "monitor.json")
    assert loaded.status == monitor.status
    assert loaded.update(["eve"], [1.0]) == monitor.update(["eve"], [1.0])
    assert repr(loaded) == repr(monitor)


@pytest.mark.parametrize(
    "wrong",
    [{"keys": 0}, {"keys": 1.5}, {"total": 3.0}, {"latest": 1.5}, {"kind": "risk monitor"}],
)
def test_a_saved_state_that_cannot_be_is_refused(wrong):
    monitor = KeyMonitor(0.1)
    monitor.update(["ann", "bob"], [0.0, 1.0])
    with pytest.raises(ValueError, match=r"keys|total|latest|kind"):
        KeyMonitor.from_dict(monitor.to_dict() | wrong)


@pytest.mark.parametrize(
    ("keys", "losses", "error", "words"),
    [
        ("ann", [0.0], TypeError, "several keys"),
        ([1.5], [0.0], TypeError, "a key must be"),
        ([True], [0.0], TypeError, "a key must be"),
        (["ann"], [0.0, 0.0], ValueError, "losses"),
        (["ann"], [], ValueError, "losses"),
        (["ann"], [2.0], ValueError, "bound"),
        (["ann"], [math.nan], ValueError, "losses"),
        (["ann"], [-1.0], ValueError, "losses"),
    ],
)
def test_wrong_windows_are_refused_and_change_nothing(keys, losses, error, words):
    monitor = KeyMonitor(0.1)
    before = monitor.to_dict()
    with pytest.raises(error, match=words):
        monitor.update(keys, losses)
    assert monitor.to_dict() == before


def test_a_window_without_keys_changes_nothing():
    monitor = KeyMonitor(0.1)
    before = monitor.to_dict()
    assert monitor.update([], []).seen == 0
    assert monitor.to_dict() == before
