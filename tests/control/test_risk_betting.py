"""The capital against its definition, its expectation exactly, and its power."""

from collections import Counter
from itertools import combinations_with_replacement, product
from math import factorial, prod

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy.stats import beta as beta_distribution

from tether.control.risk_betting import (
    LIMIT_ROUNDING,
    LOG_LIMIT_MARGIN,
    Bets,
    WeightedLosses,
    is_certified,
    log_total_capital,
    risk_upper_bound,
    spread_bets,
)


def direct_factor(stake, loss, weight, limit, alpha, bound):
    """1 − λ·Z with the smallest c for which no Z is above 1/λ, by the definition.

    With a limit of 1, up to rounding, every weight is 1, and c has no part in Z.
    """
    c = 0.0
    if limit > 1 + LIMIT_ROUNDING and (bound - alpha) * limit > 1 / stake:
        c = bound - alpha
        if np.isfinite(limit):
            c = ((bound - alpha) * limit - 1 / stake) / (limit - 1)
    return 1 - stake * ((loss - alpha) * weight + c * (1 - weight))


def direct_capital(bets, losses, weights, limits, alpha, bound):
    """The average of the bettors' products, without logs."""
    total = 0.0
    for stake, share in zip(bets.stake, np.exp(bets.log_share), strict=True):
        capital = share
        for row in zip(losses, weights, limits, strict=True):
            capital *= direct_factor(stake, *row, alpha, bound)
        total += capital
    return total


def weighted(losses, weights, limits, bound=1.0):
    with np.errstate(divide="ignore"):
        return WeightedLosses.from_logs(
            np.asarray(losses, float), np.log(weights), np.log(limits), bound
        )


ROW = st.tuples(st.floats(0, 1), st.floats(0, 1), st.floats(1, 50) | st.just(np.inf))


@given(
    st.lists(ROW, min_size=1, max_size=20),
    st.floats(0.02, 0.9),
    st.floats(0.01, 1),
    st.floats(1, 9),
)
@example([(0.0, 1.0, np.inf), (0.0, 1.0, np.inf), (1.0, 1.0, 2.0)], 0.5, 1.0, 1.0)
@example([(0.0, 0.0, 1.0)], 0.5, 1.0, 1.0)
def test_the_capital_is_the_average_of_the_products_of_its_definition(rows, alpha, stake, bound):
    losses, shares, limits = (np.array(column) for column in zip(*rows, strict=True))
    losses, weights = losses * bound, shares * np.minimum(limits, 50)
    alpha, largest = alpha * bound, 1 / (bound - alpha * bound)
    bets = Bets(np.array([stake / 2, stake]) * largest, np.log([0.3, 0.7]))
    raised = limits * np.exp(LOG_LIMIT_MARGIN)  # at its limit a weight would leave nothing
    expected = direct_capital(bets, losses, weights, raised, alpha, bound)
    found = np.exp(log_total_capital(bets, weighted(losses, weights, limits, bound), alpha))
    assert found == pytest.approx(expected, rel=1e-6, abs=1e-7)


@given(ROW, st.floats(0.02, 0.9), st.floats(0.001, 1))
def test_no_factor_is_negative(row, alpha, stake):
    loss, share, limit = row
    factor = direct_factor(stake / (1 - alpha), loss, share * min(limit, 1e6), limit, alpha, 1.0)
    assert factor >= -1e-9


class TinyWorld:
    """Two contexts, two actions, losses 0 or 1: every log can be listed with its probability."""

    share = np.array([0.3, 0.7])
    acted = np.array([[0.5, 0.5], [0.9, 0.1]])
    tested = np.array([[0.8, 0.2], [0.4, 0.6]])
    harm = np.array([[0.6, 0.1], [0.2, 0.75]])

    risk = float((share[:, None] * tested * harm).sum())

    def outcomes(self):
        """Every (probability, loss, weight, limit) of a row."""
        weight = self.tested / self.acted
        for x, a, loss in product(range(2), range(2), range(2)):
            harm = self.harm[x, a] if loss else 1 - self.harm[x, a]
            yield self.share[x] * self.acted[x, a] * harm, loss, weight[x, a], weight[x].max()

    def every_log(self, rows, limit=lambda weight, own: own):
        """Every log, with its probability; `limit` from the row's weight and its true limit.

        Logs that differ in the order of their rows, which does not matter, are listed once.
        """
        for log in combinations_with_replacement(self.outcomes(), rows):
            orders = factorial(rows) // prod(map(factorial, Counter(log).values()))
            probability, loss, weight, limits = (
                np.array(column) for column in zip(*log, strict=True)
            )
            yield orders * probability.prod(), weighted(loss, weight, limit(weight, limits))


