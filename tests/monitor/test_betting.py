import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.monitor import slow_definitions
from tether.monitor.betting import STEPS_PER_BLOCK, Wealth, log_cash, log_entry

FACTORS = st.integers(1, 4).flatmap(
    lambda bets: st.lists(
        st.lists(st.floats(0.5, 20), min_size=bets, max_size=bets), min_size=1, max_size=30
    )
)


def test_entries_sum_to_the_cash_that_left():
    steps = np.arange(1.0, 10_001)
    assert np.exp(log_entry(steps)).sum() + np.exp(log_cash(steps[-1])) == pytest.approx(1)
    # Far out, where a difference of cash would have lost half of its digits.
    far = 1e12
    assert math.exp(log_entry(np.array(far))) == pytest.approx(1 / far / (1 + math.log(far)) ** 2)


@settings(deadline=None)
@given(factors=FACTORS)
def test_wealth_is_the_sum_over_bets_and_starting_times(factors):
    log_factors = np.log(np.array(factors).T)
    _, path = Wealth.start(len(log_factors)).play(log_factors)
    expected = [slow_definitions.wealth(factors[: step + 1]) for step in range(len(factors))]
    assert np.exp(path) == pytest.approx(expected, rel=1e-10)


@settings(deadline=None)
@given(factors=FACTORS, cut=st.integers(0, 30))
def test_playing_in_two_parts_gives_the_same_wealth(factors, cut):
    log_factors = np.log(np.array(factors).T)
    start = Wealth.start(len(log_factors))
    at_once, path = start.play(log_factors)
    cut = min(cut, len(factors) - 1)
    if cut:
        first, before = start.play(log_factors[:, :cut])
        second, after = first.play(log_factors[:, cut:])
        assert second.seen == at_once.seen
        assert second.log_bets == pytest.approx(at_once.log_bets, rel=1e-10, abs=1e-10)
        assert np.concatenate([before, after]) == pytest.approx(path, rel=1e-10, abs=1e-10)


@pytest.mark.parametrize("factor", [0.5, 1e6], ids=["always lost", "always won"])
def test_long_runs_stay_finite(factor):
    """Beyond what a float holds in both directions, in blocks and step by step."""
    length = 3 * STEPS_PER_BLOCK + 7
    log_factors = np.full((2, length), math.log(factor))
    _, path = Wealth.start(2).play(log_factors)
    wealth, steps = Wealth.start(2), []
    for column in log_factors.T:
        wealth, step = wealth.play(column[:, None])
        steps.append(step[0])
    assert np.isfinite(path).all()
    assert path == pytest.approx(np.array(steps), rel=1e-10, abs=1e-10)
    if factor < 1:
        assert (path >= log_cash(np.arange(1.0, length + 1))).all()
    else:
        expected = length * math.log(factor) + log_entry(np.array(1.0))
        assert path[-1] == pytest.approx(expected, rel=1e-5)


def test_games_do_not_affect_each_other():
    log_factors = np.log(np.random.default_rng(1).uniform(0.5, 2, size=(3, 5, 700)))
    wealth, paths = Wealth.start(3, (5,)).play(log_factors)
    for game in range(5):
        alone, path = Wealth.start(3).play(log_factors[:, game])
        assert paths[game] == pytest.approx(path)
        assert wealth.log_bets[:, game] == pytest.approx(alone.log_bets)
