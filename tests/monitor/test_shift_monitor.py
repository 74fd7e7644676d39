import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad

from tests.monitor import slow_definitions
from tether.monitor import ShiftMonitor
from tether.monitor.betting import STEPS_PER_UPDATE
from tether.monitor.shift_monitor import log_factors

SCORES = st.lists(
    st.one_of(st.integers(0, 3).map(float), st.floats(-5, 5)), min_size=1, max_size=30
)
SEEDS = st.integers(0, 2**32)


def make_monitor(reference, seed):
    return ShiftMonitor(reference, rng=np.random.default_rng(seed))


@settings(deadline=None)
@given(reference=SCORES, scores=SCORES, seed=SEEDS)
def test_wealth_equals_the_definition(reference, scores, seed):
    status = make_monitor(reference, seed).update(scores)
    uniforms = np.random.default_rng(seed).random(len(scores)).tolist()
    factors = slow_definitions.shift_factors(slow_definitions.p_values(reference, scores, uniforms))
    assert math.exp(status.log_wealth) == pytest.approx(slow_definitions.wealth(factors), rel=1e-9)
    path = [slow_definitions.wealth(factors[: step + 1]) for step in range(len(scores))]
    assert status.p_value == pytest.approx(1 / max(1, *path), rel=1e-9)


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
def test_the_status_does_not_depend_on_batch_sizes(reference, scores, seed, cut):
    at_once, halves, single = (make_monitor(reference, seed) for _ in range(3))
    at_once.update(scores)
    for part in (scores[:cut], scores[cut:]):
        if part:
            halves.update(part)
    for score in scores:
        single.update([score])
    for batched in (halves, single):
        assert batched.status.seen == at_once.status.seen
        assert batched.status.alarm_at == at_once.status.alarm_at
        assert batched.status.log_wealth == pytest.approx(at_once.status.log_wealth, abs=1e-9)
        assert batched.status.log_peak == pytest.approx(at_once.status.log_peak, abs=1e-9)


def test_a_batch_longer_than_one_update_block():
    scores = np.random.default_rng(5).normal(size=STEPS_PER_UPDATE + 100)
    at_once, parts = make_monitor(scores[:50], 6), make_monitor(scores[:50], 6)
    at_once.update(scores)
    for part in np.array_split(scores, 7):
        parts.update(part)
    assert parts.status.log_wealth == pytest.approx(at_once.status.log_wealth, abs=1e-9)


@pytest.mark.parametrize("kind", ["PCG64", "PCG64DXSM", "MT19937", "Philox", "SFC64"])
def test_a_saved_monitor_continues_exactly(kind, tmp_path):
    data = np.random.default_rng(7)
    rng = np.random.Generator(getattr(np.random, kind)(8))
    monitor = ShiftMonitor(data.integers(0, 9, size=40), false_alarm_probability=0.1, rng=rng)
    monitor.update(data.integers(0, 9, size=100))
    again = ShiftMonitor.from_dict(json.loads(json.dumps(monitor.to_dict(), allow_nan=False)))
    monitor.save(tmp_path / "watch.json")
    third = ShiftMonitor.load(tmp_path / "watch.json")
    assert again.to_dict() == third.to_dict() == monitor.to_dict()
    assert (again.reference_size, again.status) == (40, monitor.status)
    more = data.integers(2, 12, size=300)
    status = monitor.update(more)
    assert again.update(more) == third.update(more) == status


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
    monitor = ShiftMonitor(rng.normal(size=1000), rng=rng)
    assert not monitor.update(rng.normal(size=2000)).alarm
    status = monitor.update(change(rng.normal(size=300)))
    assert status.alarm, name
    assert str(status).startswith(f"ALARM at score {status.alarm_at}: the evidence grew from score")
    assert "; after 2300 scores the p-value of no shift is" in str(status)
    assert 1900 < status.evidence_from <= 2000 + (status.alarm_at - 2000) // 2


def test_invalid_settings_are_refused():
    rng = np.random.default_rng(0)
    with pytest.raises(
        ValueError, match="false_alarm_probability must be above 0 and below 1, got 0"
    ):
        ShiftMonitor([0.0], 0, rng=rng)
    with pytest.raises(TypeError, match=r"rng must be a numpy.random.Generator, such as .*, got 7"):
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
def test_invalid_scores_leave_the_monitor_unchanged(scores, message):
    monitor = make_monitor([0.0, 1.0], 0)
    monitor.update([0.5])
    before = monitor.to_dict()
    with pytest.raises((ValueError, TypeError), match=message):
        monitor.update(scores)
    assert monitor.to_dict() == before


def test_invalid_saved_content_is_refused():
    good = make_monitor([0.0, 1.0], 0).to_dict()
    with pytest.raises(ValueError, match="incomplete shift monitor: generator missing"):
        ShiftMonitor.from_dict({name: good[name] for name in good if name != "generator"})
    with pytest.raises(ValueError, match=r"generator must be one of 'MT19937'.*got 'system'"):
        ShiftMonitor.from_dict(good | {"generator": {"bit_generator": "system"}})
    with pytest.raises(ValueError, match="reference_size must be an integer from 1 to 2, got 5"):
        ShiftMonitor.from_dict(good | {"reference_size": 5})
    with pytest.raises(ValueError, match="content has 2 scores, expected a reference_size of 1"):
        ShiftMonitor.from_dict(good | {"reference_size": 1})
