"""P-values are valid at every sample size, and betting does not depend on the batches."""

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import binom

from tests.risk import brute_force
from tether.risk.p_values import Betting, hoeffding_bentkus, largest_rejected_sum


@pytest.mark.parametrize("count", [1, 7, 40])
@pytest.mark.parametrize("alpha", [0.05, 0.3, 0.9])
def test_hoeffding_bentkus_term_by_term(count, alpha):
    sums = np.linspace(0, count, 4 * count + 1)
    slow = [brute_force.hoeffding_bentkus(Fraction(total), count, alpha) for total in sums]
    assert hoeffding_bentkus(sums, count, alpha) == pytest.approx(slow, abs=1e-12)


def test_without_items_the_p_value_is_one():
    assert hoeffding_bentkus([0.0], [0.0], 0.1).tolist() == [1.0]


@pytest.mark.parametrize("count", [1, 10, 100, 5000])
@pytest.mark.parametrize("alpha", [0.01, 0.1, 0.5])
@pytest.mark.parametrize("level", [0.01, 0.1, 0.5])
def test_the_largest_rejected_sum_is_where_the_p_value_crosses(count, alpha, level):
    limit = largest_rejected_sum(count, alpha, level)
    if limit >= 0:
        assert hoeffding_bentkus(limit, count, alpha) <= level * (1 + 1e-9)
    beyond = max(limit, 0) + 1e-6 * max(limit, 1)
    if limit < 0:
        beyond = 0.0
    assert hoeffding_bentkus(beyond, count, alpha) > level


@pytest.mark.parametrize("alpha", [0.05, 0.1, 0.4])
@pytest.mark.parametrize("count", [20, 200, 1000])
def test_hoeffding_bentkus_never_rejects_too_often(alpha, count):
    """Exactly, for losses of 0 or 1: sum the chances of all outcomes with a p-value ≤ level."""
    outcomes = np.arange(count + 1)
    p_values = hoeffding_bentkus(outcomes.astype(float), count, alpha)
    chances = binom.pmf(outcomes, count, alpha)
    for level in (0.01, 0.05, 0.1, 0.3):
        assert chances[p_values <= level].sum() <= level


WORLDS = {
    "coin": lambda rng, mean, shape: (rng.random(shape) < mean).astype(float),
    "beta": lambda rng, mean, shape: rng.beta(2 * mean, 2 * (1 - mean), shape),
    "rare and large": lambda rng, mean, shape: np.where(rng.random(shape) < 2 * mean, 0.5, 0.0),
}


@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize(("count", "alpha"), [(50, 0.1), (200, 0.1), (200, 0.3)])
def test_betting_rarely_rejects_a_true_hypothesis(world, count, alpha):
    """At a risk of exactly alpha, 4,000 games: within 3 standard errors of the level or below."""
    repeats = 4000
    losses = WORLDS[world](np.random.default_rng(8), alpha, (count, repeats))
    for level in (0.05, 0.1, 0.3):
        bets = Betting(alpha, level, count)
        bets.update(losses)
        rejected = (bets.p_values() <= level).mean()
        assert rejected <= level + 3 * math.sqrt(level * (1 - level) / repeats)


def test_betting_rejects_a_false_hypothesis():
    losses = WORLDS["coin"](np.random.default_rng(9), 0.05, (500, 1000))
    bets = Betting(0.1, 0.1, 500)
    bets.update(losses)
    assert (bets.p_values() <= 0.1).mean() > 0.9


def test_betting_does_not_depend_on_the_batches():
    rng = np.random.default_rng(2)
    losses = rng.random((150, 6)) * rng.random(6)
    losses[rng.random((150, 6)) < 0.2] = np.nan  # items a game leaves out
    counts = (~np.isnan(losses)).sum(axis=0)
    slow = [
        brute_force.betting(column[~np.isnan(column)], 0.3, 0.1, count)
        for column, count in zip(losses.T, counts, strict=True)
    ]
    for cuts in ([], [1], [10, 11, 100], range(1, 150)):
        bets = Betting(0.3, 0.1, counts)
        for block in np.split(losses, cuts):
            bets.update(block)
        assert bets.p_values() == pytest.approx(slow)
    assert min(slow) < 0.1 < max(slow)


def test_a_sum_that_rounding_made_larger_is_the_same_sum():
    rounded = np.nextafter(3.0, 4.0)
    for alpha in (0.1, 0.3):
        assert hoeffding_bentkus(rounded, 50, alpha) == pytest.approx(
            hoeffding_bentkus(3.0, 50, alpha), rel=1e-9
        )


@pytest.mark.parametrize("count", [1, 2, 3])
def test_betting_on_few_items_at_a_high_level(count):
    """The stakes depend on the number of items, down to a single one."""
    losses = np.linspace(0, 0.2, count)
    bets = Betting(0.5, 0.9, count)
    bets.update(losses[:, None])
    assert bets.p_values() == pytest.approx([brute_force.betting(losses, 0.5, 0.9, count)])
