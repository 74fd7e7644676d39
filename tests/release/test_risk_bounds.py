import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import brentq
from scipy.special import betaln

from tether.release.risk_bounds import PRIOR_WEIGHT, anytime_bound


def upper(rows, total, alpha, error, bound=1.0):
    return float(anytime_bound(np.array(rows), np.array(total), bound, alpha, error))


def log_wealth(rows, total, mean, alpha):
    a, b = PRIOR_WEIGHT, PRIOR_WEIGHT * (1 - alpha) / alpha
    prior = betaln(a + total, b + rows - total) - betaln(a, b)
    return prior - total * np.log(mean) - (rows - total) * np.log1p(-mean)


@given(st.integers(1, 5000), st.floats(0, 0.99), st.sampled_from([0.01, 0.1, 0.5]))
def test_the_bound_is_where_the_wealth_crosses(rows, part, alpha):
    total, error = part * rows, 0.05
    found = upper(rows, total, alpha, error)
    assert found >= part

    def above(mean):
        return log_wealth(rows, total, mean, alpha) + np.log(error)

    if above(1 - 1e-12) < 0:
        assert found > 1 - 1e-11
    else:
        assert found == pytest.approx(brentq(above, max(part, 1e-300), 1 - 1e-12), abs=1e-9)


def ever_below(bound_of, mean, rows):
    """The exact probability that a bound is ever below the mean of losses of 0 and 1."""
    chance, missed = np.array([1.0]), 0.0
    for n in range(1, rows + 1):
        grown = np.zeros(n + 1)
        grown[:-1] += chance * (1 - mean)
        grown[1:] += chance * mean
        below = bound_of(np.full(n + 1, n), np.arange(n + 1.0)) < mean
        missed += grown[below].sum()
        chance = np.where(below, 0.0, grown)
    return missed


@pytest.mark.parametrize("mean", [0.03, 0.1, 0.4])
def test_the_bound_is_ever_below_the_mean_with_at_most_the_stated_probability(mean):
    anytime = ever_below(lambda n, l: anytime_bound(n, l, 1.0, 0.1, 0.1), mean, 400)  # noqa: E741
    assert 0.005 < anytime <= 0.1
    # A bound for one time only, looked at after every row, does not have this property.
    once = ever_below(_wald, mean, 400)
    assert once > 0.2


def _wald(rows, total):
    share = (total + 1) / (rows + 2)
    return share + 1.28 * np.sqrt(share * (1 - share) / rows)


@given(st.floats(0.01, 0.99), st.floats(0.01, 0.99), st.floats(0, 1), st.floats(0, 1))
def test_a_factor_has_expectation_of_at_most_one_for_any_two_losses(q, mean, below, above):
    low, high = below * mean, mean + above * (1 - mean)
    chance = (mean - low) / (high - low) if high > low else 0.0
    factor = lambda loss: (q / mean) ** loss * ((1 - q) / (1 - mean)) ** (1 - loss)  # noqa: E731
    assert (1 - chance) * factor(low) + chance * factor(high) <= 1 + 1e-9
