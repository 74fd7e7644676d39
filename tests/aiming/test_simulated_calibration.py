"""The value of rows after calibration, against sums over every action."""

import numpy as np
import pytest

import tether
from tether.aiming.simulated_calibration import join_tables, tables_of
from tether.aiming.training_rows import as_rows

RNG = np.random.default_rng(0)
SAFE_CHANCES = RNG.dirichlet(np.ones(3) * 2, size=4)
CHANCES = RNG.dirichlet(np.ones(3), size=4)
SAFE = tether.Categorical.from_probabilities(SAFE_CHANCES)
OPTIMIZED = tether.Categorical.from_probabilities(CHANCES)
REWARD = RNG.normal(size=(4, 3))


def rows_of(n, rng):
    contexts = rng.integers(4, size=n)
    actions = SAFE.sample(contexts, rng)
    return as_rows(contexts, actions, 0.5 * (actions == 2), REWARD[contexts, actions])


@pytest.mark.parametrize("family", ["clip", "mix"])
def test_values_are_unbiased_for_the_policy_that_is_served(family):
    """Whatever the reward model: here it is wrong."""
    rng = np.random.default_rng(1)
    rows = rows_of(40_000, rng)
    wrong = lambda contexts, actions: 0.3 * np.asarray(actions) - 1.0  # noqa: E731
    tables = tables_of("plain", OPTIMIZED, family, SAFE, rows, wrong, rng)
    index = np.arange(len(rows))
    found = tables.calibrate(index[:400], 0.2, 1.0)
    values = tables.values(index, found)
    served = np.exp(tether.Tethered(SAFE, OPTIMIZED, found).log_prob_all(np.arange(4)))
    expected = (served * REWARD).sum(axis=1).mean()
    error = values.std() / np.sqrt(len(values))
    assert abs(values.mean() - expected) < 4 * error + 0.02  # contexts are drawn, too


def test_a_perfect_reward_model_leaves_the_sum_over_actions():
    rng = np.random.default_rng(2)
    rows = rows_of(200, rng)
    perfect = lambda contexts, actions: REWARD[contexts, actions]  # noqa: E731
    tables = tables_of("plain", OPTIMIZED, "clip", SAFE, rows, perfect, rng)
    found = tables.calibrate(np.arange(200), 0.2, 1.0)
    served = np.exp(tether.Tethered(SAFE, OPTIMIZED, found).log_prob_all(rows.contexts))
    expected = (served * REWARD[rows.contexts]).sum(axis=1)
    assert tables.values(np.arange(200), found) == pytest.approx(expected)


def test_it_calibrates_as_a_user_would():
    rng = np.random.default_rng(3)
    rows = rows_of(300, rng)
    flat = lambda contexts, actions: np.zeros(len(actions))  # noqa: E731
    tables = tables_of("plain", OPTIMIZED, "clip", SAFE, rows, flat, rng)
    log = tether.make_log(SAFE, OPTIMIZED, rows.contexts, rows.actions, rows.losses)
    assert tables.calibrate(np.arange(300), 0.2, 1.0).log_beta == pytest.approx(
        tether.calibrate(log, alpha=0.2).log_beta
    )


def test_a_shortlist_is_valued_over_its_candidates():
    rng = np.random.default_rng(4)
    rows = rows_of(30_000, rng)
    shortlist = tether.Shortlist(SAFE, OPTIMIZED, size=3)
    flat = lambda contexts, actions: np.zeros(len(actions))  # noqa: E731
    tables = tables_of("short", shortlist, "clip", SAFE, rows, flat, rng)
    found = tables.calibrate(np.arange(400), 0.2, 1.0)
    values = tables.values(np.arange(len(rows)), found)
    contexts = rng.integers(4, size=100_000)
    drawn = shortlist.tethered(found).sample(contexts, rng)
    earned = REWARD[contexts, drawn]
    error = np.hypot(values.std() / np.sqrt(len(values)), earned.std() / np.sqrt(len(earned)))
    assert abs(values.mean() - earned.mean()) < 4 * error


def test_values_are_unbiased_where_another_policy_took_the_actions():
    rng = np.random.default_rng(5)
    logged_by = tether.Mixture([SAFE, OPTIMIZED], [1, 2])
    contexts = rng.integers(4, size=40_000)
    actions = logged_by.sample(contexts, rng)
    rows = as_rows(contexts, actions, 0.5 * (actions == 2), REWARD[contexts, actions])
    flat = lambda contexts, actions: np.zeros(len(actions))  # noqa: E731
    given = ("plain", OPTIMIZED, "clip", SAFE, rows, flat, rng)
    tables = tables_of(*given, logged_by)
    found = tables.calibrate(np.arange(400), 0.2, 1.0)
    served = np.exp(tether.Tethered(SAFE, OPTIMIZED, found).log_prob_all(np.arange(4)))
    values = tables.values(np.arange(40_000), found)
    error = values.std() / np.sqrt(len(values))
    assert abs(values.mean() - (served * REWARD).sum(axis=1).mean()) < 4 * error
    biased = tables_of(*given).values(np.arange(40_000), found)  # as if the safe policy had acted
    assert abs(biased.mean() - (served * REWARD).sum(axis=1).mean()) > 10 * error
    log = tether.make_log(
        SAFE, OPTIMIZED, contexts[:400], actions[:400], rows.losses[:400], logged_by=logged_by
    )
    assert found.log_beta == pytest.approx(tether.calibrate(log, alpha=0.2).log_beta)
    shortlist = tether.Shortlist(SAFE, OPTIMIZED, size=3)
    with pytest.raises(ValueError, match="'short' is a shortlist"):
        tables_of("short", shortlist, "clip", SAFE, rows, flat, rng, logged_by)


def test_tables_of_parts_are_joined():
    rng = np.random.default_rng(6)
    rows = rows_of(60, rng)
    flat = lambda contexts, actions: np.zeros(len(actions))  # noqa: E731
    whole = tables_of("plain", OPTIMIZED, "clip", SAFE, rows, flat, rng)
    pieces = [
        tables_of("plain", OPTIMIZED, "clip", SAFE, rows.take(part), flat, rng)
        for part in (np.arange(20), np.arange(20, 60))
    ]
    joined = join_tables("plain", pieces, rows.losses)
    assert len(joined) == 60
    index = np.arange(60)
    found = whole.calibrate(index, 0.2, 1.0)
    assert joined.calibrate(index, 0.2, 1.0).log_beta == found.log_beta
    assert (joined.values(index, found) == whole.values(index, found)).all()
    short = tether.Shortlist(SAFE, OPTIMIZED, size=5)
    other = tables_of("plain", short, "clip", SAFE, rows, flat, rng)
    with pytest.raises(ValueError, match="the same number of actions"):
        join_tables("plain", [whole, other], rows.losses)
