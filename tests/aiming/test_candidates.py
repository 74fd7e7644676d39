"""Aimed candidates: the plain policy, and tilts of it where there is something to aim by."""

from dataclasses import replace

import numpy as np
import pytest

import tether
from tether.aiming import Candidate, LoggedRows, aim, aimed_candidates, fit_loss

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


def test_losses_have_bounds_of_their_own():
    rows = rows_of(280, lambda x, a: 0.6 * a)
    both = {"harm": rows.losses, "cost": 10.0 * rows.losses}
    rows = LoggedRows(rows.contexts, rows.actions, both, rows.rewards)
    alphas, bounds = {"harm": 0.1, "cost": 1.0}, {"harm": 1.0, "cost": 10.0}
    made = aimed_candidates(OPTIMIZED, alphas, bound=bounds)(rows, np.random.default_rng(0))
    assert {name: each.bound for name, each in made["aimed × 1"].loss_models.items()} == bounds


@pytest.mark.parametrize("wrong", [(), (-1.0,), 3.0])
def test_wrong_multiples_are_refused_at_once(wrong):
    with pytest.raises((TypeError, ValueError), match="multiples must"):
        aimed_candidates(OPTIMIZED, 0.1, multiples=wrong)


def test_without_a_pattern_there_is_only_the_plain_policy():
    rows = rows_of(100, lambda x, a: np.full(len(x), 0.3))
    assert list(aimed_candidates(OPTIMIZED, 0.1)(rows, np.random.default_rng(3))) == ["plain"]


def test_a_policy_within_alpha_is_not_tilted():
    rows = rows_of(280, lambda x, a: 0.6 * a * (x > 0))
    assert list(aimed_candidates(OPTIMIZED, 0.9)(rows, np.random.default_rng(3))) == ["plain"]


def test_families_and_shortlists_are_candidates_too():
    rows = rows_of(280, lambda x, a: 0.6 * a * (x > 0))
    build = aimed_candidates(
        OPTIMIZED, 0.1, multiples=(2.0,), temperatures=(1.0,), families=("mix",), sizes=(4,)
    )
    uniform = tether.Categorical.from_probabilities([0.5, 0.5])
    made = build(replace(rows, safe=uniform), np.random.default_rng(1))
    assert list(made) == [
        "plain",
        "shortlist of 4",
        "mix",
        "aimed × 2",
        "aimed × 2, shortlist of 4",
    ]
    assert made["mix"] == Candidate(made["plain"], "mix")
    with pytest.raises(TypeError, match="rows have no safe policy"):
        build(rows, np.random.default_rng(1))


def test_infinitely_many_actions_are_aimed_through_shortlists():
    rng = np.random.default_rng(0)
    safe, optimized = tether.Gaussian(0.0), tether.Gaussian(1.0)
    actions = safe.sample(280, rng)
    losses = (rng.random(280) < 1 / (1 + np.exp(4 - 4 * actions))).astype(float)
    rows = LoggedRows(280, actions, losses, actions, safe)
    made = aimed_candidates(optimized, 0.1, multiples=(1.0,), sizes=(4, 8))(rows, rng)
    names = [f"shortlist of {size}{heat}" for size in (4, 8) for heat in ("", ", temperature 0.5")]
    assert list(made) == [*names, *(f"aimed × 1, {name}" for name in names)]
    drawn = made["shortlist of 8"].draw(500, rng)
    plain, aimed = (
        (np.exp(made[name].required_picker.log_prob_all(drawn)) * (drawn.candidates > 1)).sum()
        for name in ("shortlist of 8", "aimed × 1, shortlist of 8")
    )
    assert aimed < 0.8 * plain  # it picks fewer harmful candidates


def test_a_shortlist_is_aimed_as_it_is():
    rng = np.random.default_rng(0)
    safe = tether.Gaussian(0.0)
    shortlist = tether.Shortlist(safe, lambda contexts, candidates: candidates, size=4)
    actions = safe.sample(280, rng)
    losses = (rng.random(280) < 1 / (1 + np.exp(4 - 4 * actions))).astype(float)
    build = aimed_candidates(shortlist, 0.1, multiples=(1.0,))
    assert list(build(LoggedRows(280, actions, losses, actions), rng)) == ["plain", "aimed × 1"]
