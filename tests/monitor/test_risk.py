import itertools
import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tether
from tests.monitor import direct
from tether.monitor import RiskMonitor, RiskReport
from tether.monitor.betting import CHUNK
from tether.monitor.confidence_sequence import interval
from tether.monitor.risk_monitor import stakes

BOUNDS = st.sampled_from([0.5, 1.0, 40.0])
SHARES = st.sampled_from([0.001, 0.1, 0.5, 0.95])
LOSSES = st.lists(st.one_of(st.sampled_from([0.0, 1.0]), st.floats(0, 1)), min_size=1, max_size=40)


def close(one: RiskReport, other: RiskReport) -> None:
    one, other = one.to_dict(), other.to_dict()
    assert one.keys() == other.keys()
    assert one.pop("alarm_at") == other.pop("alarm_at")
    for name, value in one.items():
        assert value == pytest.approx(other[name], rel=1e-9, abs=1e-10), name


@settings(deadline=None)
@given(losses=LOSSES, share=SHARES, bound=BOUNDS)
def test_wealth_is_the_direct_product(losses, share, bound):
    losses, alpha = [bound * loss for loss in losses], bound * share
    report = RiskMonitor(alpha, bound).update(losses)
    product, chosen = direct.one_bettor(losses, alpha, bound)
    assert math.exp(report.log_wealth) == pytest.approx(product, rel=1e-9)
    assert all(0 <= stake <= bound / alpha / 2 * (1 + 1e-12) for stake in chosen)
    factors = direct.risk_factors(losses, alpha, bound)
    path = [direct.wealth(factors[: step + 1]) for step in range(len(losses))]
    assert math.exp(report.log_peak) == pytest.approx(max(1, *path), rel=1e-9)
    assert report.p_value == pytest.approx(1 / max(1, *path), rel=1e-9)
    assert min(path) >= direct.cash(len(losses)) * (1 - 1e-9)
    clear = [step for step, value in enumerate(path, start=1) if value >= 20.0001]
    perhaps = [step for step, value in enumerate(path, start=1) if value >= 19.9999]
    assert report.alarm_at in {(clear or [None])[0], (perhaps or [None])[0]}


@pytest.mark.parametrize("alpha", [0.1, 0.5, 0.8])
def test_wealth_is_expected_to_stay_at_one(alpha):
    """Over all sequences of losses 0 and 1 with a risk of exactly alpha: no luck involved."""
    expected = 0.0
    for losses in itertools.product([0, 1], repeat=9):
        chance = math.prod(alpha if loss else 1 - alpha for loss in losses)
        expected += chance * math.exp(RiskMonitor(alpha).update(losses).log_wealth)
    assert expected == pytest.approx(1, rel=1e-10)


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
def test_batches_of_any_size_come_to_the_same(losses, share, bound, seed):
    losses, alpha = bound * np.array(losses), bound * share
    batched, single = RiskMonitor(alpha, bound), RiskMonitor(alpha, bound)
    whole = RiskMonitor(alpha, bound).update(losses)
    cuts = np.sort(np.random.default_rng(seed).integers(0, len(losses), size=3))
    for batch in np.split(losses, cuts):
        if len(batch):
            batched.update(batch)
    for loss in losses:
        single.update([loss])
    close(batched.report, whole)
    close(single.report, whole)


def test_a_batch_longer_than_a_chunk():
    losses = np.random.default_rng(2).random(CHUNK + 100) < 0.1
    whole, parts = RiskMonitor(0.1), RiskMonitor(0.1)
    whole.update(losses)
    for part in np.array_split(losses, 7):
        parts.update(part)
    close(parts.report, whole.report)


@settings(deadline=None)
@given(losses=LOSSES, more=LOSSES, share=SHARES, bound=BOUNDS)
def test_a_saved_monitor_goes_on_exactly(losses, more, share, bound):
    watch = RiskMonitor(bound * share, bound, delta=0.2)
    fresh = RiskMonitor.from_dict(json.loads(json.dumps(watch.to_dict(), allow_nan=False)))
    watch.update(bound * np.array(losses))
    again = RiskMonitor.from_dict(json.loads(json.dumps(watch.to_dict(), allow_nan=False)))
    assert again.report == watch.report
    assert again.to_dict() == watch.to_dict()
    assert again.update(bound * np.array(more)) == watch.update(bound * np.array(more))
    fresh.update(bound * np.array(losses))
    assert fresh.update(bound * np.array(more)) == watch.report


def test_a_monitor_in_a_file(tmp_path):
    watch = RiskMonitor(3.0, bound=40.0)
    watch.update([0, 40, 2.5])
    watch.save(tmp_path / "watch.json")
    assert RiskMonitor.load(tmp_path / "watch.json").update([40, 40]) == watch.update([40, 40])
    with pytest.raises(ValueError, match="expected a saved 'shift monitor'"):
        tether.monitor.ShiftMonitor.load(tmp_path / "watch.json")


