"""Aimed candidates: the plain policy, and tilts of it where there is something to aim by."""

import numpy as np

import tether
from tether.aiming import LoggedRows, aim, aimed_candidates, fit_loss

OPTIMIZED = tether.Categorical.from_probabilities([0.2, 0.8])


def rows_of(n, harm):
    rng = np.random.default_rng(0)
    contexts, actions = rng.normal(size=n), rng.integers(2, size=n)
    losses = (rng.random(n) < harm(contexts, actions)).astype(float)
    return LoggedRows(contexts, actions, losses, actions.astype(float))


def test_multiples_and_temperatures_are_named_and_solved():
    rows = rows_of(280, lambda x, a: 0.6 * a * (x > 0))
    build = aimed_candidates(OPTIMIZED, 0.1, multiples=(1.0, 2.0), temperatures=(1.0, 0.5))
    made = build(rows, np.random.default_rng(1))
    assert list(made) == [
        "plain",
        "aimed × 1",
        "aimed × 2",
        "aimed × 1, temperature 0.5",
        "aimed × 2, temperature 0.5",
    ]
    columns = rows.contexts, rows.actions, rows.losses
    model = fit_loss(*columns, rng=np.random.default_rng(1), policies=(OPTIMIZED,))
    expected = aim(OPTIMIZED, model, rows.contexts, 0.1)
    assert made["aimed × 1"].multipliers == expected.multipliers
    assert made["aimed × 2"].multipliers[""] == 2 * expected.multipliers[""]


def test_without_a_pattern_there_is_only_the_plain_policy():
    rows = rows_of(100, lambda x, a: np.full(len(x), 0.3))
    assert list(aimed_candidates(OPTIMIZED, 0.1)(rows, np.random.default_rng(3))) == ["plain"]


def test_a_policy_within_alpha_is_not_tilted():
    rows = rows_of(280, lambda x, a: 0.6 * a * (x > 0))
    assert list(aimed_candidates(OPTIMIZED, 0.9)(rows, np.random.default_rng(3))) == ["plain"]
