"""Weighted means: the definition, textbook intervals, and how often intervals cover."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from tether.control.weighted_means import (
    LEAST_EFFECTIVE_ROWS,
    WeightedMean,
    weighted_difference,
    weighted_mean,
)

EQUAL = np.zeros(60)


def some_rows(seed, rows=120, spread=0.5):
    rng = np.random.default_rng(seed)
    return rng.normal(size=rows), spread * rng.normal(size=rows)


def jackknife(statistic, *columns):
    """The mean and the standard error by leaving out each row in turn, as in a textbook."""
    rows = len(columns[0])
    without = [statistic(*(np.delete(column, i) for column in columns)) for i in range(rows)]
    center = np.mean(without)
    return statistic(*columns), np.sqrt((rows - 1) / rows * np.sum((without - center) ** 2))


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from([0.8, 0.95]), st.floats(-1e6, 1e6))
def test_mean_and_difference_have_the_errors_of_the_jackknife(seed, confidence, offset):
    values, log_weights = some_rows(seed)
    weights = np.exp(log_weights)
    effective = weights.sum() ** 2 / (weights**2).sum()
    quantile = stats.t.ppf((1 + confidence) / 2, effective - 1)

    def mean(v, w):
        return np.average(v, weights=w)

    cases = [
        (weighted_mean, mean, (log_weights,)),
        (weighted_difference, lambda v, w: mean(v, w) - v.mean(), (log_weights, np.zeros(120))),
    ]
    for function, statistic, columns in cases:
        expected, error = jackknife(statistic, values, weights)
        found = function(values, *columns, confidence=confidence)
        assert found.mean == pytest.approx(expected)
        assert found.upper - found.mean == pytest.approx(quantile * error)
        assert found.mean - found.lower == pytest.approx(quantile * error)
        assert found.effective_sample_size == pytest.approx(effective)
        # A constant factor of the weights does not matter, and a constant reward moves along.
        scaled = function(values + offset, *(each + 3 for each in columns), confidence=confidence)
        shift = offset if function is weighted_mean else 0.0
        assert scaled.mean == pytest.approx(found.mean + shift, abs=1e-6)
        assert scaled.upper == pytest.approx(found.upper + shift, abs=1e-6)


def test_equal_weights_give_the_intervals_of_student_and_of_agresti_and_coull():
    values, _ = some_rows(3)
    found = weighted_mean(values, np.zeros(120))
    expected = stats.t.interval(0.95, 119, values.mean(), stats.sem(values))
    assert (found.lower, found.upper) == pytest.approx(expected)
    for successes in (0, 3, 40, 60):
        losses = 2.0 * (np.arange(60) < successes)  # 0 or B, with B = 2
        z = stats.norm.ppf(0.975)
        count = 60 + z**2
        share = (successes + z**2 / 2) / count
        half = z * np.sqrt(share * (1 - share) / count)
        found = weighted_mean(losses, EQUAL, bound=2.0)
        assert found.mean == pytest.approx(2 * successes / 60)
        assert found.lower == pytest.approx(2 * max(share - half, 0))
        assert found.upper == pytest.approx(2 * min(share + half, 1))


def test_a_row_of_weight_zero_counts_for_nothing():
    values, log_weights = some_rows(1)
    more = np.append(values, 1e9), np.append(log_weights, -np.inf)
    assert weighted_mean(*more).mean == pytest.approx(weighted_mean(values, log_weights).mean)
    assert weighted_mean(values, np.full(120, -np.inf)).effective_sample_size == 0


def test_nothing_is_stated_where_the_log_does_not_tell():
    few = weighted_mean(np.ones(200), np.where(np.arange(200) < 29, 0.0, -np.inf))
    assert few == WeightedMean(None, None, None, pytest.approx(29), few.unknown)
    assert "29 rows of this policy" in str(few)
    assert few.effective_sample_size < LEAST_EFFECTIVE_ROWS
    # Half of what the policy does is never in the log: all weights together are half of what
    # they should be.
    half = np.log(np.tile([0.4, 0.6], 500))
    lacking = weighted_mean(np.ones(1000), half, normalized=True)
    assert lacking.mean is None
    assert "about 50% of what this policy does" in lacking.unknown
    assert weighted_mean(np.ones(1000), half).known
    assert weighted_difference(np.ones(200), few_weights(), np.zeros(200)).mean is None


def few_weights():
    return np.where(np.arange(200) < 29, 0.0, -np.inf)


def test_equal_rewards_have_no_interval_and_equal_policies_no_difference():
    same = weighted_mean(np.full(60, 3.0), EQUAL)
    assert (same.mean, same.lower, same.upper) == (3.0, -np.inf, np.inf)
    tilted = np.linspace(0, 1, 60)
    found = weighted_difference(np.full(60, 3.0), tilted, EQUAL)
    assert (found.lower, found.upper) == (-np.inf, np.inf)
    limited = weighted_difference(np.zeros(60), tilted, EQUAL, bound=2.0)
    assert (limited.mean, limited.lower, limited.upper) == (0, -2, 2)
    nothing = weighted_difference(np.arange(60.0), tilted, tilted)
    assert (nothing.mean, nothing.lower, nothing.upper) == (0, 0, 0)


@given(st.integers(0, 10**6), st.sampled_from([0.3, 1.0, 7.0]))
@settings(max_examples=100, deadline=None)
def test_a_mean_at_its_limit_is_inside_its_interval(seed, bound):
    """Shares that sum to one but for rounding give losses of exactly the bound, or of 0."""
    rng = np.random.default_rng(seed)
    weights, other = 0.1 * rng.normal(size=(2, 150))
    lost = np.arange(150) < 75
    found = weighted_mean(np.full(150, bound), weights, bound=bound)
    assert found.lower <= found.mean <= found.upper <= bound
    moved = weighted_difference(
        bound * lost,
        np.where(lost, weights, -np.inf),
        np.where(lost, -np.inf, other),
        bound=bound,
    )
    assert -bound <= moved.lower <= moved.mean <= moved.upper <= bound


def test_large_rewards_do_not_overflow():
    values, log_weights = some_rows(2)
    found, large = weighted_mean(values, log_weights), weighted_mean(1e300 * values, log_weights)
    assert large.mean == pytest.approx(1e300 * found.mean)
    assert large.upper == pytest.approx(1e300 * found.upper)


def coverage(interval, repeats=1500, rows=500):
    """How often the interval of a mean under N(0.8, 1) covers it, with rows of N(0, 1)."""
    rng, covered = np.random.default_rng(0), 0
    for _ in range(repeats):
        action = rng.normal(size=rows)
        low, high = interval(action + rng.normal(size=rows), 0.8 * action - 0.32)
        covered += low <= 0.8 <= high
    return covered / repeats


def test_intervals_cover_about_as_often_as_they_say():
    """0.93 instead of 0.95: weights are skewed. An interval without the weights covers 0.7."""

    def right(values, log_weights):
        found = weighted_mean(values, log_weights)
        return found.lower, found.upper

    def wrong(values, log_weights):
        half = 1.96 * stats.sem(values)
        mean = np.average(values, weights=np.exp(log_weights))
        return mean - half, mean + half

    assert 0.91 < coverage(right) < 0.97
    assert coverage(wrong) < 0.85