LIMITS = {
    "the limit of each context": lambda weight, own: own,
    "one limit for all": lambda weight, own: np.full(len(own), 6.0),
    "none": lambda weight, own: np.full(len(own), np.inf),
}


@pytest.mark.parametrize("limit", LIMITS.values(), ids=LIMITS)
def test_the_expected_capital_is_exactly_one_at_a_risk_of_alpha(limit):
    world = TinyWorld()
    bets = spread_bets(3, world.risk, 1.0, 0.2)
    for alpha, compare in ((world.risk, "=="), (world.risk - 0.05, "<"), (world.risk + 0.05, ">")):
        mean = sum(
            p * np.exp(log_total_capital(bets, losses, alpha))
            for p, losses in world.every_log(3, limit)
        )
        assert {"==": abs(mean - 1) < 1e-7, "<": mean < 1, ">": mean > 1}[compare]


@pytest.mark.parametrize("limit", LIMITS.values(), ids=LIMITS)
@pytest.mark.parametrize("error", [0.5, 0.2, 0.1])
def test_a_false_certificate_is_at_most_as_likely_as_stated(limit, error):
    world = TinyWorld()
    bets = spread_bets(4, world.risk, 1.0, error)
    false = sum(
        p for p, losses in world.every_log(4, limit)
        if is_certified(bets, losses, world.risk, error)[0]
    )  # fmt: skip
    assert false <= error
    if error == 0.5:
        assert false > 0


def test_the_enumeration_finds_limits_that_depend_on_the_action():
    """Wrong on purpose: a stake that looks at the weight of the row that it is placed on."""
    world = TinyWorld()
    bets = spread_bets(3, world.risk, 1.0, 0.2)
    mean = sum(
        p * np.exp(log_total_capital(bets, losses, world.risk))
        for p, losses in world.every_log(3, lambda weight, own: weight)
    )
    assert mean > 1.05


def unbiased_outcomes(beta):
    """Rows of budgeted clip with two fresh proposals of the safe policy each, and its risk."""
    world, risk = TinyWorld(), 0.0
    ratio = world.tested / world.acted  # optimized over safe
    accept = np.minimum(1, ratio / beta)
    rows = []
    for x, a, loss, one, other in product(range(2), repeat=5):
        harm = world.harm[x, a] if loss else 1 - world.harm[x, a]
        probability = world.share[x] * world.acted[x, a] * harm
        probability *= world.acted[x, one] * world.acted[x, other]
        tries = 1 + (1 - accept[x, one])
        fallback = (1 - accept[x, one]) * (1 - accept[x, other])
        weight = accept[x, a] * tries + fallback
        risk += probability * weight * loss
        rows.append((probability, loss, weight, 2 * 1 + 1))
    return rows, risk


def test_the_expected_capital_is_exactly_one_with_unbiased_weights_too():
    rows, risk = unbiased_outcomes(beta=0.5)
    bets, mean = spread_bets(2, risk, 1.0, 0.2), 0.0
    for log in product(rows, repeat=2):
        probability, loss, weight, limit = (np.array(column) for column in zip(*log, strict=True))
        capital = np.exp(log_total_capital(bets, weighted(loss, weight, limit), risk))
        mean += probability.prod() * capital
    assert mean == pytest.approx(1, abs=1e-7)


def test_a_false_certificate_from_a_few_coins_is_at_most_as_likely_as_stated():
    for rows, alpha, error in product((1, 2, 3, 10), (0.1, 0.5, 0.8), (0.05, 0.2, 0.5)):
        bets = spread_bets(rows, alpha, 1.0, error)
        false = 0.0
        for harmed in range(rows + 1):
            losses = weighted(np.arange(rows) < harmed, np.ones(rows), np.ones(rows))
            ways = np.prod([(rows - j) / (j + 1) for j in range(harmed)])
            if is_certified(bets, losses, alpha, error)[0]:
                false += ways * alpha**harmed * (1 - alpha) ** (rows - harmed)
        assert false <= error


def test_the_shares_of_the_bettors_sum_to_one_and_no_stake_is_too_large():
    for rows, alpha, bound in product((1, 30, 10**6), (0.01, 0.9), (1.0, 20.0)):
        bets = spread_bets(rows, alpha * bound, bound, 0.05)
        assert np.exp(bets.log_share).sum() == pytest.approx(1)
        assert (np.diff(bets.stake) > 0).all()
        assert bets.stake[-1] <= 1 / (bound - alpha * bound)


