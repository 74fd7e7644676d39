import itertools
import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tether
from tests.monitor import slow_definitions
from tether.monitor import RiskMonitor, RiskStatus
from tether.monitor.betting import STEPS_PER_UPDATE
from tether.monitor.confidence_sequence import confidence_interval
from tether.monitor.loss_monitor import stakes

BOUNDS = st.sampled_from([0.5, 1.0, 40.0])
SHARES = st.sampled_from([0.001, 0.1, 0.5, 0.95])
LOSSES = st.lists(st.one_of(st.sampled_from([0.0, 1.0]), st.floats(0, 1)), min_size=1, max_size=40)


def close(status: RiskStatus, expected: RiskStatus) -> None:
    status, expected = status.to_dict(), expected.to_dict()
    assert status.keys() == expected.keys()
    for name in ("alarm_at", "evidence_from", "lowest_at"):
        assert status.pop(name) == expected.pop(name)
    for name, value in status.items():
        assert value == pytest.approx(expected[name], rel=1e-9, abs=1e-10), name


@settings(deadline=None)
@given(losses=LOSSES, share=SHARES, bound=BOUNDS)
def test_wealth_equals_the_definition(losses, share, bound):
    losses, alpha = [bound * loss for loss in losses], bound * share
    status = RiskMonitor(alpha, bound).update(losses)
    product, chosen = slow_definitions.one_bettor(losses, alpha, bound)
    assert math.exp(status.log_wealth) == pytest.approx(product, rel=1e-9)
    assert all(0 <= stake <= bound / alpha / 2 * (1 + 1e-12) for stake in chosen)
    factors = slow_definitions.risk_factors(losses, alpha, bound)
    path = [slow_definitions.wealth(factors[: step + 1]) for step in range(len(losses))]
    assert math.exp(status.log_peak) == pytest.approx(max(1, *path), rel=1e-9)
    assert status.p_value == pytest.approx(1 / max(1, *path), rel=1e-9)
    assert min(path) >= slow_definitions.cash(len(losses)) * (1 - 1e-9)
    clear = [step for step, value in enumerate(path, start=1) if value >= 20.0001]
    perhaps = [step for step, value in enumerate(path, start=1) if value >= 19.9999]
    assert status.alarm_at in {(clear or [None])[0], (perhaps or [None])[0]}


@pytest.mark.parametrize("alpha", [0.1, 0.5, 0.8])
def test_wealth_is_expected_to_stay_at_one(alpha):
    """Over all sequences of losses 0 and 1 with a risk of exactly alpha: no luck involved."""
    expected = 0.0
    for losses in itertools.product([0, 1], repeat=9):
        chance = math.prod(alpha if loss else 1 - alpha for loss in losses)
        expected += chance * math.exp(RiskMonitor(alpha).update(losses).log_wealth)
    assert expected == pytest.approx(1, rel=1e-10)


@settings(deadline=None)
@given(alpha=st.floats(0.005, 0.9), rise=st.floats(0, 1))
def test_some_stake_grows_nearly_as_fast_as_the_best(alpha, rise):
    """For losses 0 and 1, from a tenth above alpha to where the best stake is the largest."""
    risk = alpha + max(0.1 * alpha, rise * 0.5) * (1 - alpha)

    def growth(stake):
        return risk * np.log1p(stake * (1 - alpha)) + (1 - risk) * np.log1p(-stake * alpha)

    best = growth((risk - alpha) / (alpha * (1 - alpha)))
    assert growth(stakes(alpha)).max() > 0.85 * best


@settings(deadline=None)
@given(losses=LOSSES, share=SHARES, bound=BOUNDS, seed=st.integers(0, 2**32))
def test_the_status_does_not_depend_on_batch_sizes(losses, share, bound, seed):
    losses, alpha = bound * np.array(losses), bound * share
    batched, single = RiskMonitor(alpha, bound), RiskMonitor(alpha, bound)
    at_once = RiskMonitor(alpha, bound).update(losses)
    cuts = np.sort(np.random.default_rng(seed).integers(0, len(losses), size=3))
    for batch in np.split(losses, cuts):
        if len(batch):
            batched.update(batch)
    for loss in losses:
        single.update([loss])
    close(batched.status, at_once)
    close(single.status, at_once)