@settings(deadline=None)
@given(losses=LOSSES, share=SHARES, bound=BOUNDS)
def test_the_report_states_the_running_mean_and_its_interval(losses, share, bound):
    losses, alpha = [bound * loss for loss in losses], bound * share
    report = RiskMonitor(alpha, bound, delta=0.1).update(losses)
    lower, upper = interval(len(losses), *direct.moments(losses, alpha, bound), 0.1)
    assert report.mean == pytest.approx(sum(losses) / len(losses))
    assert (report.lower, report.upper) == pytest.approx((bound * lower, bound * upper))
    assert 0 <= report.lower <= report.mean * (1 + 1e-12)
    assert report.mean <= report.upper * (1 + 1e-12) <= bound * (1 + 1e-12)


def test_an_alarm_stays():
    watch = RiskMonitor(0.1)
    first = watch.update([1.0] * 5)
    assert first.alarm
    later = watch.update([0.0] * 5000)
    assert later.alarm_at == first.alarm_at
    assert later.p_value <= 0.05 < math.exp(-later.log_wealth)
    assert str(later).startswith(f"ALARM at loss {first.alarm_at}: after 5005 losses")


def test_before_the_first_loss():
    report = RiskMonitor(0.1, bound=2.0).report
    assert math.isnan(report.mean)
    assert (report.seen, report.lower, report.upper, report.p_value) == (0, 0, 2, 1)
    assert not report.alarm


@pytest.mark.parametrize("alpha", [1e-300, 1e-7, 1 - 1e-12])
def test_an_extreme_alpha(alpha):
    watch = RiskMonitor(alpha)
    assert not watch.update([0.0] * 2000).alarm
    report = watch.update([1.0] * 2000)
    assert math.isfinite(report.log_wealth)
    assert report.alarm == (alpha < 0.5)


def test_a_late_rise_is_found():
    """After 10^4 quiet losses a doubled risk is found within a few hundred."""
    rng = np.random.default_rng(3)
    watch = RiskMonitor(0.1)
    assert not watch.update(rng.random(10_000) < 0.08).alarm
    assert watch.update(rng.random(600) < 0.2).alarm


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"alpha": 0}, "alpha must be above 0 and below 1, got 0"),
        ({"alpha": 3, "bound": 2}, "alpha must be above 0 and below 2, got 3"),
        ({"alpha": math.nan}, "alpha must be above 0 and below 1, got nan"),
        ({"alpha": "0.1"}, "alpha must be a number, got '0.1'"),
        ({"alpha": 0.1, "bound": math.inf}, "bound must be above 0 and below inf, got inf"),
        ({"alpha": 0.1, "delta": 1}, "delta must be above 0 and below 1, got 1"),
    ],
)
def test_bad_settings(arguments, message):
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
        (0.5, r"losses must have 1 dimension\(s\), got shape \(\)"),
        ([[0.5]], r"losses must have 1 dimension\(s\), got shape \(1, 1\)"),
        (["high"], "losses must hold real numbers"),
        ([0.5, None], "losses must hold real numbers"),
    ],
)
def test_bad_losses_change_nothing(losses, message):
    watch = RiskMonitor(0.1, bound=2.0)
    watch.update([0.5, 1.5])
    before = watch.to_dict()
    with pytest.raises((ValueError, TypeError), match=message):
        watch.update(losses)
    assert watch.to_dict() == before


def test_bad_content():
    good = RiskMonitor(0.1).to_dict()
    with pytest.raises(ValueError, match="of kind None, expected a saved 'risk monitor'"):
        RiskMonitor.from_dict({})
    with pytest.raises(ValueError, match="no whole risk monitor: it lacks squares"):
        RiskMonitor.from_dict({name: good[name] for name in good if name != "squares"})
    with pytest.raises(ValueError, match="log_bets must hold 8 numbers"):
        RiskMonitor.from_dict(good | {"evidence": good["evidence"] | {"log_bets": [0.0]}})
    with pytest.raises(ValueError, match="alpha must be above 0"):
        RiskMonitor.from_dict(good | {"alpha": -1.0})
    with pytest.raises(ValueError, match="squares must be above -1 and below inf, got nan"):
        RiskMonitor.from_dict(good | {"squares": math.nan})


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("seen", -1, "seen must be a whole number of at least 0, got -1"),
        ("seen", "5", "seen must be a whole number of at least 0, got '5'"),
        ("log_bets", ["nan"] * 8, "log_bets must hold 8 numbers"),
        ("log_wealth", "inf", "log_wealth must be above -inf and below inf, got inf"),
        ("log_peak", None, "log_peak must be a number, got None"),
        ("alarm_at", 7, "alarm_at must be None or from 1 to 2, got 7"),
    ],
)
def test_bad_evidence(name, value, message):
    watch = RiskMonitor(0.1)
    watch.update([0.0, 1.0])
    good = watch.to_dict()
    with pytest.raises((ValueError, TypeError), match=message):
        RiskMonitor.from_dict(good | {"evidence": good["evidence"] | {name: value}})
    lacking = {key: good["evidence"][key] for key in good["evidence"] if key != name}
    with pytest.raises(ValueError, match=f"no whole evidence: it lacks {name}"):
        RiskMonitor.from_dict(good | {"evidence": lacking})
