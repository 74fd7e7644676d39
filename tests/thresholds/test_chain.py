"""The soft chain on thresholds: exact sums over all data of small worlds, and wrong variants."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tether
from tests.control.test_chain import every_log
from tests.scale import scaled
from tests.thresholds import brute_force as exact
from tether.control.chain import design

# An item has one claim or two, with scores among a few: (probability, claims) each.
KINDS = st.lists(st.tuples(st.sampled_from([0.2, 0.5, 0.8]), st.booleans()), min_size=1, max_size=2)
WORLDS = st.lists(st.tuples(st.integers(1, 9), KINDS), min_size=2, max_size=4)
PROMISES = st.sampled_from([0.2, 0.3, 0.4])


def served_risk(world, rows, promise, shares_of):
    """The expected loss of a new item, summed over all data sets and all draws, in fractions."""
    total = sum(weight for weight, _ in world)
    chance = [Fraction(weight, total) for weight, _ in world]
    expected = Fraction(0)
    for probability, log in every_log(chance, rows):
        thresholds, shares = shares_of([world[number][1] for number in log], promise)
        ends = [*shares[1:], 0.0]
        for threshold, share, after in zip(thresholds, shares, ends, strict=True):
            risk = sum(
                c * exact.fdr(item, threshold) for c, (_, item) in zip(chance, world, strict=True)
            )
            expected += probability * Fraction(share - after) * risk
    return float(expected)


def chain(items, promise):
    found = tether.gcrc(tether.Claims(*exact.flat(items)), promise=promise)
    if found.chain is None:
        return [math.inf], [1.0]
    return found.chain.thresholds.tolist(), found.chain.shares.tolist()


@given(WORLDS, st.integers(6, 10), PROMISES)
@settings(max_examples=scaled(25), deadline=None)
def test_the_expected_loss_is_at_most_the_promise_in_every_small_world(world, rows, promise):
    """Scores are part of the data: which thresholds are candidates differs between data sets."""
    assert served_risk(world, rows, promise, chain) <= promise + 1e-12


def test_shares_are_those_of_the_definition():
    rng = np.random.default_rng(0)
    items = [
        [(round(float(rng.random()), 1), bool(rng.random() < 0.7)) for _ in range(3)]
        for _ in range(30)
    ]
    found = tether.gcrc(tether.Claims(*exact.flat(items)), promise=0.3)
    level, stake = design(30, 0.3)
    capital, lowest, wanted = {}, 1.0, []
    for t in exact.candidates(items, "fdr"):
        capital[t] = math.prod(1 - stake * (float(exact.fdr(item, t)) - level) for item in items)
        lowest = min(lowest, capital[t])
        wanted.append((t, math.floor(lowest * 1024) / 1024))
    by_threshold = dict(zip(found.chain.thresholds, found.chain.shares, strict=True))
    for (t, share), (_, after) in itertools.pairwise([*wanted, (None, 0.0)]):
        if share > after:
            assert by_threshold.pop(t) == pytest.approx(share, abs=1e-12)
    assert not by_threshold
    served = [t for t, share in wanted if share >= found.chain.uniform]
    assert found.threshold == served[-1]


# A world of coins: many thresholds are bad alike, and some of them look good by chance.
COINS, ROWS = 400, 40


def coins_risk(rule, promise):
    repeats = scaled(300)
    rng = np.random.default_rng(5)
    risks = np.append(np.full(COINS, 0.3), 0.0)  # safest last
    served = []
    for _ in range(repeats):
        losses = (rng.random((ROWS, COINS + 1)) < risks).astype(float)
        served.append(rule(losses, promise, risks))
    return np.mean(served), np.std(served) / math.sqrt(repeats)


def right(losses, promise, risks):
    found = tether.gcrc(losses, promise=promise).chain
    mass = -np.diff(np.append(found.shares, 0.0))
    return mass @ risks[found.thresholds.astype(int)]


def without_running_minimum(losses, promise, risks):
    """The boldest threshold with a capital of at least the draw, whatever safer ones say."""
    level, stake = design(len(losses), promise)
    shares = np.minimum(np.prod(1 - stake * (losses - level), axis=0), 1.0)
    largest = np.maximum.accumulate(shares)  # from the boldest on: the first that reaches U serves
    return np.diff(np.append(0.0, largest)) @ risks


def test_the_promise_holds_where_many_thresholds_look_good_by_chance():
    mean, error = coins_risk(right, 0.2)
    assert mean <= 0.2 + 3 * error
    mean, error = coins_risk(without_running_minimum, 0.2)
    assert mean > 0.2 + 3 * error


def test_the_draw_is_recorded_and_depends_on_data_and_seed_alone():
    rng = np.random.default_rng(7)
    losses = rng.random((200, 30)) * np.linspace(0.5, 0, 30)
    one, again = (tether.gcrc(losses, promise=0.2, seed=3) for _ in range(2))
    assert (one.threshold, one.chain.uniform) == (again.threshold, again.chain.uniform)
    draws = [tether.gcrc(losses, promise=0.2, seed=seed).chain.uniform for seed in range(40)]
    assert len(set(draws)) == 40
    assert 0.3 < np.mean(draws) < 0.7
    other = tether.gcrc(losses[::-1] * 0.999, promise=0.2, seed=3)
    assert other.chain.uniform != one.chain.uniform


def test_the_condition_is_stated_where_the_safest_threshold_costs_something():
    losses = np.zeros((400, 2))
    losses[:28] = 1
    fine = tether.gcrc(losses, promise=0.1)
    assert fine.useful == (fine.chain.level >= 0.07)
    assert "if the safest threshold costs at most" in fine.statement
    losses[:60] = 1
    above = tether.gcrc(losses, promise=0.1)
    assert not above.useful
    assert "costs at most" in above.warnings[0]
    assert not tether.gcrc(np.zeros((5, 2)), promise=0.05).exists  # too few items


def test_a_threshold_per_item_is_drawn_with_the_shares_of_the_chain():
    rng = np.random.default_rng(8)
    scores = rng.random(1500)
    claims = tether.Claims(scores, rng.random(1500) < scores, np.arange(0, 1501, 5))
    found = tether.gcrc(claims, promise=0.15, spread=True)
    new = np.tile(found.chain.thresholds[np.isfinite(found.chain.thresholds)], 3000)
    items = np.repeat(np.arange(3000), len(new) // 3000)
    kept = tether.filter_claims(found, new, items=items, rng=rng).reshape(3000, -1)
    shares = found.chain.shares[np.isfinite(found.chain.thresholds)]
    assert np.abs(kept.mean(axis=0) - shares).max() < 0.05
    with pytest.raises(ValueError, match="items and rng"):
        tether.filter_claims(found, new)


def test_several_losses_and_what_the_chain_does_not_take():
    rng = np.random.default_rng(9)
    scores = rng.random(2000)
    claims = tether.Claims(scores, rng.random(2000) < scores, np.arange(0, 2001, 5))
    both = tether.gcrc(claims, promise=[0.1, 0.4], loss=["fdr", "any_false"])
    for part in both.by_loss:
        alone = tether.gcrc(claims, promise=part.alpha, loss=part.loss)
        for t in (0.5, 0.7, 0.8, 0.9):  # how often a threshold of at most t is served
            at, own = (
                each.shares[each.thresholds <= t].max(initial=0.0)
                for each in (part.chain, alone.chain)
            )
            assert at <= own
    for name, value in (("weighted", np.ones(400)), ("lipschitz", 1.0), ("alpha", 0.1)):
        with pytest.raises((TypeError, ValueError), match=name):
            tether.gcrc(claims, promise=0.1, **{name.replace("weighted", "weights"): value})