def test_a_batch_longer_than_one_update_block():
    losses = np.random.default_rng(2).random(STEPS_PER_UPDATE + 100) < 0.1
    at_once, parts = RiskMonitor(0.1), RiskMonitor(0.1)
    at_once.update(losses)
    for part in np.array_split(losses, 7):
        parts.update(part)
    close(parts.status, at_once.status)


@settings(deadline=None)
@given(losses=LOSSES, more=LOSSES, share=SHARES, bound=BOUNDS)
def test_a_saved_monitor_continues_exactly(losses, more, share, bound):
    monitor = RiskMonitor(bound * share, bound, false_alarm_probability=0.2)
    fresh = RiskMonitor.from_dict(json.loads(json.dumps(monitor.to_dict(), allow_nan=False)))
    monitor.update(bound * np.array(losses))
    again = RiskMonitor.from_dict(json.loads(json.dumps(monitor.to_dict(), allow_nan=False)))
    assert again.status == monitor.status
    assert again.to_dict() == monitor.to_dict()
    assert again.update(bound * np.array(more)) == monitor.update(bound * np.array(more))
    fresh.update(bound * np.array(losses))
    assert fresh.update(bound * np.array(more)) == monitor.status


def test_a_monitor_in_a_file(tmp_path):
    monitor = RiskMonitor(3.0, bound=40.0)
    monitor.update([0, 40, 2.5])
    monitor.save(tmp_path / "watch.json")
    assert RiskMonitor.load(tmp_path / "watch.json").update([40, 40]) == monitor.update([40, 40])
    with pytest.raises(ValueError, match="expected a saved 'shift monitor'"):
        tether.monitor.ShiftMonitor.load(tmp_path / "watch.json")


@settings(deadline=None)
@given(losses=LOSSES, share=SHARES, bound=BOUNDS)
def test_the_report_states_the_running_mean_and_its_interval(losses, share, bound):
    losses, alpha = [bound * loss for loss in losses], bound * share
    status = RiskMonitor(alpha, bound, false_alarm_probability=0.1).update(losses)
    lower, upper = confidence_interval(
        len(losses), *slow_definitions.moments(losses, alpha, bound), 0.1
    )
    assert status.mean == pytest.approx(sum(losses) / len(losses))
    assert (status.lower, status.upper) == pytest.approx((bound * lower, bound * upper))
    assert 0 <= status.lower <= status.mean * (1 + 1e-12)
    assert status.mean <= status.upper * (1 + 1e-12) <= bound * (1 + 1e-12)


def test_an_alarm_stays():
    monitor = RiskMonitor(0.1)
    first = monitor.update([1.0] * 5)
    assert first.alarm
    later = monitor.update([0.0] * 5000)
    assert later.alarm_at == first.alarm_at
    assert later.p_value <= 0.05 < math.exp(-later.log_wealth)
    at = first.alarm_at
    assert (later.lowest_at, later.evidence_from) == (0, 1)
    assert str(later).startswith(
        f"ALARM at loss {at}: the evidence grew from loss 1 on, over {at} losses: "
        f"too high for alpha 0.1 (p "
    )
    assert str(later).endswith("The mean of all 5005 losses, from the first on, is 0.000999")


def test_the_evidence_of_an_alarm_grows_from_about_where_the_risk_rose():
    """Over 40 streams: the median error is small, and none begins after the alarm."""
    rng, errors = np.random.default_rng(5), []
    for _ in range(40):
        losses = np.concatenate([rng.random(500) < 0.05, rng.random(500) < 0.4])
        status = RiskMonitor(0.1).update(losses)
        assert 1 <= status.evidence_from <= status.alarm_at
        errors.append(abs(status.evidence_from - 501))
    assert np.median(errors) < 10


def test_one_loss_that_raises_an_alarm_is_told_in_the_singular():
    status = RiskMonitor(0.001, false_alarm_probability=0.5).update([1.0])
    told = "ALARM at loss 1: the evidence grew from loss 1 on, over 1 loss: too high for"
    assert str(status).startswith(told)
    assert status.to_dict()["evidence_from"] == 1