def test_order_and_the_bettor_who_is_asked_first_do_not_matter():
    rng = np.random.default_rng(0)
    loss, weight = rng.random(500) < 0.03, rng.random(500) * 3
    bets, order = spread_bets(500, 0.1, 1.0, 0.05), rng.permutation(500)
    straight = weighted(loss, weight, np.full(500, 3.0))
    shuffled = weighted(loss[order], weight[order], np.full(500, 3.0))
    capital = log_total_capital(bets, straight, 0.1)
    assert log_total_capital(bets, shuffled, 0.1) == pytest.approx(capital, abs=1e-9)
    for error in (np.exp(-capital) * 0.99, np.exp(-capital) * 1.01):
        answers = {
            is_certified(bets, straight, 0.1, error, first)[0] for first in range(len(bets.stake))
        }
        assert answers == {error > np.exp(-capital)}


@given(st.integers(0, 2**32 - 1), st.floats(1, 20) | st.just(np.inf))
@settings(max_examples=30)
def test_the_capital_grows_with_alpha(seed, limit):
    rng = np.random.default_rng(seed)
    losses = weighted(rng.random(30) < 0.2, rng.random(30) * min(limit, 20), np.full(30, limit))
    bets = spread_bets(30, 0.1, 1.0, 0.05)
    capital = [log_total_capital(bets, losses, alpha) for alpha in np.linspace(0.01, 0.99, 60)]
    assert (np.diff(capital) >= -1e-9).all()


def test_the_upper_bound_is_where_the_certificate_begins():
    rng = np.random.default_rng(1)
    losses = weighted(rng.random(400) < 0.05, rng.random(400) * 2, np.full(400, 2.0))
    bets = spread_bets(400, 0.1, 1.0, 0.1)
    bound = risk_upper_bound(bets, losses, 0.1)
    assert is_certified(bets, losses, bound, 0.1)[0]
    assert not is_certified(bets, losses, bound - 1e-6, 0.1)[0]


def test_a_log_of_losses_only_has_the_bound_of_the_loss():
    losses = weighted(np.ones(50), np.ones(50), np.ones(50))
    assert risk_upper_bound(spread_bets(50, 0.1, 1.0, 0.05), losses, 0.05) == 1.0


def test_a_row_above_its_limit_certifies_nothing():
    losses = weighted(np.zeros(200), np.full(200, 1.5), np.ones(200))
    assert losses.refuted
    assert not is_certified(spread_bets(200, 0.1, 1.0, 0.05), losses, 0.1, 0.05)[0]


def test_weights_past_the_largest_count_as_the_largest():
    bets, losses, capital = spread_bets(20, 0.1, 1.0, 0.05), np.tile([0.0, 1.0], 10), []
    for log_weight in (60.0, 61.0, 700.0, 1e5):
        rows = WeightedLosses.from_logs(losses, np.full(20, log_weight), np.inf, 1.0)
        capital.append(log_total_capital(bets, rows, 0.1))
    assert np.isfinite(capital[0])
    assert len(set(capital)) == 1


def empirical_bernstein(losses, weights, limit, error):
    """Maurer and Pontil (2009) for (l − α)·w, inverted in alpha; bound 1."""
    rows, low, high = len(losses), 0.0, 1.0
    for _ in range(30):
        alpha = (low + high) / 2
        terms = (losses - alpha) * weights
        slack = np.sqrt(2 * terms.var(ddof=1) * np.log(2 / error) / rows)
        slack += 7 * limit * np.log(2 / error) / (3 * (rows - 1))
        low, high = (low, alpha) if terms.mean() + slack <= 0 else (alpha, high)
    return high


@pytest.mark.parametrize("rows", [60, 1000, 20_000])
@pytest.mark.parametrize("kind", ["coins", "fractions", "clipped"])
def test_the_bound_is_at_least_as_tight_as_empirical_bernstein(rows, kind):
    rng = np.random.default_rng(rows)
    losses, weights, limit = (rng.random(rows) < 0.03).astype(float), np.ones(rows), 1.0
    if kind == "fractions":
        losses = 0.1 * rng.random(rows)
    if kind == "clipped":
        limit = 4.0
        weights = np.minimum(np.exp(rng.normal(size=rows) - 0.5), limit)
    bets = spread_bets(rows, 0.05, 1.0, 0.05)
    bound = risk_upper_bound(bets, weighted(losses, weights, np.full(rows, limit)), 0.05)
    assert bound <= empirical_bernstein(losses, weights, limit, 0.05)


def test_without_losses_few_more_rows_are_needed_than_by_the_exact_binomial_test():
    for alpha in (0.02, 0.05, 0.1):
        exact = int(np.ceil(np.log(0.05) / np.log(1 - alpha)))
        assert beta_distribution.ppf(0.95, 1, exact) <= alpha
        rows = int(1.25 * exact)
        losses = weighted(np.zeros(rows), np.ones(rows), np.ones(rows))
        assert is_certified(spread_bets(rows, alpha, 1.0, 0.05), losses, alpha, 0.05)[0]
