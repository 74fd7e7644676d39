"""The shift monitor: its definition, exact fairness, false alarms, and each kind of shift."""

import itertools
import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad

from tests.monitor import definitions
from tether.monitor import ShiftMonitor
from tether.monitor.shift_monitor import Ranks, log_factors

SCORES = st.lists(
    st.one_of(st.integers(0, 3).map(float), st.floats(-5, 5)), min_size=1, max_size=30
)


@given(reference=SCORES, scores=SCORES, seed=st.integers(0, 2**32), cut=st.integers(0, 30))
def test_the_wealth_equals_the_definition_in_any_batches(reference, scores, seed, cut):
    monitor = ShiftMonitor(reference, rng=np.random.default_rng(seed))
    for part in (scores[:cut], scores[cut:]):
        if part:
            monitor.update(part)
    uniforms = np.random.default_rng(seed).random(len(scores)).tolist()
    factors = definitions.shift_factors(definitions.p_values(reference, scores, uniforms))
    path = [definitions.wealth(factors[: step + 1]) for step in range(len(scores))]
    assert math.exp(monitor.status.log_wealth) == pytest.approx(path[-1], rel=1e-9)
    assert monitor.status.p_value == pytest.approx(1 / max(1, *path), rel=1e-9)


@pytest.mark.parametrize("bet", range(12))
def test_every_bet_is_fair_and_loses_at_most_half(bet):
    halves = [
        quad(lambda p: math.exp(log_factors(np.array([p]))[bet, 0]), *ends, limit=200)[0]
        for ends in ((0, 0.5), (0.5, 1))
    ]
    assert sum(halves) == pytest.approx(1, abs=1e-6)
    edges = log_factors(np.array([0.0, 2.0**-60, 0.25, 0.5, 0.75, 1 - 2.0**-53]))[bet]
    assert (edges >= math.log(0.5) - 1e-12).all()


def test_ranks_are_uniform_over_all_orders_and_those_of_a_plain_list():
    ranks = Counter()
    for order in itertools.permutations([1.0, 2.0, 3.0, 4.0, 5.0, 6.0]):
        above, _ = Ranks(np.array(order[:2])).push(np.array(order[2:]))
        ranks[tuple(above.tolist())] += 1
    assert len(ranks) == 3 * 4 * 5 * 6
    assert set(ranks.values()) == {2}
    scores = np.random.default_rng(0).integers(0, 50, size=1300).astype(float)
    above, equal = Ranks(np.array([25.0])).push(scores)
    bag = np.array([25.0, *scores])
    assert above.tolist() == [int((bag[: k + 1] > s).sum()) for k, s in enumerate(scores)]
    assert equal.tolist() == [int((bag[: k + 1] == s).sum()) for k, s in enumerate(scores)]


@pytest.mark.parametrize(
    "change",
    [lambda z: z + 1, lambda z: z - 1, lambda z: 3 * z, lambda z: z / 3],
    ids=["rise", "fall", "spread out", "concentrate"],
)
def test_each_kind_of_shift_is_found_late(change):
    rng = np.random.default_rng(9)
    monitor = ShiftMonitor(rng.normal(size=1000), rng=rng)
    assert not monitor.update(rng.normal(size=2000)).alarm
    status = monitor.update(change(rng.normal(size=300)))
    assert str(status).startswith(f"ALARM at score {status.alarm_at}")
    assert 1900 < status.evidence_from <= 2000 + (status.alarm_at - 2000) // 2


@pytest.mark.parametrize("kind", ["PCG64", "PCG64DXSM", "SFC64"])
def test_a_saved_monitor_continues_exactly(kind, tmp_path):
    data, rng = np.random.default_rng(7), np.random.Generator(getattr(np.random, kind)(8))
    monitor = ShiftMonitor(data.integers(0, 9, size=40), 0.1, rng=rng)
    monitor.update(data.integers(0, 9, size=100))
    monitor.save(tmp_path / "watch.json")
    again = ShiftMonitor.load(tmp_path / "watch.json")
    assert (again.reference_size, again.status) == (40, monitor.status)
    more = data.integers(2, 12, size=300)
    assert again.update(more) == monitor.update(more)


def test_wrong_arguments_are_refused(tmp_path):
    rng = np.random.default_rng(0)
    for scores, error in (([], ValueError), ([0.0, math.nan], ValueError), (["a"], TypeError)):
        with pytest.raises(error, match="reference_scores"):
            ShiftMonitor(scores, rng=rng)
        with pytest.raises(error, match="scores"):
            ShiftMonitor([0.0], rng=rng).update(scores)
    unsaved = ShiftMonitor([0.0], rng=np.random.Generator(np.random.MT19937(1)))
    with pytest.raises(ValueError, match="generator"):
        unsaved.save(tmp_path / "watch.json")
