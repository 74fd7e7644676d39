"""The expected excess of the safe choice, against exact binomial sums and simulation."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom, norm

from tests.control.worlds import table_log
from tether._core.promises import SafeMean
from tether._core.promises import safe_mean as weighted_safe_mean
from tether.control.calibrate import calibrate


def safe_mean(losses, bound, weight=1.0):
    return weighted_safe_mean(losses, bound, np.full(len(losses), weight), weight)


def _exact_excess(n_rows, risk, alpha, bound):
    """E[(m − α)₊] for losses of 0 or bound, m over n + 1 points."""
    harmed = np.arange(n_rows + 2)
    excess = np.maximum(bound * harmed / (n_rows + 1) - alpha, 0)
    return float(binom.pmf(harmed, n_rows + 1, risk / bound) @ excess)


def _expected_estimate(n_rows, risk, alpha, bound):
    """The mean of the estimate over all logs of such losses."""
    harmed = np.arange(n_rows + 1)
    logs = [np.repeat([bound, 0.0], [count, n_rows - count]) for count in harmed]
    estimates = [safe_mean(losses, bound).excess(alpha) for losses in logs]
    return float(binom.pmf(harmed, n_rows, risk / bound) @ estimates)


@pytest.mark.parametrize("bound", [1.0, 5.0])
@pytest.mark.parametrize("n_rows", [1, 5, 30, 150, 600])
@pytest.mark.parametrize("alpha", [0.01, 0.05, 0.12, 0.3])
def test_over_bernoulli_logs_the_estimate_is_not_below_the_exact_excess(n_rows, alpha, bound):
    for share in (0.3, 0.7, 0.9, 1.0, 1.1):
        exact = _exact_excess(n_rows, share * alpha * bound, alpha * bound, bound)
        estimate = _expected_estimate(n_rows, share * alpha * bound, alpha * bound, bound)
        assert estimate >= exact * (1 - 1e-9)  # and not so far above it that it says nothing
        assert estimate <= 1.5 * exact + 0.5 * bound / (n_rows + 1) + 0.1 * alpha * bound


@pytest.mark.parametrize("n_rows", [30, 150])
@pytest.mark.parametrize("shape", [0.05, 0.5, 5.0])
@pytest.mark.parametrize("heavy", [1.0, 4.0])
def test_over_logs_of_skewed_losses_the_estimate_is_not_below_the_truth(n_rows, shape, heavy):
    rng, alpha = np.random.default_rng(0), 0.1
    losses = rng.beta(shape, shape * (1 - alpha) / alpha, (4000, n_rows + 1))
    weights = rng.choice([1.0, heavy], losses.shape)
    excess = np.maximum((weights * losses).sum(axis=1) / weights.sum(axis=1) - alpha, 0)
    logs = zip(losses[:, :n_rows], weights[:, :n_rows], strict=True)
    found = [weighted_safe_mean(log, 1.0, weight, heavy) for log, weight in logs]
    estimates = np.array([each.excess(alpha) for each in found])
    error = np.hypot(excess.std(), estimates.std()) / np.sqrt(len(losses))
    assert estimates.mean() >= excess.mean() - 3 * error


@pytest.mark.parametrize(("tolerated", "share"), [(2, 0.8), (3, 1.0), (4, 1.0), (10, 1.0)])
def test_few_losses_do_not_hide_what_is_served_where_something_passes(tolerated, share):
    """Exact sums over the logs that pass, with a policy that does harm three times as often."""
    alpha, harmed, sums = (tolerated - 0.05) / 401, np.arange(tolerated - 1), np.zeros(2)
    safe, optimized = (np.log([risk, 1 - risk]) for risk in (share * alpha, 3 * share * alpha))
    for count, chance in zip(harmed, binom.pmf(harmed, 400, share * alpha), strict=True):
        action = np.repeat([0, 1], [count, 400 - count])
        found = calibrate(table_log(action == 0, action, safe, optimized), alpha=alpha)
        clipped = np.exp(np.minimum(optimized, found.log_beta + safe))
        sums += chance * np.array([clipped[0] / clipped.sum(), found.promise])
    assert sums[0] <= sums[1]


@given(st.floats(0, 1), st.floats(1e-3, 1), st.floats(0.01, 0.99))
def test_the_excess_is_the_integral_it_stands_for(mean, error, alpha):
    grid = norm.ppf((np.arange(20_000) + 0.5) / 20_000)
    integral = np.maximum(mean + error * grid - alpha, 0).mean()
    assert SafeMean(mean, error).excess(alpha) == pytest.approx(integral, abs=2e-4 * error)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=30), st.floats(0.1, 10))
def test_equal_weights_change_nothing_and_an_item_of_weight_0_does_not_count(losses, weight):
    plain, losses = safe_mean(np.array(losses), 1.0), np.array(losses)
    weights = np.append(np.full(len(losses), weight), 0.0)
    for found in (
        safe_mean(losses, 1.0, weight),
        weighted_safe_mean(np.append(losses, 1.0), 1.0, weights, weight),
    ):
        assert found.mean == pytest.approx(plain.mean)
        assert found.standard_error == pytest.approx(plain.standard_error)