def test_an_alarm_after_a_change_claims_nothing_that_its_own_interval_contradicts():
    """The interval of all losses contains the level, because most of them were harmless."""
    monitor = RiskMonitor(0.045)
    monitor.update([0.0] * 540)
    status = monitor.update([1.0] * 29 + [0.0] * 26)
    assert status.lower < 0.045 < status.upper
    assert status.alarm
    assert "mean risk in" not in status.told("alarm level 0.045")
    assert "too high for alarm level 0.045 (p " in status.told("alarm level 0.045")
    assert "0.05 raises an alarm" in str(status)


def test_before_the_first_loss():
    status = RiskMonitor(0.1, bound=2.0).status
    assert math.isnan(status.mean)
    assert (status.seen, status.lower, status.upper, status.p_value) == (0, 0, 2, 1)
    assert not status.alarm


@pytest.mark.parametrize("alpha", [1e-300, 1e-7, 1 - 1e-12])
def test_an_extreme_alpha(alpha):
    monitor = RiskMonitor(alpha)
    assert not monitor.update([0.0] * 2000).alarm
    status = monitor.update([1.0] * 2000)
    assert math.isfinite(status.log_wealth)
    assert status.alarm == (alpha < 0.5)


def test_a_late_rise_is_found():
    """After 10^4 quiet losses a doubled risk is found within a few hundred."""
    rng = np.random.default_rng(3)
    monitor = RiskMonitor(0.1)
    assert not monitor.update(rng.random(10_000) < 0.08).alarm
    assert monitor.update(rng.random(600) < 0.2).alarm


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"alpha": 0}, "alpha must be above 0 and below 1, got 0"),
        ({"alpha": 3, "bound": 2}, "alpha must be above 0 and below 2, got 3"),
        ({"alpha": math.nan}, "alpha must be above 0 and below 1, got nan"),
        ({"alpha": "0.1"}, "alpha must be a number, got '0.1'"),
        ({"alpha": 0.1, "bound": math.inf}, "bound must be above 0 and below inf, got inf"),
        (
            {"alpha": 0.1, "false_alarm_probability": 1},
            "false_alarm_probability must be above 0 and below 1, got 1",
        ),
    ],
)
def test_invalid_settings_are_refused(arguments, message):
    with pytest.raises((ValueError, TypeError), match=message):
        RiskMonitor(**arguments)


@pytest.mark.parametrize(
    ("losses", "message"),
    [
        ([0.5, 2.5], r"losses\[1\] is 2.5: expected at most the bound 2"),
        ([-0.5], r"losses\[0\] is -0.5: expected a finite loss of at least 0"),
        ([0.5, math.nan, 1], r"losses\[1\] is nan"),
        ([math.inf], r"losses\[0\] is inf"),
        ([], "losses is empty"),
        (0.5, r"losses must have 1 dimension\(s\), got the single value 0.5"),
        ([[0.5]], r"losses must have 1 dimension\(s\), got shape \(1, 1\)"),
        (["high"], "losses must hold real numbers"),
        ([0.5, None], r"losses\[1\] is missing \(None"),
    ],
)
def test_invalid_losses_leave_the_monitor_unchanged(losses, message):
    monitor = RiskMonitor(0.1, bound=2.0)
    monitor.update([0.5, 1.5])
    before = monitor.to_dict()
    with pytest.raises((ValueError, TypeError), match=message):
        monitor.update(losses)
    assert monitor.to_dict() == before


def test_invalid_saved_content_is_refused():
    good = RiskMonitor(0.1).to_dict()
    with pytest.raises(ValueError, match="of kind None, expected a saved 'risk monitor'"):
        RiskMonitor.from_dict({})
    with pytest.raises(ValueError, match="incomplete risk monitor: squares missing"):
        RiskMonitor.from_dict({name: good[name] for name in good if name != "squares"})
    with pytest.raises(ValueError, match="log_bets must hold 8 numbers"):
        RiskMonitor.from_dict(good | {"e_process": good["e_process"] | {"log_bets": [0.0]}})
    with pytest.raises(ValueError, match="alpha must be above 0"):
        RiskMonitor.from_dict(good | {"alpha": -1.0})
    with pytest.raises(ValueError, match="squares must be from 0 to seen = 0, got nan"):
        RiskMonitor.from_dict(good | {"squares": math.nan})
