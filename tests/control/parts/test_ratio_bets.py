"""A log in parts contradicts its probabilities where the same log in memory does."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tether
from tether.control.contradictions import (
    CONTRADICTION_FALSE_ALARM,
    ROUNDING_ROOM,
    STAKES,
    ratio_contradiction,
    summed_ratio_contradiction,
)
from tether.control.parts.log_sum import LogSums
from tether.control.parts.ratio_bets import BetOnRatios


class Part:
    """The rows of a part, of which only the ratios are read."""

    def __init__(self, log_ratio):
        self.log_ratio, self.acting = log_ratio, None


def in_parts(log_ratios, allowed, cuts=()):
    """The contradiction of a log that is read in parts, and how often its products were asked."""
    asked = []

    def log_capital(room):
        asked.append(room)
        first, *others = [BetOnRatios(room).of(Part(each)) for each in np.split(log_ratios, cuts)]
        for each in others:
            first = each.merge(first)
        return first.logs

    sums = LogSums.of([log_ratios, 2 * log_ratios]).logs
    return summed_ratio_contradiction(len(log_ratios), *sums, allowed, log_capital), len(asked)


def beyond(ratios, allowed):
    """The definition in exact arithmetic: whether the average of the products exceeds 1/p."""
    room = Fraction(ROUNDING_ROOM * allowed)
    total = Fraction(0)
    for stake in STAKES.tolist():
        product = Fraction(1)
        for ratio in ratios:
            product *= 1 + Fraction(stake) * (Fraction(ratio) / room - 1)
        total += product
    return total / len(STAKES) > 1 / Fraction(CONTRADICTION_FALSE_ALARM)


@settings(max_examples=60, deadline=None)
@given(
    ratios=st.lists(st.sampled_from([0.0, 1e-3, 0.5, 1.0, 1.5, 3.0, 40.0, 1e6]), max_size=40),
    allowed=st.sampled_from([1.0, 1.5]),
)
def test_the_definition_in_exact_arithmetic(ratios, allowed):
    ratios = [*ratios, 1.0]
    with np.errstate(divide="ignore"):
        log_ratios = np.log(ratios)
    assert (in_parts(log_ratios, allowed)[0] is not None) == beyond(ratios, allowed)


@settings(max_examples=200, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    mean=st.floats(0.5, 3.0),
    shape=st.floats(0.02, 3.0),
    rows=st.integers(2, 3000),
    allowed=st.sampled_from([1.0, 1.2]),
)
def test_parts_say_what_rows_in_memory_say(seed, mean, shape, rows, allowed):
    rng = np.random.default_rng(seed)
    ratios = mean * rng.gamma(shape, 1 / shape, size=rows)
    with np.errstate(divide="ignore"):
        log_ratios = np.log(ratios)
    cuts = np.sort(rng.integers(1, rows, size=min(3, rows - 1)))
    assert in_parts(log_ratios, allowed, cuts)[0] == ratio_contradiction(log_ratios, allowed)


@pytest.mark.parametrize("largest", [720.0, 5000.0])
def test_ratios_past_the_largest_float_count_in_both(largest):
    for rows in (3, 1000):
        log_ratios = np.append(np.zeros(rows), largest)
        assert in_parts(log_ratios, 1.0)[0] is not None
        assert ratio_contradiction(log_ratios, 1.0) is not None


def test_the_capital_does_not_depend_on_how_rows_are_divided():
    log_ratios = np.random.default_rng(1).normal(size=500)
    whole = BetOnRatios(1.01).of(Part(log_ratios))
    halves = [BetOnRatios(1.01).of(Part(each)) for each in (log_ratios[::2], log_ratios[1::2])]
    assert (halves[1].merge(halves[0]).logs == whole.logs).all()


def test_the_sum_settles_logs_that_are_what_they_state():
    log_ratios = np.random.default_rng(2).normal(-0.02, 0.2, size=2000)
    assert in_parts(log_ratios, 1.0) == (None, 0)


def test_a_scanned_log_is_refuted_where_only_the_rows_refute_it():
    """Heavy tails: the squares of the ratios say nothing, the rows are clear."""
    rng = np.random.default_rng(3)
    log_ratio = np.append(rng.normal(0.25, 0.3, size=1500), 9.0)
    columns = {
        "loss": (rng.random(1501) < 0.05).astype(float),
        "log_safe": np.full(1501, -10.0),
        "log_optimized": log_ratio - 10.0,
    }
    in_memory = tether.calibrate(tether.Log(**columns, max_ratio=1e5), alpha=0.2, family="mix")

    def source(kernel):
        halves = (slice(0, 700), slice(700, None))
        for half in halves:
            yield kernel.partial({name: columns[name][half] for name in kernel.columns})

    log = tether.Log.scan(source, context=None, max_ratio=1e5)
    scanned = tether.calibrate(log, alpha=0.2, family="mix")
    assert scanned.refuted_by
    assert scanned.refuted_by == in_memory.refuted_by


@pytest.mark.parametrize("largest", [150.0, 360.0, 690.0, 900.0])
def test_ratios_whose_squares_overflow_contradict_a_log_in_words(largest):
    log_ratios = np.append(np.zeros(40), largest)
    (expected, _), found = in_parts(log_ratios, 1.0), ratio_contradiction(log_ratios, 1.0)
    assert expected == found
    assert "nan" not in str(found)


def test_everything_is_known_of_a_scanned_log_with_an_overflowing_ratio():
    columns = {
        "loss": np.zeros(41),
        "log_safe": np.append(-np.ones(40), -900.0),
        "log_optimized": -np.ones(41),
        "reward": np.arange(41.0),
    }
    memory = tether.calibrate(tether.Log(**columns), alpha=0.2, test_weight="analytic")
    log = tether.Log.scan(lambda kernel: [kernel.partial(columns)], context=None, reward="reward")
    found = tether.calibrate(log, alpha=0.2, test_weight="analytic")
    assert found.refuted_by == memory.refuted_by
    assert found.warnings == memory.warnings
    assert found.summary() == memory.summary()


def test_a_log_contradicts_the_policy_that_acted_in_each_row():
    rng = np.random.default_rng(0)
    safe, logged = -np.ones(500), np.full(500, -3.0)
    columns = {
        "loss": rng.random(500) * 0.1,
        "log_safe": safe,
        "log_optimized": safe + rng.normal(size=500) * 0.1,
        "log_mix": np.full(500, -1.0),
        "log_logged": logged,
    }
    plain = {name: values for name, values in columns.items() if name != "log_logged"}
    acting = tether.control.Acting(logged)
    memory = tether.calibrate(
        tether.Log(**plain, acting=acting, safe_share=0.5), alpha=0.3, test_weight="analytic"
    )
    log = tether.Log.scan(
        lambda kernel: [kernel.partial(columns)],
        context=None,
        log_mix="log_mix",
        log_logged="log_logged",
        safe_share=0.5,
    )
    found = tether.calibrate(log, alpha=0.3, test_weight="analytic")
    assert memory.refuted_by
    assert found.refuted_by == memory.refuted_by
