import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad

from tests.monitor import direct
from tether.monitor import ShiftMonitor
from tether.monitor.betting import CHUNK
from tether.monitor.shift_monitor import log_factors

SCORES = st.lists(
    st.one_of(st.integers(0, 3).map(float), st.floats(-5, 5)), min_size=1, max_size=30
)
SEEDS = st.integers(0, 2**32)


def monitor(reference, seed, delta=0.05):
    return ShiftMonitor(reference, delta, rng=np.random.default_rng(seed))


@settings(deadline=None)
@given(reference=SCORES, scores=SCORES, seed=SEEDS)
def test_wealth_is_that_of_the_direct_martingale(reference, scores, seed):
    report = monitor(reference, seed).update(scores)
    uniforms = np.random.default_rng(seed).random(len(scores)).tolist()
    factors = direct.shift_factors(direct.p_values(reference, scores, uniforms))
    assert math.exp(report.log_wealth) == pytest.approx(direct.wealth(factors), rel=1e-9)
    path = [direct.wealth(factors[: step + 1]) for step in range(len(scores))]
    assert report.p_value == pytest.approx(1 / max(1, *path), rel=1e-9)


@pytest.mark.parametrize("bet", range(12))
def test_every_bet_is_fair(bet):
    def factor(p):
        return math.exp(log_factors(np.array([p]))[bet, 0])

    halves = [quad(factor, 0, 0.5, limit=200)[0], quad(factor, 0.5, 1, limit=200)[0]]
    assert sum(halves) == pytest.approx(1, abs=1e-6)


def test_no_bet_loses_more_than_half():
    edges = np.array([0.0, 2.0**-60, 0.25, 0.5, 0.75, 1 - 2.0**-53])
    factors = log_factors(edges)
    assert np.isfinite(factors).all()
    assert (factors >= math.log(0.5) - 1e-12).all()


@settings(deadline=None)
@given(reference=SCORES, scores=SCORES, seed=SEEDS, cut=st.integers(1, 29))
def test_batches_of_any_size_come_to_the_same(reference, scores, seed, cut):
    whole, halves, single = (monitor(reference, seed) for _ in range(3))
    whole.update(scores)
    for part in (scores[:cut], scores[cut:]):
        if part:
            halves.update(part)
    for score in scores:
        single.update([score])
    for other in (halves, single):
        assert other.report.seen == whole.report.seen
        assert other.report.alarm_at == whole.report.alarm_at
        assert other.report.log_wealth == pytest.approx(whole.report.log_wealth, abs=1e-9)
        assert other.report.log_peak == pytest.approx(whole.report.log_peak, abs=1e-9)


def test_a_batch_longer_than_a_chunk():
    scores = np.random.default_rng(5).normal(size=CHUNK + 100)
    whole, parts = monitor(scores[:50], 6), monitor(scores[:50], 6)
    whole.update(scores)
    for part in np.array_split(scores, 7):
        parts.update(part)
    assert parts.report.log_wealth == pytest.approx(whole.report.log_wealth, abs=1e-9)


@pytest.mark.parametrize("kind", ["PCG64", "PCG64DXSM", "MT19937", "Philox", "SFC64"])
def test_a_saved_monitor_goes_on_exactly(kind, tmp_path):
    data = np.random.default_rng(7)
    rng = np.random.Generator(getattr(np.random, kind)(8))
    watch = ShiftMonitor(data.integers(0, 9, size=40), delta=0.1, rng=rng)
    watch.update(data.integers(0, 9, size=100))
    again = ShiftMonitor.from_dict(json.loads(json.dumps(watch.to_dict(), allow_nan=False)))
    watch.save(tmp_path / "watch.json")
    third = ShiftMonitor.load(tmp_path / "watch.json")
    assert again.to_dict() == third.to_dict() == watch.to_dict()
    assert (again.reference_size, again.report) == (40, watch.report)
    more = data.integers(2, 12, size=300)
    report = watch.update(more)
    assert again.update(more) == third.update(more) == report


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("rise", lambda z: z + 1),
        ("fall", lambda z: z - 1),
        ("spread out", lambda z: 3 * z),
        ("draw together", lambda z: z / 3),
    ],
)
def test_each_kind_of_shift_is_found_late(name, change):
    rng = np.random.default_rng(9)
    watch = ShiftMonitor(rng.normal(size=1000), rng=rng)
    assert not watch.update(rng.normal(size=2000)).alarm
    report = watch.update(change(rng.normal(size=300)))
    assert report.alarm, name
    assert str(report).startswith(f"ALARM at score {report.alarm_at}: after 2300 scores")


def test_bad_settings():
    rng = np.random.default_rng(0)
    with pytest.raises(ValueError, match="delta must be above 0 and below 1, got 0"):
        ShiftMonitor([0.0], 0, rng=rng)
    with pytest.raises(TypeError, match=r"rng must be a numpy.random.Generator, got 7"):
        ShiftMonitor([0.0], rng=7)
    with pytest.raises(ValueError, match=r"reference_scores\[1\] is nan: expected a finite score"):
        ShiftMonitor([0.0, math.nan], rng=rng)
    with pytest.raises(ValueError, match="reference_scores is empty"):
        ShiftMonitor([], rng=rng)


@pytest.mark.parametrize(
    ("scores", "message"),
    [
        ([0.0, -math.inf], r"scores\[1\] is -inf: expected a finite score"),
        (0.5, r"scores must have 1 dimension\(s\)"),
        (["a"], "scores must hold real numbers"),
    ],
)
def test_bad_scores_change_nothing(scores, message):
    watch = monitor([0.0, 1.0], 0)
    watch.update([0.5])
    before = watch.to_dict()
    with pytest.raises((ValueError, TypeError), match=message):
        watch.update(scores)
    assert watch.to_dict() == before


def test_bad_content():
    good = monitor([0.0, 1.0], 0).to_dict()
    with pytest.raises(ValueError, match="no whole shift monitor: it lacks generator"):
        ShiftMonitor.from_dict({name: good[name] for name in good if name != "generator"})
    with pytest.raises(ValueError, match=r"generator must be one of 'MT19937'.*got 'system'"):
        ShiftMonitor.from_dict(good | {"generator": {"bit_generator": "system"}})
    with pytest.raises(ValueError, match="content has 2 scores, expected a reference_size of 5"):
        ShiftMonitor.from_dict(good | {"reference_size": 5})
