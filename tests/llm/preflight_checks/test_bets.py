"""Bets gain nothing against right scores, exactly, and much against wrong ones."""

import itertools

import numpy as np
import pytest

from tether._core.averaged_bets import log_average
from tether.llm.preflight_checks import bets
from tether.llm.preflight_checks.policy_checks import check_first_tokens
from tether.llm.token_tables import TokenTables

PROBABILITIES = np.array([0.55, 0.3, 0.1, 0.05])


def expected(gains, size=4):
    """The mean gain of every bet over all ways in which so many draws can turn out."""
    total = 0.0
    for draws in itertools.product(range(len(PROBABILITIES)), repeat=size):
        tokens = np.array(draws)
        scores = np.log(PROBABILITIES[tokens])
        total = total + np.exp(scores.sum() + gains(tokens, scores))
    return total


@pytest.mark.parametrize(
    "gains",
    [
        lambda tokens, scores: bets.bet_on_tokens(tokens, scores),
        lambda tokens, scores: bets.bet_on_tokens(tokens, scores, np.log(PROBABILITIES)),
        lambda tokens, scores: bets.bet_on_repeats(tokens[None], scores[None]),
        lambda tokens, scores: bets.bet_on_calls(tokens[:2] == tokens[2:], scores[2:]),
        lambda tokens, scores: bets.bet_on_ratios(np.log([0.1, 0.2, 0.3, 0.4])[tokens] - scores),
    ],
    ids=["tokens", "known tokens", "repeats", "calls", "ratios"],
)
def test_a_bet_against_right_scores_gains_nothing_on_average(gains):
    assert np.allclose(expected(gains), 1.0, atol=1e-12)


@pytest.mark.parametrize("known", [2, 3, 4])
def test_bets_on_all_tokens_of_right_completions_gain_nothing_on_average(known):
    """Over all completions of a chain whose next token depends on the last, with partial tables."""
    rng = np.random.default_rng(known)
    chain = rng.dirichlet(np.full(4, 0.7), size=4)
    total, ends = 0.0, np.array([3])
    for completion in itertools.product(range(4), repeat=4):
        action = np.array([completion])
        before = [0, *completion[:-1]]
        order = np.argsort(-chain[before], axis=1)[:, :known]
        tables = TokenTables(
            row=np.zeros(4, dtype=np.int64),
            position=np.arange(4),
            tokens=order,
            log_probs=np.log(np.take_along_axis(chain[before], order, axis=1)),
        )
        gained = bets.bet_on_positions(tables, [(0,)], action, ends)
        total = total + np.prod(chain[before, completion]) * np.exp(gained)
    assert len(total) == 36 + 6 + 3 * len(bets.GROUP_FACTORS)
    assert np.allclose(total, 1.0, atol=1e-12)


def test_tokens_that_are_impossible_or_unknown():
    table = np.append(np.log(PROBABILITIES), -np.inf)
    tokens = np.array([0, 1, 0, 3])
    with_none, without = (
        bets.bet_on_tokens(tokens, table[tokens], each) for each in (table, table[:-1])
    )
    assert np.allclose(with_none, without)
    assert np.isinf(bets.bet_on_tokens(np.array([4]), table[[4]], table)).all()


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("power", [0.8, 1.25])
def test_other_temperatures_are_found_on_either_side(known, power):
    table = -1.2 * np.log(np.arange(1, 2001))
    table -= np.logaddexp.reduce(table)
    drawn = np.exp(power * table)
    tokens = np.random.default_rng(0).choice(2000, size=1024, p=drawn / drawn.sum())
    gain = log_average(bets.bet_on_tokens(tokens, table[tokens], table if known else None))
    assert bets.verdict(gain) == "fail"


def test_every_prompt_has_its_own_table():
    table = np.log(PROBABILITIES)
    tables, rng = [table, table[::-1]], np.random.default_rng(0)
    tokens = np.concatenate([rng.choice(4, size=100, p=np.exp(each)) for each in tables])
    scores = np.concatenate([tables[0][tokens[:100]], tables[1][tokens[100:]]])
    assert check_first_tokens(tokens, scores, 100, tables).status == "pass"
    assert check_first_tokens(tokens, scores, 100, tables[::-1]).status == "fail"


def test_two_equal_long_completions_are_enough():
    numbers, scores = np.arange(64).reshape(4, 16), np.full((4, 16), -120.0)
    assert bets.verdict(log_average(bets.bet_on_repeats(numbers, scores))) == "pass"
    numbers[0, 1] = numbers[0, 0]
    assert bets.verdict(log_average(bets.bet_on_repeats(numbers, scores))) == "fail"
    numbers, likely = np.zeros((4, 16), dtype=np.int64), np.full((4, 16), -1e-4)
    assert bets.verdict(log_average(bets.bet_on_repeats(numbers, likely))) == "pass"


def test_a_second_call_like_the_first_is_found_where_every_completion_is_likely():
    """Two outcomes, both soon known: repeats say nothing, their order does."""
    equal, scores = np.ones((1, 20), dtype=bool), np.full((1, 20), np.log(0.5))
    assert bets.verdict(log_average(bets.bet_on_calls(equal, scores))) == "fail"
    equal[0, ::2] = False
    assert bets.verdict(log_average(bets.bet_on_calls(equal, scores))) == "pass"


def test_verdicts():
    told = [bets.verdict(np.log(gain)) for gain in (0.1, 99, 101, 9_900, 10_100, np.inf)]
    assert told == ["pass", "pass", "warn", "warn", "fail", "fail"]
    assert bets.verdict(np.nan) == "fail"
